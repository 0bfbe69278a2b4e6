"""Keep results in memory, not what they are computed from.

XLA:CPU computes cheap ops again in each fusion that reads them, whatever the sizes. So a step holds dropout's
random bits until its backward pass, not the mask, which is a quarter of them. And it holds a convolution and
what is added to it, where the schedule keeps the sum alone. A conditional keeps the result: it is no part of
a fusion. On a GPU it would stop the stream, so nothing is pinned there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.walks import source
from checkmate.backends.tf.xla.kinds import is_cheap, is_product, makes_less
from checkmate.backends.tf.xla.ties import Ties, can_be_tied

_SMALLER = 2  # times less than the largest value it is made of
_LEAST = 16 * 2**10  # bytes; what is less is not worth a conditional

Instance = tuple[int, int]  # a value, and the position at which it is made


def small_results(folded: FoldedStep) -> frozenset[int]:
    """Return the values that are far smaller than what they are made of.

    They need two readers that XLA may fuse them into. A product is in no fusion: where it reads a value, XLA
    keeps that anyhow.
    """
    structure = folded.structure
    ops = [structure.ops[member] for node in folded.nodes for member in node]
    fused = [op for op in ops if not is_product(op)]
    readers = Counter(name for op in fused for name in {source(tensor).name for tensor in op.inputs})
    return frozenset(
        value
        for value, (index, output) in enumerate(folded.values)
        if output == 0 and _is_small(op := structure.ops[index]) and readers[op.outputs[0].name] > 1
    )


def _is_small(op: tf.Operation) -> bool:
    made = _bytes(op.outputs[0])
    most = max(map(_bytes, op.inputs), default=0)
    return makes_less(op) and made >= _LEAST and _SMALLER * made <= most


def _bytes(tensor: tf.Tensor) -> int:
    return int(tensor.shape.num_elements() * tensor.dtype.size) if tensor.shape.is_fully_defined() else 0


def held_results(folded: FoldedStep, steps: Sequence[int]) -> frozenset[Instance]:
    """Return the results of a schedule that stand for more than they take.

    Such a result is kept past a product, while values that it is made of, and that take more, are not.
    """
    graph = folded.graph
    products = [0]
    for node in steps:
        products.append(products[-1] + any(map(is_product, _ops(folded, node))))
    last, behind = _lives(folded, steps)
    found = set()
    for made, leaves in behind.items():
        end, bytes_ = last.get(made, made[1]), graph.values[made[0]].bytes
        gone = sum(graph.values[leaf[0]].bytes for leaf in leaves if last.get(leaf, leaf[1]) < end)
        if bytes_ >= _LEAST and gone > bytes_ and products[end] > products[made[1] + 1]:
            found.add(made)
    return frozenset(found)


def _lives(
    folded: FoldedStep, steps: Sequence[int]
) -> tuple[dict[Instance, int], dict[Instance, frozenset[Instance]]]:
    """Return where values are read last, and what cheap ones are made of."""
    last: dict[Instance, int] = {}
    behind: dict[Instance, frozenset[Instance]] = {}
    newest: dict[int, Instance] = {}
    for position, node in enumerate(steps):
        op = folded.graph.ops[node]
        read = [newest[value] for value in op.inputs if value in newest]
        last.update((each, position) for each in read)
        leaves = frozenset(leaf for each in read for leaf in behind.get(each, (each,)))
        newest.update((value, (value, position)) for value in op.outputs)
        if all(map(is_cheap, _ops(folded, node))):
            behind.update(((value, position), leaves) for value in op.outputs)
    return last, behind


def _ops(folded: FoldedStep, node: int) -> Iterator[tf.Operation]:
    return (folded.structure.ops[member] for member in folded.nodes[node])


@dataclass(eq=False)
class Pins:
    """Makes values stay in memory, without changing them.

    The predicate is always true, but computed from one of ``arguments``. So XLA cannot leave out the other
    branch. Where nothing can be computed from any of them, nothing is pinned.
    """

    ties: Ties
    arguments: Sequence[tf.Tensor]
    anchor: tf.Tensor | None = field(init=False)

    def __post_init__(self) -> None:
        self.anchor = next((each for each in self.arguments if can_be_tied(each)), None)

    def pinned(self, value: tf.Tensor, scope: str) -> tf.Tensor:
        """Return ``value``, bit by bit, as something that is kept."""
        if self.anchor is None:
            return value
        with tf.control_dependencies(None), tf.name_scope(f"{scope}/pin"):
            always = self.ties.always(self.anchor)
            return tf.cond(always, lambda: tf.identity(value), lambda: tf.zeros_like(value))
