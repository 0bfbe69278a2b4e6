"""A part of a model that is computed again as one."""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.ir import Graph, Phase
from checkmate.runner import TENSORFLOW


@dataclass(frozen=True)
class Segment:
    """The units from ``first`` up to ``end``, without it, that are computed again as one.

    ``name``: of the module or scope; empty for a run of layers. ``again``: the ops that run again, in order,
    right before the late op ``before``. ``reads``: the buffers, by their owners, that are read from outside.
    ``cost``: that of ``again``, in the graph's unit. ``freed``: about the bytes that need no longer stay
    between the passes. ``kept``: what is not computed again inside: layers of Keras, else types of ops.
    ``held``: the buffers, by their owners, that are held for it until the backward pass.
    """

    name: str
    first: int
    end: int
    again: tuple[int, ...]
    before: int
    reads: tuple[int, ...]
    cost: float
    freed: int
    kept: tuple[str, ...] = ()
    held: tuple[int, ...] = ()

    def overlaps(self, other: Segment) -> bool:
        return self.first < other.end and other.first < self.end


def is_keras(graph: Graph) -> bool:
    return graph.runner.backend == TENSORFLOW


def in_forward(graph: Graph, op: int) -> bool:
    return graph.ops[op].phase is Phase.FORWARD
