"""What the filter of layers and the command palette find for a query."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from app.layout.grouping import LayerSizes
from checkmate.ir import Phase
from checkmate.units import format_bytes, parse_bytes, plural

HELP = "size>10M, recomputed, phase:backward"
_SIZE = re.compile(r"size(>=|<=|>|<|=)(.*)", re.IGNORECASE)
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": lambda one, other: format_bytes(one) == format_bytes(other),
}
_SHORT = {"fwd": Phase.FORWARD, "bwd": Phase.BACKWARD}


@dataclass(frozen=True)
class LayerQuery:
    """All ``words`` must be in the name. ``sizes``: (comparison, bytes). ``problem``: a sentence about what
    is not understood."""

    words: tuple[str, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    phase: Phase | None = None
    recomputed: bool = False
    problem: str = ""

    @property
    def limited(self) -> bool:
        return bool(self.sizes or self.phase or self.recomputed)

    def holds(self, size: int, phases: Collection[Phase], recomputed: bool) -> bool:
        return (
            all(_COMPARE[sign](size, limit) for sign, limit in self.sizes)
            and (self.phase is None or self.phase in phases)
            and (recomputed or not self.recomputed)
        )


def parse(text: str) -> LayerQuery:
    """What is still being typed limits nothing."""
    words: list[str] = []
    sizes: list[tuple[str, int]] = []
    phase, recomputed, problem = None, False, ""
    for token in text.split():
        size, lower = _SIZE.fullmatch(token), token.lower()
        if size is not None:
            try:
                sizes += [(size[1], parse_bytes(size[2]))] if size[2] else []
            except ValueError:
                problem = f"“{size[2]}” is no size; write it like size>10M."
        elif lower.startswith("phase:"):
            name = lower.removeprefix("phase:")
            found = _SHORT.get(name) or next((one for one in Phase if one.value.startswith(name)), None)
            if found is None:
                problem = f"“{name}” is no phase. There are forward, loss, backward and update."
            elif name:
                phase = found
        elif lower == "recomputed":
            recomputed = True
        else:
            words.append(lower)
    return LayerQuery(tuple(words), tuple(sizes), phase, recomputed, problem)


@dataclass(frozen=True)
class LayerRow:
    """A layer's ops of ``phase`` write ``bytes``, ``share`` of what the largest layer writes; phase None: its
    activations. ``op`` writes most of them."""

    name: str
    bytes: int
    share: float
    op: int
    phase: Phase | None
    detail: str = ""

    @property
    def figure(self) -> str:
        return format_bytes(self.bytes)

    @property
    def tip(self) -> str:
        what = "of activations" if self.phase is None else f"written by its {self.phase.value} ops"
        return f"{self.name}: {self.figure} {what}"


def layer_rows(
    layers: Sequence[LayerSizes], query: LayerQuery, again: Collection[int], *, by_size: bool
) -> tuple[LayerRow, ...]:
    """The layers that are looked for, by size or in the order of the step. Sizes are of the phase that is
    asked for, or of the activations. ``again``: the ops that the schedule on screen recomputes."""
    phase = query.phase
    sized = [(layer, layer.bytes(phase)) for layer in layers if layer.has(phase)]
    most = max((size for _, size in sized), default=1) or 1
    found = [(layer, size) for layer, size in sized if _is_wanted(layer, size, query, again)]
    if by_size:
        found.sort(key=lambda pair: -pair[1])
    return tuple(LayerRow(layer.name, size, size / most, layer.op(phase), phase) for layer, size in found)


def _is_wanted(layer: LayerSizes, size: int, query: LayerQuery, again: Collection[int]) -> bool:
    if query.words:
        name = layer.name.lower()
        if not all(word in name for word in query.words):
            return False
    recomputed = query.recomputed and any(op in again for op in layer.ops)
    return not query.limited or query.holds(size, layer.bytes_of.keys(), recomputed)


_MOST, _PART = 40, 2
COMMAND = "command"


@dataclass(frozen=True)
class PaletteEntry:
    """``kind`` is command, layer, schedule or op; ``hint`` is its shortcut, or a figure. ``size`` are the
    bytes that a layer or an op writes, in its ``phases``; ``recomputed``: the schedule on screen runs it
    again."""

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
    """What was found, best first. ``said``: that nothing was found, or not all is shown; else empty."""

    entries: tuple[PaletteEntry, ...]
    said: str = ""


def search(query: str, entries: Sequence[PaletteEntry]) -> Matches:
    """Find the entries that contain every word of the query, best first; ``>`` before it asks for commands
    alone.

    Titles that begin with all of the query come first. A word that begins the title counts most, then one
    that is a word of it, then one that begins a word. Letters in their order count only if nothing has the
    words. Of equally good ones the largest comes first. Conditions such as ``size>10M`` ask for layers and
    ops alone."""
    text = query.strip()
    if text.startswith(">"):
        entries = [entry for entry in entries if entry.kind == COMMAND]
        wanted = LayerQuery(tuple(text[1:].lower().split()))
    else:
        wanted = parse(text)
    if wanted.limited:
        some = [entry for entry in entries if entry.phases]
        entries = [entry for entry in some if wanted.holds(entry.size, entry.phases, entry.recomputed)]
    elif not wanted.words:
        entries = [entry for entry in entries if entry.kind == COMMAND]
        return Matches(tuple(entries[:_MOST]), wanted.problem)
    # Entries that contain every word as it is, and those that contain its letters in order.
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
