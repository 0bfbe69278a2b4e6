"""What the filter of layers and the search understand; no Qt."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from app.layout.layer_rows import LayerSizes
from checkmate.ir.graph import Phase
from checkmate.units import format_bytes, parse_bytes

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
    """What is looked for: all ``words`` in the name, and what else must hold.

    ``sizes``: (comparison, bytes). ``problem``: a sentence about what is not understood.
    """

    words: tuple[str, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    phase: Phase | None = None
    recomputed: bool = False
    problem: str = ""

    @property
    def limited(self) -> bool:
        """Return whether it asks for more than words."""
        return bool(self.sizes or self.phase or self.recomputed)

    def holds(self, size: int, phases: Collection[Phase], recomputed: bool) -> bool:
        """Return whether all but the words hold."""
        return (
            all(_COMPARE[sign](size, limit) for sign, limit in self.sizes)
            and (self.phase is None or self.phase in phases)
            and (recomputed or not self.recomputed)
        )


def parse(text: str) -> LayerQuery:
    """Return what ``text`` asks for; what is still being typed limits nothing."""
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
    """A layer in the list.

    Its ops write ``bytes``, which is ``share`` of what the largest layer writes. ``op`` writes most of them.
    """

    name: str
    bytes: int
    share: float
    op: int


def layer_rows(
    layers: Sequence[LayerSizes], query: LayerQuery, again: Collection[int], *, by_size: bool
) -> tuple[LayerRow, ...]:
    """Return the layers that are looked for.

    They are sorted by size, or in the order of the step. Sizes are of the phase that is asked for, or of the
    activations. ``again``: the ops that the schedule on screen recomputes.
    """
    phase = query.phase
    sized = [(layer, layer.bytes(phase)) for layer in layers if layer.has(phase)]
    most = max((size for _, size in sized), default=1) or 1
    found = [(layer, size) for layer, size in sized if _is_wanted(layer, size, query, again)]
    if by_size:
        found.sort(key=lambda pair: -pair[1])
    return tuple(LayerRow(layer.name, size, size / most, layer.op(phase)) for layer, size in found)


def _is_wanted(layer: LayerSizes, size: int, query: LayerQuery, again: Collection[int]) -> bool:
    if query.words:
        name = layer.name.lower()
        if not all(word in name for word in query.words):
            return False
    recomputed = query.recomputed and any(op in again for op in layer.ops)
    return not query.limited or query.holds(size, layer.bytes_of.keys(), recomputed)
