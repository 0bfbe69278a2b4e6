"""The layers of a graph, and what they write; no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from checkmate.ir.graph import Graph, Phase


@dataclass(frozen=True)
class LayerSizes:
    """A layer, its ops, and the bytes that they write in each phase.

    ``largest``: by phase, (bytes, op) of the op that writes most.
    """

    name: str
    ops: tuple[int, ...]
    bytes_of: Mapping[Phase, int] = field(default_factory=dict)
    largest: Mapping[Phase, tuple[int, int]] = field(default_factory=dict)

    def bytes(self, phase: Phase | None) -> int:
        """Return what its ops of the phase write; None: its activations."""
        get = self.bytes_of.get
        return get(Phase.FORWARD, 0) + get(Phase.LOSS, 0) if phase is None else get(phase, 0)

    def op(self, phase: Phase | None) -> int:
        """Return the op of the phase that writes most."""
        largest = self.largest
        if phase is not None:
            return largest[phase][1]
        return max(largest[one] for one in (Phase.FORWARD, Phase.LOSS) if one in largest)[1]

    def has(self, phase: Phase | None) -> bool:
        """Return whether it has ops of the phase; None: of the forward pass."""
        of = self.bytes_of
        return Phase.FORWARD in of or Phase.LOSS in of if phase is None else phase in of


def layers_of(graph: Graph) -> tuple[LayerSizes, ...]:
    """Return the layers in the order of their first ops."""
    ops: dict[str, list[int]] = {}
    for index, op in enumerate(graph.ops):
        ops.setdefault(op.group or op.name, []).append(index)
    return tuple(_layer(graph, name, found) for name, found in ops.items())


def _layer(graph: Graph, name: str, ops: list[int]) -> LayerSizes:
    bytes_of: dict[Phase, int] = {}
    largest: dict[Phase, tuple[int, int]] = {}
    for index in ops:
        op = graph.ops[index]
        written = sum(graph.values[value].bytes for value in op.outputs)
        bytes_of[op.phase] = bytes_of.get(op.phase, 0) + written
        largest[op.phase] = max(largest.get(op.phase, (-1, index)), (written, index))
    return LayerSizes(name, tuple(ops), bytes_of, largest)
