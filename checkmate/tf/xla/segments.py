"""Let XLA:CPU make the zeros of an embedding's gradient late.

Slopes are added to zeros, one row for each word. The zeros are a constant, which XLA:CPU makes first of all
and holds until the end. So they are made from a slope here: they are not known before it is.
"""

from __future__ import annotations

import tensorflow as tf

from checkmate.tf.xla.ties import Ties, can_be_tied


def can_add_late(op: tf.Operation) -> bool:
    """Return whether ``op`` adds rows to zeros whose shape is known."""
    return bool(
        op.type == "UnsortedSegmentSum"
        and op.outputs[0].shape.is_fully_defined()
        and op.inputs[1].shape.is_fully_defined()
        and op.inputs[0].dtype.is_floating
        and can_be_tied(op.inputs[0])
    )


def added_late(ties: Ties, made: tf.TensorShape, slopes: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Return what ``UnsortedSegmentSum`` gives, of the shape ``made``.

    Rows that are not there are left out, as it does.
    """
    one = tf.ones((), slopes.dtype)
    zero = tf.where(ties.always(slopes), tf.zeros_like(one), one)  # XLA does not know that it is 0
    return tf.tensor_scatter_nd_add(tf.fill(made, zero), rows[..., tf.newaxis], slopes)
