"""Bound tensors whose shape depends on the data.

Masks, sparse labels and unique values leave one dimension of a tensor open. How long it can be at most is
read off the ops that make it.
"""

from __future__ import annotations

import math

import tensorflow as tf

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
# Which input says their output's shape. The shape of another tensor bounds it.
_SHAPED_LIKE = {"Fill": 0, "BroadcastTo": 1, "Tile": 1}


def most_elements(tensor: tf.Tensor) -> int | None:
    """Return how many elements ``tensor`` can have at most.

    None where nothing tells. At most one of its dimensions may be open.
    """
    return _most(tensor, {})


def _most(tensor: tf.Tensor, known: dict[str, int | None]) -> int | None:
    if tensor.shape.is_fully_defined():
        return int(tensor.shape.num_elements())
    if tensor.name not in known:
        known[tensor.name] = None  # what a loop leads back to tells nothing
        known[tensor.name] = _of_op(tensor, known)
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
            most, fixed = _most(read, known), _fixed(read)
            if most is None or not fixed:
                return None
            rows = max(rows, most // fixed)
    fixed = _fixed(tensor)
    return rows * fixed if fixed else None


def _fixed(tensor: tf.Tensor) -> int:
    """Return the product of the known dimensions where one is open; else 0."""
    sizes = [] if tensor.shape.rank is None else tensor.shape.as_list()
    return math.prod(size for size in sizes if size is not None) if sizes.count(None) == 1 else 0
