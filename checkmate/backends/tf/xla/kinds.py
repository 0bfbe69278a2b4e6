"""Tell what XLA:CPU does with an op of TensorFlow."""

from __future__ import annotations

import tensorflow as tf

from checkmate.backends.tf.trace.op_kinds import ELEMENTWISE_TYPES

_PRODUCTS = ("MatMul", "BatchMatMul", "Conv2D", "Conv3D", "DepthwiseConv2d", "Einsum")
_SUMS = ("Sum", "Mean", "BiasAddGrad", "UnsortedSegmentSum")
_FILTER_SLOPES = frozenset(
    {"Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter"}
)
_COMPARED = frozenset(
    {
        "Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "IsNan", "IsInf", "IsFinite",
        "LogicalNot", "Cast",
    }
)  # fmt: skip
# Their inputs, by number, that XLA has to know when it compiles: shapes and lengths.
_KNOWN = {
    "Fill": (0,), "Reshape": (1,), "BroadcastTo": (1,), "Tile": (1,), "EmptyTensorList": (0, 1),
    "TensorListReserve": (0, 1),
}  # fmt: skip
_DEAR = frozenset(
    {
        "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tanh", "Sigmoid", "Softplus", "Elu", "Selu", "Erf",
        "Erfc", "Pow", "Sqrt", "Rsqrt", "RealDiv", "Div",
    }
)  # fmt: skip


def is_product(op: tf.Operation) -> bool:
    """Return whether ``op`` multiplies matrices or convolves."""
    return bool(op.type.startswith(_PRODUCTS))


def is_sum(op: tf.Operation) -> bool:
    """Return whether ``op`` adds up what it reads."""
    return op.type in _SUMS


def is_filter_slope(op: tf.Operation) -> bool:
    """Return whether ``op`` is a convolution's gradient by its filter.

    It reads what was convolved, and as its third operand the slope.
    """
    return op.type in _FILTER_SLOPES


def is_cheap(op: tf.Operation) -> bool:
    """Return whether XLA:CPU computes ``op`` again in each of its readers."""
    return op.type in _COMPARED or (op.type in ELEMENTWISE_TYPES and op.type not in _DEAR)


def makes_less(op: tf.Operation) -> bool:
    """Return whether ``op`` makes smaller elements of large ones."""
    return op.type in _COMPARED


def is_known_early(op: tf.Operation, number: int) -> bool:
    """Return whether XLA has to know an input of ``op`` when it compiles."""
    return number in _KNOWN.get(op.type, ())
