"""Find the tensors of a step on a GPU that lie in the host's memory.

Each kernel of TensorFlow says which arguments it takes from, or puts into, the host's memory. Most kernels
for int32 do so, because such tensors are mostly shapes and counters. An op without a kernel for a GPU runs on
the CPU. Such bytes are not the GPU's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.op_kinds import is_view

_ANY = "DEFAULT"  # the device type of kernels that serve every device without kernels of its own


def in_host_memory(tensor: tf.Tensor) -> bool:
    """Return whether ``tensor`` takes no memory of the GPU.

    It lies in the host's memory and no op reads it on the GPU. A tensor that a kernel reads on the GPU is
    copied there, so it counts.
    """
    if not _knows_gpus() or not _named(tensor.op, tensor.value_index, outputs=True):
        return False
    return not any(_reads_on_gpu(reader, number) for reader, number in _readers(tensor))


def _readers(tensor: tf.Tensor) -> Iterator[tuple[tf.Operation, int]]:
    """Yield (op, number of its input) for all that read ``tensor``. Readers of its views are included."""
    for reader in tensor.consumers():
        for number, read in enumerate(reader.inputs):
            if read is not tensor:
                continue
            if is_view(reader) and number < len(reader.outputs):
                yield from _readers(reader.outputs[number])
            else:
                yield reader, number


def _reads_on_gpu(op: tf.Operation, number: int) -> bool:
    return not _named(op, number, outputs=False)


def _named(op: tf.Operation, number: int, *, outputs: bool) -> bool:
    """Return whether the kernel of ``op`` has this argument in host memory.

    ``outputs``: the argument is output ``number``; else input ``number``.
    """
    kernel = _kernel(op)
    if kernel is None:
        return _runs_on_cpu(op)
    arguments = op.op_def.output_arg if outputs else op.op_def.input_arg
    names = [argument.name for argument in arguments for _ in range(_count(op, argument))]
    return number < len(names) and names[number] in kernel.host_memory_arg


def _kernel(op: tf.Operation) -> Any | None:
    """Return the kernel for a GPU that runs ``op``; None: there is none."""
    attributes = op.node_def.attr
    fitting = [each for each in _kernels(op.type) if _serves(each, attributes)]
    own = [each for each in fitting if each.device_type == "GPU"]
    return max(own or fitting, key=lambda each: each.priority, default=None)


def _runs_on_cpu(op: tf.Operation) -> bool:
    """Return whether ``op`` has kernels, none of them for a GPU.

    Calls and loops have no kernels of their own: they are inlined.
    """
    return bool(private.registered_kernels(op.type)) and not _calls(op)


def _calls(op: tf.Operation) -> bool:
    return any(value.WhichOneof("value") == "func" for value in op.node_def.attr.values())


def _serves(kernel: Any, attributes: Mapping[str, Any]) -> bool:
    return all(
        attributes[rule.name].type in rule.allowed_values.list.type
        for rule in kernel.constraint
        if rule.name in attributes
    )


def _count(op: tf.Operation, argument: Any) -> int:
    """Return how many tensors ``argument`` of ``op`` stands for."""
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
    """Return whether this build of TensorFlow has kernels for GPUs at all.

    A build for CPUs only tells nothing about them.
    """
    return any(each.device_type == "GPU" for each in _kernels("MatMul"))
