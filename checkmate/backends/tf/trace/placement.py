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
    """Return whether ``tensor`` lies in the host's memory, and no kernel reads it on the GPU.

    A tensor that one reads there is copied there, so it counts.
    """
    if not _knows_gpus() or not _on_host(tensor.op, tensor.op.op_def.output_arg, tensor.value_index):
        return False
    return all(_on_host(reader, reader.op_def.input_arg, number) for reader, number in _readers(tensor))


def _readers(tensor: tf.Tensor) -> Iterator[tuple[tf.Operation, int]]:
    """Yield (op, number of its input) for all that read ``tensor``, some of them through views."""
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
    # A build of TensorFlow for CPUs alone tells nothing about GPUs.
    return any(each.device_type == "GPU" for each in _kernels("MatMul"))
