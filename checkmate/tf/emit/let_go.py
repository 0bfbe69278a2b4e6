"""Have a variable let go of its buffer before its new value is computed.

See ``checkmate.tf.trace.over_variables``. The variable holds a tensor without elements meanwhile. Nothing
reads it then: what reads the variable before is emitted first, and what reads it behind the assignment waits
for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def let_go(graph: Any, read: tf.Operation, after: Sequence[tf.Operation], name: str) -> tf.Operation:
    """Return an op after which only ``read``'s output holds the buffer.

    ``read``: the op of ``graph`` that read the variable. ``after``: what runs before it.
    """
    before = {op.name: op for op in (read, *after)}
    with (
        graph.control_dependencies(None),
        graph.control_dependencies(list(before.values())),
        tf.device(read.device),
    ):
        shape = tf.raw_ops.PlaceholderWithDefault(input=tf.constant([0]), shape=[None])
        hidden = tf.raw_ops.Empty(shape=shape, dtype=read.outputs[0].dtype)
        return tf.raw_ops.AssignVariableOp(resource=read.inputs[0], value=hidden, name=name)
