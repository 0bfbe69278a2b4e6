"""Help XLA:CPU to hold less where ties alone do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.gates import ends, ends_first
from checkmate.backends.tf.xla.pins import Instance, held_results, small_results
from checkmate.backends.tf.xla.pooling import compared_slope, windows_of
from checkmate.backends.tf.xla.ties import Ties, WaitPolicy, can_be_tied


def can_add_late(op: tf.Operation) -> bool:
    """Return whether ``op`` adds rows to zeros whose shape is known."""
    return bool(
        op.type == "UnsortedSegmentSum"
        and op.outputs[0].shape.is_fully_defined()
        and op.inputs[1].shape.is_fully_defined()
        and op.inputs[0].dtype.is_floating
        and can_be_tied(op.inputs[0])
    )


# Slopes are added to zeros, one row for each word. The zeros are a constant, which XLA:CPU makes first of
# all and holds until the end. Made from a slope they are not known before it is.
def added_late(ties: Ties, made: tf.TensorShape, slopes: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Return what ``UnsortedSegmentSum`` gives, of the shape ``made``.

    Rows that are not there are left out, as it does.
    """
    one = tf.ones((), slopes.dtype)
    zero = tf.where(ties.always(slopes), tf.zeros_like(one), one)  # XLA does not know that it is 0
    return tf.tensor_scatter_nd_add(tf.fill(made, zero), rows[..., tf.newaxis], slopes)


@dataclass(frozen=True)
class ForCpu:
    """The help that XLA:CPU needs with the steps of a schedule.

    ``order``: their positions, as they are emitted. ``small`` values and ``held`` instances are pinned;
    products wait for ``ends``. Where it ``helps``, gradients by filters wait for their slopes. Where it
    ``rewrites``, gradients of max pooling and embeddings are made by other ops. They are XLA's to the bit;
    oneDNN chooses others of equal elements.
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
    """Return what to do for a schedule: nothing, where it is not for a CPU.

    Gradients come first and are waited for only where that is asked for: a ResNet took 6 % more time so.
    """
    everywhere = range(len(steps))
    if folded.graph.device_kind != "cpu" or tied is WaitPolicy.NONE:
        return ForCpu(everywhere)
    small = small_results(folded)
    if tied in (WaitPolicy.RUNS, WaitPolicy.ALL):
        return ForCpu(everywhere, small, helps=True, rewrites=compiled)
    last = ends(folded.graph)
    held = held_results(folded, steps) if tied is WaitPolicy.HELD else frozenset()
    return ForCpu(ends_first(folded, last, steps), small, held, last, helps=True, rewrites=compiled)


def instead_of(
    op: tf.Operation, inputs: Sequence[tf.Tensor], ties: Ties, keep: Callable[[tf.Tensor], tf.Tensor]
) -> tf.Operation | None:
    """Make what gives the same as ``op``, and takes less on XLA:CPU.

    ``keep`` returns a value as something that stays in memory. None: ``op`` is best as it is.
    """
    windows = windows_of(op)
    if windows is not None:
        return compared_slope(windows, inputs[0], inputs[2], keep).op
    if can_add_late(op):
        return added_late(ties, op.outputs[0].shape, inputs[0], inputs[1]).op
    return None
