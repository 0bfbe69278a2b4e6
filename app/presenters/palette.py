"""What the command palette finds for a query; no Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MOST = 40
COMMAND = "command"


@dataclass(frozen=True)
class PaletteEntry:
    """One thing to do or to go to.

    ``kind`` is command, layer, schedule or op; ``hint`` is its shortcut, or a figure.
    """

    kind: str
    title: str
    hint: str
    run: Callable[[], object]


def matching(query: str, entries: Sequence[PaletteEntry]) -> list[PaletteEntry]:
    """Return the entries that contain every word of the query, best first.

    ``>`` before the query asks for commands alone. A word that begins the title counts most, then one that
    begins a word of it, then letters in their order.
    """
    text = query.strip().lower()
    if text.startswith(">"):
        entries = [entry for entry in entries if entry.kind == COMMAND]
        text = text[1:].strip()
    words = text.split()
    if not words:
        return [entry for entry in entries if entry.kind == COMMAND][:_MOST]
    scored = []
    for number, entry in enumerate(entries):
        scores = [_score(word, entry.title.lower()) for word in words]
        if min(scores) > 0:
            scored.append((-sum(scores), len(entry.title), number))
    return [entries[number] for _, _, number in sorted(scored)[:_MOST]]


def _score(word: str, title: str) -> int:
    if title.startswith(word):
        return 4
    at = title.find(word)
    if at > 0:
        return 3 if not title[at - 1].isalnum() else 2
    letters = iter(title)
    return int(len(word) > 2 and all(letter in letters for letter in word))
