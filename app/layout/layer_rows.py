"""The layers of a graph as rows of a list; no Qt."""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.ir.graph import Graph, Phase


@dataclass(frozen=True)
class LayerRow:
    """A layer in the list.

    Its forward ops write ``bytes``, which is ``share`` of what the largest layer writes. ``op`` writes most
    of them.
    """

    name: str
    bytes: int
    share: float
    op: int


def layer_rows(graph: Graph) -> tuple[LayerRow, ...]:
    """Return a row for each layer of the forward pass, in its order."""
    sizes: dict[str, int] = {}
    largest: dict[str, tuple[int, int]] = {}
    for index, op in enumerate(graph.ops):
        if op.phase in (Phase.FORWARD, Phase.LOSS):
            written = sum(graph.values[value].bytes for value in op.outputs)
            name = op.group or op.name
            sizes[name] = sizes.get(name, 0) + written
            largest[name] = max(largest.get(name, (-1, index)), (written, index))
    most = max(sizes.values(), default=1) or 1
    return tuple(LayerRow(name, size, size / most, largest[name][1]) for name, size in sizes.items())
