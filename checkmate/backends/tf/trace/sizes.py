"""Count the bytes of the traced step's tensors.

For lists of tensors see ``checkmate.backends.tf.trace.loops.tensor_lists``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf.trace.open_shapes import most_elements
from checkmate.errors import DynamicShapeError

_HANDLES = (tf.resource, tf.variant)
# Vectors of dimension numbers: of unknown length, but never longer than a tensor's rank.
_DIMENSION_LISTS = frozenset({"BroadcastGradientArgs", "BroadcastArgs"})
# Outputs of unknown shape that a GPU's kernel keeps for its gradient. The one of batch normalization is empty
# on a CPU, and mostly empty on a GPU.
_RESERVES = {
    ("FusedBatchNormV3", 5): "batch",
    ("CudnnRNN", 3): "recurrent",
    ("CudnnRNNV2", 3): "recurrent",
    ("CudnnRNNV3", 3): "recurrent",
}
# Which algorithm was chosen; it lies in the host's memory.
_ON_HOST = frozenset({("CudnnRNNV2", 4), ("CudnnRNNV3", 4)})
# Numbers that a layer of cuDNN keeps per time step, example and unit, and bytes beside them. As measured with
# cuDNN 9 on an H200; a plain cell with relu was not, and counts as the one with tanh.
_KEPT_PER_UNIT = {b"lstm": 5, b"gru": 6, b"rnn_tanh": 1, b"rnn_relu": 1}
_KEPT_BESIDE = 256


def tensor_bytes(tensor: tf.Tensor) -> int:
    """Return the bytes of the elements of ``tensor``, at most.

    0 for a resource or variant handle (for tensor lists see ``backends.tf.trace.loops.tensor_lists``).

    Raises:
        DynamicShapeError: a dimension is unknown, and nothing bounds it.
    """
    if tensor.dtype in _HANDLES or tensor.dtype == tf.string or tensor.op.type in _DIMENSION_LISTS:
        return 0
    output = (tensor.op.type, tensor.value_index)
    if output in _RESERVES or output in _ON_HOST:
        return _recurrent_reserve(tensor.op) if _RESERVES.get(output) == "recurrent" else 0
    most = most_elements(tensor)
    if most is None:
        raise DynamicShapeError(
            f"op {tensor.op.name!r} has output shape {tensor.shape}, so its size is not known before it runs",
            hint="give the inputs fixed shapes (--input-shape), "
            "or replace the layer that makes the shape data-dependent",
        )
    return most * int(tensor.dtype.size)


def is_reserve(tensor: tf.Tensor) -> bool:
    """Return whether ``tensor`` is what a GPU's kernel keeps for its gradient.

    A trace tells its size for certain.
    """
    return (tensor.op.type, tensor.value_index) in _RESERVES


def _recurrent_reserve(op: tf.Operation) -> int:
    """Return the bytes that a recurrent cuDNN kernel keeps for its gradient.

    NVIDIA gives no formula. This one agrees to the byte with what cuDNN 9 asked for on an H200
    (``tests/tf/test_gpu_recurrent.py``). Each layer keeps some numbers per time step, example and unit. Each
    but the last keeps its output, too, and a bit per element of it where dropout follows. A measured profile
    replaces all of it by what was really requested (``checkmate.backends.tf.allocator.learn``).
    """
    if not op.get_attr("is_training"):
        return 0
    # output: [time, batch, units] or [batch, time, units]; state: [layers, batch, units]
    output, state = op.outputs[0], op.inputs[1]
    if not output.shape.is_fully_defined() or not state.shape.is_fully_defined():
        return tensor_bytes(output)  # raises the error for an unknown dimension
    batch = op.type == "CudnnRNNV3" and not op.get_attr("time_major")
    layers = max(1, state.shape.num_elements() // (output.shape[0 if batch else 1] * output.shape[2]))
    kept = _KEPT_PER_UNIT[op.get_attr("rnn_mode")] * layers + layers - 1
    masks = (layers - 1) * (output.shape.num_elements() // 8) if op.get_attr("dropout") else 0
    return int(kept * tensor_bytes(output) + masks + _KEPT_BESIDE)


def bounded_bytes(tensor: tf.Tensor, known: dict[str, int]) -> int:
    """Return ``tensor_bytes``, or an upper bound where a size is open.

    The optimizer's handling of sparse gradients leaves sizes open. It sums repeated rows (``Unique``, segment
    sums, a branch around them), so an output is never larger than the largest input. ``known``: the sizes
    found so far, by tensor name.
    """
    if tensor.name not in known:
        try:
            known[tensor.name] = tensor_bytes(tensor)
        except DynamicShapeError:
            known[tensor.name] = max((bounded_bytes(read, known) for read in tensor.op.inputs), default=0)
    return known[tensor.name]


def variable_bytes(variables: Iterable[Any]) -> int:
    """Return the bytes of the variables of Keras or TensorFlow."""
    sizes = (np.prod(v.shape, dtype=np.int64) * tf.as_dtype(v.dtype).size for v in variables)
    return int(sum(sizes))


def total_bytes(tensors: Iterable[tf.Tensor]) -> int:
    """Return the sum of ``tensor_bytes`` over ``tensors``."""
    return sum(tensor_bytes(tensor) for tensor in tensors)
