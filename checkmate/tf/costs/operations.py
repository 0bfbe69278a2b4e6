"""Count the operations of each node of a step."""

from __future__ import annotations

from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.trace.loops.inside import operations


def node_operations(folded: FoldedStep) -> list[float]:
    """Return the number of operations of each node."""
    structure = folded.structure
    return [sum(operations(structure.ops[op]) for op in members) for members in folded.nodes]
