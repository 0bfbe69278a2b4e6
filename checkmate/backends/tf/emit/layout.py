"""Find the ops that TensorFlow's layout pass must not change on a GPU.

On a GPU that pass rewrites convolutions, poolings and biases from channels last to channels first where it
believes the kernels are faster. It puts a transposition wherever such an op meets one that stays. In a plain
step most of these cancel out. In a scheduled step each gate (``backends.tf.emit.barriers``) stands between
them: the transposed copies remain, nothing orders them, and they are held as long as what recomputation was
meant to free.

So each op that the pass would rewrite is marked as one that TensorFlow's graph rewriting must preserve. The
mark is an attribute of the op: it travels with the SavedModel and outlives being inlined. The price is that
such an op is not fused with the bias and activation that follow it either. On a CPU the pass does nothing,
and the fusions are worth more; there no op is marked.
"""

from __future__ import annotations

import tensorflow as tf

from checkmate.ir.graph import Device

# An op with this attribute can be rewritten if it reads or writes images or volumes. A dense bias cannot.
_FORMAT = "data_format"
_LEAST_RANK = 4


def layout_is_chosen(device: Device | None) -> bool:
    """Return whether TensorFlow chooses data formats by itself on ``device``."""
    return device is not None and device.kind == "gpu"


def has_layout(op: tf.Operation) -> bool:
    """Return whether the layout pass may change the data format of ``op``."""
    if _FORMAT not in op.node_def.attr:
        return False
    ranks = [tensor.shape.rank for tensor in (*op.inputs, *op.outputs)]
    return any(rank is None or rank >= _LEAST_RANK for rank in ranks)
