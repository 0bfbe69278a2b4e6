"""What the command palette finds for a query; no Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.presenters.layer_query import HELP, LayerQuery, parse
from checkmate.ir.graph import Phase
from checkmate.units import plural

_MOST, _PART = 40, 2
COMMAND = "command"


@dataclass(frozen=True)
class PaletteEntry:
    """One thing to do or to go to.

    ``kind`` is command, layer, schedule or op; ``hint`` is its shortcut, or a figure; ``detail`` says more.
    ``size`` are the bytes that a layer or an op writes, in its ``phases``; ``recomputed``: the schedule on
    screen runs it again.
    """

    kind: str
    title: str
    hint: str
    run: Callable[[], object]
    detail: str = ""
    size: int = 0
    phases: frozenset[Phase] = frozenset()
    recomputed: bool = False


@dataclass(frozen=True)
class Matches:
    """What was found, best first, and a sentence.

    ``said`` is for the user: that nothing was found, or not all is shown; else empty.
    """

    entries: tuple[PaletteEntry, ...]
    said: str = ""


def search(query: str, entries: Sequence[PaletteEntry]) -> Matches:
    """Find the entries that contain every word of the query, best first.

    ``>`` before the query asks for commands alone. Titles that begin with all of the query come first. A word
    that begins the title counts most, then one that is a word of it, then one that begins a word. Letters in
    their order count only if nothing has the words. Of equally good ones the largest comes first. Conditions
    such as ``size>10M`` ask for layers and ops alone.
    """
    text = query.strip()
    if text.startswith(">"):
        entries = [entry for entry in entries if entry.kind == COMMAND]
        wanted = LayerQuery(tuple(text[1:].lower().split()))
    else:
        wanted = parse(text)
    if wanted.limited:
        entries = [
            entry
            for entry in entries
            if entry.phases and wanted.holds(entry.size, entry.phases, entry.recomputed)
        ]
    elif not wanted.words:
        entries = [entry for entry in entries if entry.kind == COMMAND]
        return Matches(tuple(entries[:_MOST]), wanted.problem)
    # With every word as it is, and with its letters alone.
    whole, loose = list[tuple[bool, int, int, int, int]](), list[tuple[bool, int, int, int, int]]()
    phrase = " ".join(wanted.words)
    for number, entry in enumerate(entries):
        title = entry.title.lower()
        scores = [_score(word, title) for word in wanted.words]
        if (least := min(scores, default=_PART)) > 0:
            fitting = whole if least >= _PART else loose
            begins = title.startswith(phrase)
            fitting.append((not begins, -sum(scores), -entry.size, len(entry.title), number))
    scored = whole or loose
    found = tuple(entries[number] for *_, number in sorted(scored)[:_MOST])
    return Matches(found, wanted.problem or _said(text, len(found), len(scored)))


def _said(text: str, shown: int, found: int) -> str:
    if not found:
        searched = "Names of layers, ops, schedules and commands are searched"
        return f"Nothing matches “{text}”. {searched}; also {HELP}."
    return (
        f"{shown} of {plural(found, 'match', 'matches')}: type more to see others." if found > shown else ""
    )


def _score(word: str, title: str) -> int:
    if title.startswith(word):
        return _PART + 3
    best, at = 0, title.find(word)
    while at > 0:
        begins = not title[at - 1].isalnum()
        ends = not title[at + len(word) :][:1].isalnum()
        best, at = max(best, _PART + begins + (begins and ends)), title.find(word, at + 1)
    if best:
        return best
    letters = iter(title)
    return int(len(word) > 2 and all(letter in letters for letter in word))
