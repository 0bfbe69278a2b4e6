"""Count the operations of each node of a step."""

from __future__ import annotations

from checkmate.tf import private
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.trace.dataflow import Structure


def node_operations(folded: FoldedStep) -> list[float]:
    """Return the number of operations of each node."""
    structure = folded.structure
    return [sum(_operations(structure, op) for op in members) for members in folded.nodes]


def _operations(structure: Structure, index: int) -> float:
    """Return the number of operations of the op at ``index``."""
    op = structure.ops[index]
    counted = private.flops(structure.traced.graph, op)
    if counted is not None:
        return counted
    return float(
        sum(tensor.shape.num_elements() or 0 for tensor in op.outputs if tensor.shape.is_fully_defined())
    )
