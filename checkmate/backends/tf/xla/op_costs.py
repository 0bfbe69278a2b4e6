"""What XLA:CPU does with an op of TensorFlow, and what it costs there.

TensorFlow counts one operation per element of an element-wise op, whatever it computes. But a matrix product
does a hundred operations in the time of reading one element from memory, and an error function is a
polynomial of sixty sequential operations. By TensorFlow's counts a GPT within half of its temporaries was
expected to take 1 % more time, and took 22 %. So here the cost of an op depends on the kind of its operations
and on its bytes.
"""

from __future__ import annotations

import tensorflow as tf

from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.loops import is_loop, operations
from checkmate.backends.tf.trace.op_kinds import ELEMENTWISE_TYPES
from checkmate.ir import CostOrigin, CostUnit, Graph

_PRODUCTS = ("MatMul", "BatchMatMul", "Conv2D", "Conv3D", "DepthwiseConv2d", "Einsum")
SUMS = ("Sum", "Mean", "BiasAddGrad", "UnsortedSegmentSum")
_FILTER_SLOPES = frozenset(
    {"Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter"}
)
_COMPARED = frozenset(
    {
        "Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "IsNan", "IsInf", "IsFinite",
        "LogicalNot", "Cast",
    }
)  # fmt: skip
# Input numbers whose values XLA must know at compile time: shapes and lengths.
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
# In units of one operation of a matrix product, of which two cores of an AMD EPYC do a hundred per
# nanosecond. With these values, the estimates for a dense network and a GPT agreed with the measured times
# there. On a GPU, ops other than products cost even more in this unit.
_OPERATION = 7.0
_BYTE = 2.5
_UNIT = 2.0**30  # operations: a step then costs some tens or thousands
# Operations for an element, of what takes more than one.
_HEAVY = {
    **dict.fromkeys(("Erf", "Erfc"), 60),
    **dict.fromkeys(("Pow", "Lgamma", "Digamma", "Xlogy", "Xdivy"), 30),
    **dict.fromkeys(("Exp", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tanh", "Sigmoid", "Softplus"), 20),
    **dict.fromkeys(("Elu", "Selu"), 20),
    **dict.fromkeys(("Softmax", "LogSoftmax"), 4),  # TensorFlow counts five for each element
    **dict.fromkeys(("RealDiv", "Div", "DivNoNan", "Sqrt", "Rsqrt", "FloorMod", "Reciprocal"), 4),
    **dict.fromkeys(("StatelessRandomUniformV2", "StatelessRandomUniform", "RandomUniform"), 60),
    **dict.fromkeys(("StatelessRandomNormalV2", "StatelessTruncatedNormalV2", "RandomStandardNormal"), 100),
}


def is_product(op: tf.Operation) -> bool:
    return bool(op.type.startswith(_PRODUCTS))


def is_filter_slope(op: tf.Operation) -> bool:
    """Whether ``op`` is a filter's gradient; its input 0 is the convolved tensor, input 2 the gradient."""
    return op.type in _FILTER_SLOPES


def is_cheap(op: tf.Operation) -> bool:
    """Whether XLA:CPU computes ``op`` again in each of its readers."""
    return op.type in _COMPARED or (op.type in ELEMENTWISE_TYPES and op.type not in _DEAR)


def makes_less(op: tf.Operation) -> bool:
    """Whether ``op``'s elements may be smaller than its inputs', such as booleans from floats."""
    return op.type in _COMPARED


def is_known_early(op: tf.Operation, number: int) -> bool:
    """Whether XLA must know this input of ``op`` at compile time."""
    return number in _KNOWN.get(op.type, ())


def costs_for_xla(folded: FoldedStep) -> Graph:
    """Return the graph with estimated costs, in 2³⁰ operations of a matrix product. Bytes are counted as if
    nothing were fused."""
    graph, structure = folded.graph, folded.structure
    costs = []
    for op, members in zip(graph.ops, folded.nodes, strict=True):
        computing = sum(_operations(structure.ops[member]) for member in members)
        moved = sum(graph.values[value].bytes for value in (*op.inputs, *op.outputs))
        costs.append((computing + _BYTE * moved) / _UNIT)
    return graph.with_costs(costs, CostUnit.UNIT, CostOrigin.ANALYTIC)


def _operations(op: tf.Operation) -> float:
    """Return how many operations of a matrix product take as long as ``op``."""
    counted = operations(op)
    if is_product(op) or is_loop(op):
        return counted
    return _OPERATION * _HEAVY.get(op.type, 1) * counted
