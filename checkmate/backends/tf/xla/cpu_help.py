"""Selects and conditionals by which XLA keeps a schedule, as ops of TensorFlow.

XLA cannot merge an op with an equal earlier one if its input is a *select* on a predicate that is not known
at compile time. The predicate is computed from a value of an earlier step, and is always true. The select is
fused into the op that reads it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.walks import source
from checkmate.backends.tf.xla.op_costs import is_cheap, is_product, makes_less
from checkmate.backends.xla_policy.for_cpu import (
    Instance,
    Stage,
    ends_first,
    ends_of_graph,
    held_results,
    small_results,
)
from checkmate.backends.xla_policy.pooling import Windows, can_compare, compared_slope
from checkmate.backends.xla_policy.waits import WaitPolicy

_BITS = {1: tf.uint8, 2: tf.uint16, 4: tf.uint32, 8: tf.uint64}  # by the bytes of an element
_TIED = frozenset(
    {
        tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32,
        tf.uint32, tf.int64, tf.uint64, tf.bool,
    }
)  # fmt: skip


def can_be_tied(tensor: tf.Tensor) -> bool:
    return tensor.dtype in _TIED and tensor.shape.is_fully_defined() and tensor.shape.num_elements() > 0


def tensor_bytes(tensor: tf.Tensor) -> int:
    """0 where the shape is open."""
    return int(tensor.shape.num_elements() * tensor.dtype.size) if tensor.shape.is_fully_defined() else 0


@dataclass(eq=False)
class Ties:
    """The selects and conditionals of one emission.

    Conditionals are on a predicate computed from one of ``arguments``, so that XLA cannot leave out the other
    branch. Where nothing can be computed from any of them, nothing is pinned.
    """

    arguments: Sequence[tf.Tensor] = ()
    predicates: dict[str, tf.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._anchor = next((each for each in self.arguments if can_be_tied(each)), None)

    def tie(self, operand: tf.Tensor, after: Sequence[tf.Tensor], scope: str) -> tf.Tensor:
        with tf.control_dependencies(None), tf.name_scope(f"{scope}/tie"):
            predicate = functools.reduce(tf.logical_and, map(self.always, after))
            return tf.where(predicate, operand, tf.zeros((), operand.dtype))

    def pin(self, value: tf.Tensor, scope: str) -> tf.Tensor:
        if self._anchor is None:
            return value
        with tf.control_dependencies(None), tf.name_scope(f"{scope}/pin"):
            always = self.always(self._anchor)
            return tf.cond(always, lambda: tf.identity(value), lambda: tf.zeros_like(value))

    def always(self, value: tf.Tensor) -> tf.Tensor:
        if value.name not in self.predicates:
            first = tf.reshape(value, [-1])[0]
            self.predicates[value.name] = tf.not_equal(_bits(first) | 1, 0)
        return self.predicates[value.name]


def _bits(scalar: tf.Tensor) -> Any:
    if scalar.dtype == tf.bool:
        return tf.cast(scalar, tf.uint8)
    bits = _BITS[scalar.dtype.size]
    return scalar if scalar.dtype == bits else tf.bitcast(scalar, bits)


@dataclass(frozen=True)
class ForCpu:
    """What to add to a schedule's emission for XLA:CPU.

    ``order``: the schedule positions in the order of emission. ``small`` values and ``held`` instances are
    pinned; matrix products wait for the gradients in ``ends``. ``helps``: the input of a filter gradient
    waits for the incoming gradient. ``rewrites``: gradients of max pooling and of embeddings are computed by
    other ops. Their results are XLA's to the bit; among equal elements oneDNN chooses another one.
    """

    order: Sequence[int]
    small: frozenset[int] = frozenset()
    held: frozenset[Instance] = frozenset()
    ends: frozenset[int] = frozenset()
    helps: bool = False
    rewrites: bool = False

    def pins(self, value: int, position: int) -> bool:
        return value in self.small or (value, position) in self.held


def help_for(folded: FoldedStep, steps: Sequence[int], tied: WaitPolicy, *, compiled: bool = True) -> ForCpu:
    """Return what a schedule needs; nothing unless it is for a CPU.

    Gradients are moved forward and waited for only by the policies that ask for it, because a ResNet took 6 %
    more time with it.
    """
    everywhere = range(len(steps))
    if folded.graph.device_kind != "cpu" or tied is WaitPolicy.NONE:
        return ForCpu(everywhere)
    small = small_values(folded)
    if tied in (WaitPolicy.RUNS, WaitPolicy.ALL):
        return ForCpu(everywhere, small, helps=True, rewrites=compiled)
    stages, ends, held = stages_of(folded), ends_of_graph(folded.graph), frozenset[Instance]()
    if tied is WaitPolicy.HELD:
        held = held_results(stages, [value.bytes for value in folded.graph.values], steps)
    return ForCpu(ends_first(stages, ends, steps), small, held, ends, helps=True, rewrites=compiled)


def stages_of(folded: FoldedStep) -> list[Stage[int]]:
    found = []
    for op, members in zip(folded.graph.ops, folded.nodes, strict=True):
        inside = [folded.structure.ops[member] for member in members]
        product, cheap = any(map(is_product, inside)), all(map(is_cheap, inside))
        found.append(Stage(op.inputs, op.outputs, product=product, cheap=cheap))
    return found


def small_values(folded: FoldedStep) -> frozenset[int]:
    """Return the values to pin because they are far smaller than what they are made of."""
    ops = folded.structure.ops
    stages: list[Stage[str]] = []
    sizes: dict[str, int] = {}
    for op in (ops[member] for members in folded.nodes for member in members):
        reads = [source(tensor) for tensor in op.inputs]
        sizes.update((tensor.name, tensor_bytes(tensor)) for tensor in (*reads, *op.outputs))
        light = frozenset(tensor.name for tensor in op.outputs[:1] if makes_less(op))
        names = tuple(tensor.name for tensor in reads)
        stages.append(Stage(names, (), fuses=not is_product(op), light=light))
    found = small_results(stages, sizes, readers=2)
    return frozenset(
        value
        for value, (index, output) in enumerate(folded.values)
        if output == 0 and ops[index].outputs[0].name in found
    )


def instead_of(op: tf.Operation, inputs: Sequence[tf.Tensor], ties: Ties, scope: str) -> tf.Operation | None:
    """Emit ops with the same result as ``op`` that take less memory on XLA:CPU; None: copy ``op`` itself."""
    windows = windows_of(op)
    if windows is not None:
        return pooling_slope(windows, inputs[0], inputs[2], ties, scope).op
    if can_add_late(op):
        return added_late(ties, op.outputs[0].shape, inputs[0], inputs[1]).op
    return None


def can_add_late(op: tf.Operation) -> bool:
    return bool(
        op.type == "UnsortedSegmentSum"
        and op.outputs[0].shape.is_fully_defined()
        and op.inputs[1].shape.is_fully_defined()
        and op.inputs[0].dtype.is_floating
        and can_be_tied(op.inputs[0])
    )


# An embedding's gradient adds rows into zeros. XLA:CPU makes constant zeros first of all, and holds them
# until they are used; zeros that depend on the rows cannot be made before these.
def added_late(ties: Ties, made: tf.TensorShape, slopes: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Return the result of ``UnsortedSegmentSum``; rows with an index out of range are left out."""
    one = tf.ones((), slopes.dtype)
    zero = tf.where(ties.always(slopes), tf.zeros_like(one), one)  # XLA does not know that it is 0
    return tf.tensor_scatter_nd_add(tf.fill(made, zero), rows[..., tf.newaxis], slopes)


def windows_of(op: tf.Operation) -> Windows | None:
    """Return the pooling windows of a max pooling's gradient; None if ``op`` is none, or they are too
    large."""
    if op.type != "MaxPoolGrad" or not all(tensor.shape.is_fully_defined() for tensor in op.inputs):
        return None
    size, strides = tuple(op.get_attr("ksize")), tuple(op.get_attr("strides"))
    shape, made = (tuple(op.inputs[number].shape.as_list()) for number in (0, 2))
    if not can_compare(size):
        return None
    padding = tuple((0, 0) for _ in size)
    if op.get_attr("padding") != b"VALID":  # it is SAME; XLA compiles no other
        missing = [
            max(0, (count - 1) * stride + window - length)
            for count, stride, window, length in zip(made, strides, size, shape, strict=True)
        ]
        padding = tuple((each // 2, each - each // 2) for each in missing)
    return Windows(size, strides, padding, made, shape)


def pooling_slope(
    windows: Windows, operand: tf.Tensor, slope: tf.Tensor, ties: Ties, scope: str
) -> tf.Tensor:
    """Return the gradient of max pooling with respect to its input ``operand``; ``slope``: the incoming
    one."""
    padded = tf.pad(operand, windows.padding)
    return tf.identity(compared_slope(_Comparing(windows, padded, slope, ties, scope), windows.peeled))


@dataclass(frozen=True, eq=False)
class _Comparing:
    windows: Windows
    padded: tf.Tensor
    slope: tf.Tensor
    ties: Ties
    scope: str

    def element(self, place: int) -> tf.Tensor:
        offset = self.windows.offsets[place]
        return tf.strided_slice(self.padded, offset, self.windows.limits(offset), self.windows.strides)

    def inside(self, place: int) -> tf.Tensor | None:
        made, found = self.windows.made, None
        for axis, inside in self.windows.inside(self.windows.offsets[place]):
            narrow = inside.reshape([-1 if each == axis else 1 for each in range(len(made))])
            found = narrow if found is None else found & narrow
        return None if found is None else tf.broadcast_to(tf.constant(found), made)

    def keeps(self, best: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        return tf.greater_equal(best, other)

    def where(self, condition: tf.Tensor, one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        return tf.where(condition, one, other)

    def place(self, number: int) -> tf.Tensor:
        return tf.constant(number, tf.uint8)

    def filled(self, number: int) -> tf.Tensor:
        return tf.fill(self.windows.made, self.place(number))

    def keep(self, places: tf.Tensor) -> tf.Tensor:
        return self.ties.pin(places, self.scope)

    def put_back(self, places: tf.Tensor, number: int) -> tf.Tensor:
        here = tf.equal(places, self.place(number))
        chosen = tf.where(here, self.slope, tf.zeros((), self.slope.dtype))
        spread = _spread(chosen, self.windows.strides)
        shape, starts = self.windows.shape, self.windows.starts(self.windows.offsets[number])
        room = [
            (max(0, start), max(0, length - start - int(wide)))
            for start, length, wide in zip(starts, shape, spread.shape, strict=True)
        ]
        return tf.slice(tf.pad(spread, room), [max(0, -start) for start in starts], shape)


def _spread(values: tf.Tensor, strides: Sequence[int]) -> tf.Tensor:
    counts = values.shape.as_list()
    apart = tf.reshape(values, [each for count in counts for each in (count, 1)])
    padded = tf.pad(apart, [pair for stride in strides for pair in ((0, 0), (0, stride - 1))])
    return tf.reshape(padded, [count * stride for count, stride in zip(counts, strides, strict=True)])
