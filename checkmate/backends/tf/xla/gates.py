"""Let XLA:CPU compute what nothing waits for before it goes on.

It takes ops as soon as their operands are there, those of the backward pass one beside the other. So the
gradient of a convolution's filter is begun with the product for the layer before: its copies, the slope and
that product are held at once. The gradients come first here, and the product waits for them, by a select on
its smallest operand, as a rule a weight. A select copies that, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.kinds import is_product, is_sum
from checkmate.backends.tf.xla.ties import Ties, can_be_tied
from checkmate.ir.graph import Graph

_COPIED = 4  # times smaller than the largest operand is what a select may copy
_REACH = 200  # steps; a gradient is not moved further


def ends(graph: Graph) -> frozenset[int]:
    """Return the nodes that are computed only to update something.

    What they make is read by nodes that make nothing, or by light ops.
    """
    last = {node for node, op in enumerate(graph.ops) if not op.outputs}
    going_on = {value for node, op in enumerate(graph.ops) if node not in last for value in op.inputs}
    return frozenset(
        node
        for node, op in enumerate(graph.ops)
        if going_on.isdisjoint(op.outputs) and not any(graph.values[value].keep for value in op.outputs)
    )


def ends_first(folded: FoldedStep, ends: frozenset[int], steps: Sequence[int]) -> list[int]:
    """Return the positions of ``steps`` in an order with gradients first.

    A gradient by weights comes before the product that reads the same slope, with what is computed for it in
    between. What a step reads is always made before it.
    """
    ops = folded.graph.ops
    products = [any(is_product(folded.structure.ops[each]) for each in node) for node in folded.nodes]
    order: list[int] = []
    for position, node in enumerate(steps):
        order.append(position)
        if node not in ends or not products[node]:
            continue
        slopes, needed, moved = set(ops[node].inputs), set(ops[node].inputs), [position]
        for place in range(len(order) - 2, max(-1, len(order) - _REACH), -1):
            other = steps[order[place]]
            makes_operand = not needed.isdisjoint(ops[other].outputs)
            if makes_operand and products[other] and not slopes.isdisjoint(ops[other].outputs):
                break
            if makes_operand:
                moved.append(order[place])
                needed.update(ops[other].inputs)
            elif products[other] and other not in ends and not slopes.isdisjoint(ops[other].inputs):
                kept = [each for each in order[place:] if each not in moved]
                order[place:] = [*reversed(moved), *kept]
                break
    return order


@dataclass(eq=False)
class Gate:
    """Makes products wait for the ends before them.

    ``ends``: the nodes that nothing of the chain waits for.
    """

    ties: Ties
    ends: frozenset[int]
    passed: list[tf.Tensor] = field(default_factory=list)

    def waits(self, node: int, original: tf.Operation) -> bool:
        return bool(self.passed) and node not in self.ends and is_product(original)

    def tied(self, operand: tf.Tensor, largest: int, scope: str) -> tf.Tensor:
        """Return ``operand`` as something that waits, if it is small.

        ``largest``: bytes of the op's largest operand.
        """
        if _COPIED * operand.shape.num_elements() * operand.dtype.size > largest:
            return operand
        passed, self.passed = self.passed, []
        return self.ties.tie(operand, passed, scope)

    def note(self, node: int, original: tf.Operation, copy: tf.Operation) -> None:
        """Note what an op has made, if nothing waits for that."""
        if node in self.ends and (is_product(original) or is_sum(original)):
            self.passed += [tensor for tensor in copy.outputs[:1] if can_be_tied(tensor)]
