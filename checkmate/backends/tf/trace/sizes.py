"""Count the bytes of a step's tensors, and the scratch memory of its kernels.

Masks, sparse labels and unique values leave one dimension of a tensor open; how long it can be at most is
read off the ops that make it. Where nothing tells, one run of the step did (``seen_sizes``). The formulas for
scratch memory are from ``conv_grad_filter_ops.cc`` (Conv2DCustomBackpropFilterOp), ``conv_grad_input_ops.h``
(Conv2DCustomBackpropInputOp) and ``maxpooling_op.cc`` (MaxPoolingGradOp) of TensorFlow 2.21. What oneDNN and
a GPU hold is learned (``backends.tf.allocator.learn``)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.op_kinds import HANDLES, kernels_of
from checkmate.errors import DynamicShapeError
from checkmate.machine.load import usable_cores

# Vectors of dimension numbers: of unknown length, but never longer than a tensor's rank.
_DIMENSION_LISTS = frozenset({"BroadcastGradientArgs", "BroadcastArgs"})
# Outputs of unknown shape that a GPU's kernel keeps for its gradient. The one of batch normalization is empty
# on a CPU, and mostly empty on a GPU.
_RECURRENT = frozenset({("CudnnRNN", 3), ("CudnnRNNV2", 3), ("CudnnRNNV3", 3)})
_RESERVES = _RECURRENT | {("FusedBatchNormV3", 5)}
# Which algorithm was chosen; it lies in the host's memory.
_ON_HOST = frozenset({("CudnnRNNV2", 4), ("CudnnRNNV3", 4)})
# Numbers that a layer of cuDNN keeps per time step, example and unit, and bytes beside them. As measured with
# cuDNN 9 on an H200; a plain cell with relu was not, and counts as the one with tanh.
_KEPT_PER_UNIT = {b"lstm": 5, b"gru": 6, b"rnn_tanh": 1, b"rnn_relu": 1}
_KEPT_BESIDE = 256

# Their output has no more elements than their first input.
_PARTS = "Reshape Squeeze ExpandDims Slice StridedSlice Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2"
_NO_MORE = frozenset(_PARTS.split())
# The open dimension of their output is one of an input's, or a longer input is broadcast to it.
_ONE_BY_ONE = """
Abs Add AddN AddV2 BiasAdd Cast Ceil ClipByValue Cos Div DivNoNan Elu EluGrad Equal Erf Exp Expm1 Floor
FloorDiv FloorMod Greater GreaterEqual Identity IsFinite IsInf IsNan LeakyRelu LeakyReluGrad Less LessEqual
Log Log1p LogicalAnd LogicalNot LogicalOr Maximum Minimum Mul MulNoNan Neg NotEqual OnesLike Pow RealDiv
Reciprocal ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad Round Rsqrt RsqrtGrad Select SelectV2 Selu SeluGrad
Sigmoid SigmoidGrad Sign Sin Softplus SoftplusGrad Softsign Sqrt SqrtGrad Square SquaredDifference
StopGradient Sub Tanh TanhGrad ZerosLike
"""
_ROW_BY_ROW = """
All Any ArgMax ArgMin Gather GatherNd GatherV2 LogSoftmax MatMul Max Mean Min OneHot Pack Prod ResourceGather
Softmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits Sum Transpose
"""
_SAME_ROWS = frozenset((_ONE_BY_ONE + _ROW_BY_ROW).split())
# The input that gives the output's shape; it is bounded if that input is the shape of another tensor.
_SHAPED_LIKE = {"Fill": 0, "BroadcastTo": 1, "Tile": 1}

_WORKING_SET = 30 << 20  # bytes of image patches that a convolution's gradient works on at once
_LEAST_WORK = 256 << 10  # bytes per thread: with less, several images are worked on side by side
_INDEX = 8  # bytes of a position that max pooling's gradient finds again


def tensor_bytes(tensor: tf.Tensor) -> int:
    """Return the bytes of ``tensor``, at most; 0 for a handle of a resource or a list. Raises:
    DynamicShapeError: a dimension is unknown, and nothing bounds it."""
    if tensor.dtype in HANDLES or tensor.dtype == tf.string or tensor.op.type in _DIMENSION_LISTS:
        return 0
    output = (tensor.op.type, tensor.value_index)
    if output in _RECURRENT:
        return _recurrent_reserve(tensor.op)
    if output in _RESERVES or output in _ON_HOST:
        return 0
    most = most_elements(tensor)
    if most is None:
        raise DynamicShapeError(
            f"op {tensor.op.name!r} has output shape {tensor.shape}, so its size is not known before it runs",
            hint='run it on one device with target="executor", where one run tells the size',
        )
    return most * int(tensor.dtype.size)


def bounded_bytes(tensor: tf.Tensor, known: dict[str, int]) -> int:
    """Return ``tensor_bytes``, or an upper bound where a size is open, as in sparse gradients: the largest
    input's. The optimizer sums repeated rows (``Unique``, segment sums, a branch around them). ``known``:
    sizes by tensor name."""
    if tensor.name not in known:
        try:
            known[tensor.name] = tensor_bytes(tensor)
        except DynamicShapeError:
            known[tensor.name] = max((bounded_bytes(read, known) for read in tensor.op.inputs), default=0)
    return known[tensor.name]


def total_bytes(tensors: Iterable[tf.Tensor]) -> int:
    return sum(tensor_bytes(tensor) for tensor in tensors)


def variable_bytes(variables: Iterable[Any]) -> int:
    sizes = (np.prod(v.shape, dtype=np.int64) * tf.as_dtype(v.dtype).size for v in variables)
    return int(sum(sizes))


def is_reserve(tensor: tf.Tensor) -> bool:
    """Return whether a GPU's kernel keeps ``tensor`` for its gradient: only a trace tells its size."""
    return (tensor.op.type, tensor.value_index) in _RESERVES


def _recurrent_reserve(op: tf.Operation) -> int:
    """Return the bytes that a recurrent cuDNN kernel keeps for its gradient. NVIDIA gives no formula. This
    one agrees to the byte with what cuDNN 9 asked for on an H200. Each layer keeps some numbers per time
    step, example and unit. Each but the last keeps its output, too, and a bit per element of it where dropout
    follows."""
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


def most_elements(tensor: tf.Tensor) -> int | None:
    """Return how many elements ``tensor``, with one open dimension, has at most; None: not known."""
    return _most(tensor, {})


def _most(tensor: tf.Tensor, known: dict[str, int | None]) -> int | None:
    if tensor.shape.is_fully_defined():
        return int(tensor.shape.num_elements())
    if tensor.name not in known:
        known[tensor.name] = None  # unknown, if a loop leads back to this tensor
        seen = private.noted_elements(tensor)
        known[tensor.name] = _of_op(tensor, known) if seen is None else seen
    return known[tensor.name]


def _of_op(tensor: tf.Tensor, known: dict[str, int | None]) -> int | None:
    op = tensor.op
    if op.type == "Where":  # the coordinates of what is true
        most, rank = _most(op.inputs[0], known), op.inputs[0].shape.rank
        return None if most is None or rank is None else most * rank
    if op.type in _NO_MORE:
        return _most(op.inputs[0], known)
    if op.type in _SHAPED_LIKE:
        like = op.inputs[_SHAPED_LIKE[op.type]].op
        most = _most(like.inputs[0], known) if like.type == "Shape" else None
        repeated = _most(op.inputs[0], known) if op.type == "Tile" else 1
        return None if most is None or repeated is None else most * repeated
    if op.type == "ConcatV2":
        parts = [_most(part, known) for part in op.inputs[:-1]]
        return None if None in parts else sum(part for part in parts if part is not None)
    return _same_rows(tensor, known) if op.type in _SAME_ROWS else None


def _same_rows(tensor: tf.Tensor, known: dict[str, int | None]) -> int | None:
    rows = 1
    for read in tensor.op.inputs:
        if read.dtype != tf.resource and not read.shape.is_fully_defined():
            most, fixed = _most(read, known), _known_dimensions(read)
            if most is None or not fixed:
                return None
            rows = max(rows, most // fixed)
    fixed = _known_dimensions(tensor)
    return rows * fixed if fixed else None


def _known_dimensions(tensor: tf.Tensor) -> int:
    """Return the product of the known dimensions if exactly one is unknown; else 0."""
    sizes = [] if tensor.shape.rank is None else tensor.shape.as_list()
    return math.prod(size for size in sizes if size is not None) if sizes.count(None) == 1 else 0


def scratch_bytes(op: tf.Operation, kernels: Kernels) -> int:
    """Return the bytes that ``op`` holds only while it runs; 0 where no formula is known."""
    sized = {"Conv2DBackpropFilter": 2, "Conv2DBackpropInput": 1, "MaxPoolGrad": 1}.get(op.type)
    if sized is None or kernels_of(op, kernels) is not Kernels.EIGEN:
        return 0
    if not all(tensor.shape.is_fully_defined() for tensor in (*op.outputs, op.inputs[sized])):
        return 0
    if op.type == "MaxPoolGrad":
        # A copy of what was pooled is not counted: it is made only if that does not die here, which is rare.
        return int(op.inputs[1].shape.num_elements()) * _INDEX
    gradient = op.inputs[2]
    kernel = op.outputs[0] if op.type == "Conv2DBackpropFilter" else op.inputs[1]
    # Elements of one image's patches, and of its matrix product, both factors and the result.
    _, height, width, out = gradient.shape
    image, window = height * width, math.prod(kernel.shape[:3])
    patches = image * window
    work, size = patches + image * out + window * out, int(gradient.dtype.size)
    images = -(-(_WORKING_SET // size) // work)  # as many as fill the working set
    one_by_one = gradient.shape[0] == 1 or work // _threads() >= _LEAST_WORK // size
    if op.type == "Conv2DBackpropInput" and one_by_one:
        images = 1
    return int(images * patches * size)


def _threads() -> int:
    chosen = int(tf.config.threading.get_intra_op_parallelism_threads())
    return chosen or usable_cores()
