"""How many bytes a tensor of the traced step occupies; for lists of tensors see ``checkmate.tf.trace.tensor_lists``."""

from __future__ import annotations

import math
from collections.abc import Iterable

import tensorflow as tf

from checkmate.errors import DynamicShapeError

_HANDLES = (tf.resource, tf.variant)
# Vectors of dimension numbers: of unknown length, but never longer than a tensor's rank.
_DIMENSION_LISTS = frozenset({"BroadcastGradientArgs", "BroadcastArgs"})
# Outputs of unknown shape that a GPU's kernel keeps for its gradient. Batch normalization's is empty on a CPU and mostly on a GPU.
_RESERVES = {
    ("FusedBatchNormV3", 5): "batch",
    ("CudnnRNN", 3): "recurrent",
    ("CudnnRNNV2", 3): "recurrent",
    ("CudnnRNNV3", 3): "recurrent",
}
_ON_HOST = frozenset(
    {("CudnnRNNV2", 4), ("CudnnRNNV3", 4)}
)  # which algorithm was chosen: in the host's memory
# What cuDNN keeps per time step, example and unit: a gate's activations, the state that the next step reads, its tanh.
_KEPT_PER_UNIT = {b"lstm": 6, b"gru": 5, b"rnn_tanh": 2, b"rnn_relu": 2}


def tensor_bytes(tensor: tf.Tensor) -> int:
    """Bytes of ``tensor``'s elements; 0 for a resource or variant handle (for tensor lists see ``checkmate.tf.trace.tensor_lists``).

    Raises:
        DynamicShapeError: a dimension is unknown.
    """
    if tensor.dtype in _HANDLES or tensor.dtype == tf.string or tensor.op.type in _DIMENSION_LISTS:
        return 0
    output = (tensor.op.type, tensor.value_index)
    if output in _RESERVES or output in _ON_HOST:
        return _recurrent_reserve(tensor.op) if _RESERVES.get(output) == "recurrent" else 0
    if tensor.shape.rank is None or None in tensor.shape.as_list():
        raise DynamicShapeError(
            f"op {tensor.op.name!r} has output shape {tensor.shape}, so its size is not known before it runs",
            hint="give the inputs fixed shapes (--input-shape), or replace the layer that makes the shape data-dependent",
        )
    return int(math.prod(tensor.shape.as_list())) * int(tensor.dtype.size)


def is_reserve(tensor: tf.Tensor) -> bool:
    """Return whether ``tensor`` is room that a GPU's kernel keeps for its gradient, whose size only a trace tells."""
    return (tensor.op.type, tensor.value_index) in _RESERVES


def _recurrent_reserve(op: tf.Operation) -> int:
    """Estimate the bytes that cuDNN's recurrent kernel keeps for its gradient.

    NVIDIA gives no formula. An LSTM's gradient needs its four gates, the cell's state and that state's tanh: 6 numbers per time
    step, example and unit; a GRU's three gates, the recurrent part of the candidate and the state: 5; a plain cell's 2. So it
    is that many times the output's elements, for each layer. Dropout between layers keeps a bit more. A measured profile puts
    what was really asked for in the estimate's place (``checkmate.tf.allocator.learn_by_op``).
    """
    if not op.get_attr("is_training"):
        return 0
    output, state = (
        op.outputs[0],
        op.inputs[1],
    )  # [time, batch, units] or [batch, time, units]; [layers, batch, units]
    if not output.shape.is_fully_defined() or not state.shape.is_fully_defined():
        return tensor_bytes(output)  # which says that a dimension is unknown
    batch = op.type == "CudnnRNNV3" and not op.get_attr("time_major")
    layers = max(1, state.shape.num_elements() // (output.shape[0 if batch else 1] * output.shape[2]))
    return int(_KEPT_PER_UNIT[op.get_attr("rnn_mode")] * layers * tensor_bytes(output))


def bounded_bytes(tensor: tf.Tensor, known: dict[str, int]) -> int:
    """``tensor_bytes``, or an upper bound where the optimizer's handling of sparse gradients leaves a size open.

    Repeated rows of a sparse gradient are summed (``Unique``, segment sums, a branch around them): what comes out is never
    larger than the largest tensor that went in. ``known``: sizes found so far, by tensor name.
    """
    if tensor.name not in known:
        try:
            known[tensor.name] = tensor_bytes(tensor)
        except DynamicShapeError:
            known[tensor.name] = max((bounded_bytes(read, known) for read in tensor.op.inputs), default=0)
    return known[tensor.name]


def total_bytes(tensors: Iterable[tf.Tensor]) -> int:
    """Sum of ``tensor_bytes``."""
    return sum(tensor_bytes(tensor) for tensor in tensors)
