"""Tell the kind of each op of the step, and how it treats memory.

*Fixed* ops own no memory of the step (parameters, constants, inputs). *Views* share the buffer of their
input. *Light* ops have small outputs and small inputs; they are run once, when first needed, and kept. *Dead*
ops are needed by nothing and never run. All other ops are *heavy*: they are scheduled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.replica import exchange_of
from checkmate.machine.processor import this_processor

LIGHT_BYTES = 16 * 1024  # together such tensors stay under 0.3 % of the peak on the networks measured


class OpKind(Enum):
    FIXED = "fixed"
    VIEW = "view"
    LIGHT = "light"
    HEAVY = "heavy"
    DEAD = "dead"


HANDLES = (tf.resource, tf.variant)  # dtypes of variables, and of lists of tensors
FIXED_TYPES = frozenset({"Placeholder", "Const"})
VIEW_TYPES = frozenset(
    {
        "Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "PreventGradient",
        "CheckNumerics", "Bitcast", "PlaceholderWithDefault", "EnsureShape",
    }
)  # fmt: skip
SHAPE_TYPES = frozenset({"Shape", "ShapeN", "Size", "Rank"})

_UNARY = frozenset(
    {
        "Relu", "Relu6", "Elu", "Selu", "LeakyRelu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Exp", "Log",
        "Log1p", "Sqrt", "Rsqrt", "Square", "Neg", "Abs", "Sign", "Erf", "Erfc", "Expm1", "Reciprocal", "Inv",
        "Floor", "Ceil", "Round", "Sin", "Cos", "LogicalNot", "OnesLike", "Softmax", "LogSoftmax",
    }
)  # fmt: skip
_BINARY = frozenset(
    {
        "Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "MulNoNan", "Maximum", "Minimum", "Pow",
        "SquaredDifference", "FloorDiv", "FloorMod", "BiasAdd", "ReluGrad", "Relu6Grad", "EluGrad",
        "SeluGrad", "LeakyReluGrad", "SigmoidGrad", "TanhGrad", "RsqrtGrad", "SqrtGrad", "SoftplusGrad",
        "SoftsignGrad", "ReciprocalGrad", "InvGrad", "LogicalAnd", "LogicalOr", "Xdivy", "Xlogy",
        "BitwiseAnd", "BitwiseOr", "BitwiseXor",
    }
)  # fmt: skip
_SELECT = frozenset({"Select", "SelectV2"})
ELEMENTWISE_TYPES = _UNARY | _BINARY | _SELECT | {"AddN", "Cast", "ZerosLike", "ClipByValue"}
# Their second output, the gradient, is written over their first input where that dies with them.
GRADIENT_OVER_LOGITS = frozenset({"SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"})
RANDOM_TYPES = frozenset(
    {
        "StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2",
        "StatelessRandomUniformIntV2", "RandomUniform", "RandomStandardNormal", "StatelessRandomUniform",
        "StatelessRandomNormal",
    }
)  # fmt: skip


def kernels_of(op: tf.Operation, kernels: Kernels) -> Kernels:
    """Return whose kernel runs ``op``: oneDNN leaves half precision to Eigen on most CPUs."""
    in_half = bool(op.outputs) and op.outputs[0].dtype == tf.float16
    if kernels is Kernels.ONEDNN and in_half and not this_processor().half:
        return Kernels.EIGEN
    return kernels


def takes_over_inputs(op: tf.Operation, kernels: Kernels) -> bool:
    """Return whether this op's output is written over an input of its size that dies with it."""
    if op.type == "MaxPoolGrad":
        return kernels_of(op, kernels) is Kernels.EIGEN
    if is_cube(op):
        return False
    return op.type in _UNARY or op.type in _BINARY or op.type in _SELECT or op.type == "AddN"


def is_cube(op: tf.Operation) -> bool:
    """Return whether ``op`` is a third power: a product of the input, which lives on, and its square."""
    if op.type != "Pow" or op.inputs[1].shape.num_elements() != 1:
        return False
    exponent = tf.get_static_value(op.inputs[1])
    return exponent is not None and float(exponent.item()) == 3.0


def keeps_argmax(op: tf.Operation, kernels: Kernels) -> bool:
    """Return whether the kernel, oneDNN's max pooling, keeps a byte per output for the gradient."""
    return str(op.type) == "MaxPool" and kernels_of(op, kernels) is Kernels.ONEDNN


_ALIGNED = 64  # bytes
REDUCTIONS = frozenset({"Sum", "Mean", "Max", "Min", "Prod"})
# Their attributes that read an input transposed.
_MATRIX_PRODUCTS = {"MatMul": ("transpose_a", "transpose_b"), "BatchMatMulV2": ("adj_x", "adj_y")}


def is_view(op: tf.Operation) -> bool:
    """Return whether outputs of the op, or of its copy (``transposed_inputs``), share its inputs' buffers."""
    return (
        str(op.type) in VIEW_TYPES
        or _reduces_nothing(op)
        or _only_transposes_for_products(op)
        or _takes_aligned_rows(op)
    )


def _reduces_nothing(op: tf.Operation) -> bool:
    # Gradients of broadcasts often reduce dimensions of size 1 only. TensorFlow makes that a reshape.
    if op.type not in REDUCTIONS:
        return False
    before, after = op.inputs[0].shape, op.outputs[0].shape
    known = before.is_fully_defined() and after.is_fully_defined()
    return bool(known and before.num_elements() == after.num_elements())


def _takes_aligned_rows(op: tf.Operation) -> bool:
    # TensorFlow shares the buffer of whole rows from an aligned address on, and copies other slices.
    if op.type != "Slice" or not (op.inputs[0].shape.is_fully_defined() and op.inputs[0].shape.rank):
        return False
    begin, rest = tf.get_static_value(op.inputs[1]), op.inputs[0].shape[1:]
    if begin is None or op.outputs[0].shape[1:] != rest:
        return False
    row = (rest.num_elements() or 0) * op.inputs[0].dtype.size
    return all(row * int(edge) % _ALIGNED == 0 for edge in (begin[0], begin[0] + op.outputs[0].shape[0]))


def _only_transposes_for_products(op: tf.Operation) -> bool:
    """Return whether ``op`` swaps the last two dimensions for matrix products only, which can read its input
    transposed. Complex ones would conjugate it."""
    if op.type != "Transpose" or not op.outputs[0].consumers() or op.outputs[0].dtype.is_complex:
        return False
    order = _permutation(op.inputs[1])
    if order is None or len(order) < 2:
        return False
    swapped = [*range(len(order) - 2), len(order) - 1, len(order) - 2]
    return order == swapped and all(reader.type in _MATRIX_PRODUCTS for reader in op.outputs[0].consumers())


def transposed_inputs(op: tf.Operation) -> dict[int, str]:
    """Return the inputs that a product can read transposed, each with the product's attribute for that."""
    flags = _MATRIX_PRODUCTS.get(str(op.type), ())
    return {
        number: flag
        for number, flag in enumerate(flags)
        if _only_transposes_for_products(op.inputs[number].op)
    }


def _permutation(tensor: tf.Tensor) -> list[int] | None:
    if tensor.op.type == "InvertPermutation":
        inner = _permutation(tensor.op.inputs[0])
        return None if inner is None else sorted(range(len(inner)), key=inner.__getitem__)
    value = tf.get_static_value(tensor)
    return None if value is None else [int(each) for each in value]


_RECURRENT = frozenset(f"CudnnRNN{way}{version}" for way in ("", "Backprop") for version in ("", "V2", "V3"))


def recomputable(op: tf.Operation) -> bool:
    """Return whether the op gives the same result again, and no side effect. The only state of cuDNN's
    recurrent kernels is what their dropout is drawn from. Replicas exchange once."""
    if exchange_of(op):
        return False
    return not private.is_stateful(op) or (op.type in _RECURRENT and op.get_attr("dropout") == 0.0)


_ANY = "DEFAULT"  # the device type of kernels that serve every device without kernels of its own


def in_host_memory(tensor: tf.Tensor) -> bool:
    """Return whether ``tensor`` lies in the host's memory, and no kernel reads it on the GPU, where its copy
    counts. Most kernels for int32 take and give such tensors: they are mostly shapes and counters."""
    if not _knows_gpus() or not _on_host(tensor.op, tensor.op.op_def.output_arg, tensor.value_index):
        return False
    return all(_on_host(reader, reader.op_def.input_arg, number) for reader, number in _readers(tensor))


def _readers(tensor: tf.Tensor) -> Iterator[tuple[tf.Operation, int]]:
    for reader in tensor.consumers():
        for number, read in enumerate(reader.inputs):
            if read is not tensor:
                continue
            if is_view(reader) and number < len(reader.outputs):
                yield from _readers(reader.outputs[number])
            else:
                yield reader, number


def _on_host(op: tf.Operation, arguments: Any, number: int) -> bool:
    """Return whether the kernel of ``op`` has tensor ``number`` of its ``arguments`` in host memory."""
    attributes = op.node_def.attr
    fitting = [each for each in _kernels(op.type) if _serves(each, attributes)]
    own = [each for each in fitting if each.device_type == "GPU"]
    kernel = max(own or fitting, key=lambda each: each.priority, default=None)
    if kernel is None:  # it runs on the CPU; but calls and loops, which have no kernels, are inlined
        return bool(private.registered_kernels(op.type)) and not any(
            map(private.is_function, attributes.values())
        )
    names = [argument.name for argument in arguments for _ in range(_count(op, argument))]
    return number < len(names) and names[number] in kernel.host_memory_arg


def _serves(kernel: Any, attributes: Mapping[str, Any]) -> bool:
    return all(
        attributes[rule.name].type in rule.allowed_values.list.type
        for rule in kernel.constraint
        if rule.name in attributes
    )


def _count(op: tf.Operation, argument: Any) -> int:
    if argument.number_attr:
        return int(op.get_attr(argument.number_attr))
    if argument.type_list_attr:
        return len(op.get_attr(argument.type_list_attr))
    return 1


@cache
def _kernels(op_type: str) -> tuple[Any, ...]:
    return tuple(each for each in private.registered_kernels(op_type) if each.device_type in ("GPU", _ANY))


@cache
def _knows_gpus() -> bool:
    # A build of TensorFlow for CPUs alone tells nothing about GPUs.
    return any(each.device_type == "GPU" for each in _kernels("MatMul"))
