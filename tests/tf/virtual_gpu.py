"""Show what TensorFlow makes of a graph on a GPU, without a GPU.

The memory that the graph then needs is shown too. Grappler, TensorFlow's graph rewriting, asks only what
devices there are, so it can be run for a GPU that does not exist. The rewritten graph is then replayed as
TensorFlow's executor runs ops on a GPU: an op starts when all its inputs and control inputs are done, and the
ops that are ready first run first. Both sides of a comparison are replayed by the same rules: shapes are
inferred, views share a buffer, an element-wise op writes over an input of its size that dies with it,
variables cost nothing, a kernel's scratch is not counted."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, device_properties_pb2, meta_graph_pb2, rewriter_config_pb2
from tensorflow.python.framework import meta_graph
from tensorflow.python.grappler import cluster, tf_optimizer
from tensorflow.python.ops import handle_data_util

from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.op_kinds import VIEW_TYPES, takes_over_inputs

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
# PlaceholderWithDefault, Snapshot and others pass their input's buffer on.
_VIEWS = VIEW_TYPES | {"PlaceholderWithDefault", "Snapshot", "Bitcast", "_Retval"}
_FREE = frozenset({"VarHandleOp", "Placeholder", "ReadVariableOp", "NoOp"})


@dataclass(frozen=True, eq=False)
class Rewritten:
    """Hold a graph before or after Grappler. ``kept``: names of the tensors that leave it."""

    definition: Any
    kept: tuple[str, ...]

    def count(self, op_type: str) -> int:
        """Return how many ops of ``op_type`` there are."""
        return sum(node.op == op_type for node in self.definition.node)


@cache
def _gpu_cluster(architecture: str, memory_bytes: int) -> Any:
    """Return one CPU and one GPU that does not exist. The GPU has compute capability ``architecture``."""
    gpu = device_properties_pb2.DeviceProperties(
        type="GPU",
        vendor="NVIDIA",
        frequency=1400,
        num_cores=80,
        memory_size=memory_bytes,
        bandwidth=900_000_000,
    )
    gpu.environment["architecture"] = architecture
    host = device_properties_pb2.DeviceProperties(
        type="CPU", vendor="GenuineIntel", frequency=2000, num_cores=4
    )
    named = [
        device_properties_pb2.NamedDevice(name=GPU, properties=gpu),
        device_properties_pb2.NamedDevice(name=CPU, properties=host),
    ]
    return cluster.Cluster(devices=named)


def with_variables(graph: Any) -> Any:
    """Return the definition of ``graph`` with every op on the GPU. The handles of its variables become ops
    that tell their shapes."""
    handles = {op.name: op.outputs[0] for op in graph.get_operations() if _is_handle(op)}
    definition = graph.as_graph_def()
    for node in definition.node:
        node.device = GPU
        node.attr.pop("_class", None)
        if node.name in handles:
            (variable,) = handle_data_util.get_resource_handle_data(handles[node.name]).shape_and_type
            node.op = "VarHandleOp"
            node.attr.clear()
            node.attr["dtype"].type = variable.dtype
            node.attr["shape"].shape.CopyFrom(variable.shape)
            node.attr["shared_name"].s = node.name.encode()
    return definition


def placed(function: Any) -> Rewritten:
    """Return the graph of ``function`` before Grappler, every op on the GPU. ``function`` is concrete."""
    kept = dict.fromkeys(tensor.name for tensor in function.graph.outputs)
    return Rewritten(with_variables(function.graph), tuple(kept))


@cache
def rewritten(
    before: Rewritten, *, layout: bool = True, architecture: str = "8.0", memory_bytes: int = 16 * 2**30
) -> Rewritten:
    """Return ``before`` as Grappler leaves it with its default passes. ``layout``: False leaves out the
    layout pass."""
    config = config_pb2.ConfigProto()
    if not layout:
        config.graph_options.rewrite_options.layout_optimizer = rewriter_config_pb2.RewriterConfig.OFF
    effects = [node.name for node in before.definition.node if node.op.startswith("Assign")]
    found = optimized(before.definition, [*before.kept, *effects], config, architecture, memory_bytes)
    return Rewritten(found, before.kept)


def optimized(definition: Any, wanted: list[str], config: Any, architecture: str, memory_bytes: int) -> Any:
    """Return ``definition`` as Grappler leaves it on a virtual card. ``wanted``: the tensors that leave it,
    and the ops that must run."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
    described = meta_graph.create_meta_graph_def(graph=graph)
    described.graph_def.CopyFrom(definition)
    fetched = meta_graph_pb2.CollectionDef()
    fetched.node_list.value.extend(wanted)
    described.collection_def["train_op"].CopyFrom(fetched)
    return tf_optimizer.OptimizeGraph(
        config, described, verbose=False, graph_id=b"step", cluster=_gpu_cluster(architecture, memory_bytes)
    )


def _is_handle(op: Any) -> bool:
    return op.type == "Placeholder" and op.outputs[0].dtype == tf.resource


class _Buffer:
    def __init__(self, size: int) -> None:
        self.size = size
        self.readers = 0


@cache
def live_peak(step: Rewritten, *, channels_first_kernels: bool = False) -> int:
    """Return the most bytes that ``step`` holds at once. Its variables and inputs do not count; constants do.
    ``channels_first_kernels``: the card has no kernels for channels last, so each convolution that is told to
    read and write that holds transposed copies while it runs (as TensorFlow's ``conv_ops_impl.h`` and
    ``conv_grad_input_ops.cc`` allocate them)."""
    graph = _imported(step.definition)
    ops = graph.get_operations()
    order = _run_order(ops)
    assert len(order) == len(ops), "nodes in a cycle"
    constants = sum(_size(tensor) for op in ops if op.type == "Const" for tensor in op.outputs)
    buffers = _buffers(order, step.kept)
    live = peak = 0
    for op in order:
        if _is_view(op):
            continue
        reads = [buffers[tensor.name] for tensor in op.inputs]
        for buffer in reads:
            buffer.readers -= 1
        dying = {id(buffer): buffer for buffer in reads if buffer.readers == 0}
        made = {id(buffers[tensor.name]): buffers[tensor.name] for tensor in op.outputs}
        taken = 0
        if takes_over_inputs(op, Kernels.CUDA) and op.outputs:
            size = buffers[op.outputs[0].name].size
            taken = size if any(buffer.size == size for buffer in dying.values()) else 0
        live += sum(buffer.size for buffer in made.values())
        copies = _copy_bytes(op) if channels_first_kernels else 0
        peak = max(peak, live - taken + copies)  # a buffer that is taken over is counted once
        live -= sum(buffer.size for buffer in dying.values())
        live -= sum(buffer.size for buffer in made.values() if buffer.readers == 0)
    return peak + constants


def _imported(definition: Any) -> Any:
    """Return the graph of ``definition``, its ops on no device."""
    with tf.Graph().as_default() as graph:
        copy = graph_pb2.GraphDef()
        copy.CopyFrom(definition)
        for node in copy.node:
            node.device = ""
            node.attr.pop("_class", None)
        tf.import_graph_def(copy, name="")
    return graph


def _buffers(order: list[Any], kept: tuple[str, ...]) -> dict[str, _Buffer]:
    """Return the buffer of each tensor, by its name. The readers of each buffer are counted, also through
    views; a tensor in ``kept`` counts as read once more."""
    buffers: dict[str, _Buffer] = {}
    for op in order:
        for tensor in op.outputs:
            if op.type in _FREE or op.type == "Const" or tensor.dtype == tf.resource:
                buffers[tensor.name] = _Buffer(0)
            elif _is_view(op):
                buffers[tensor.name] = buffers[
                    op.inputs[tensor.value_index if op.type == "IdentityN" else 0].name
                ]
            else:
                buffers[tensor.name] = _Buffer(_size(tensor))
        if not _is_view(op):
            for tensor in op.inputs:
                buffers[tensor.name].readers += 1
    for name in kept:
        buffers[name].readers += 1
    return buffers


def _copy_bytes(op: Any) -> int:
    """Return the bytes of the transposed copies of a convolution. It was told to use channels last; the
    copies are of what it reads and writes."""
    if op.type not in ("Conv2D", "_FusedConv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"):
        return 0
    if op.get_attr("data_format") != b"NHWC":
        return 0
    if op.type == "Conv2DBackpropInput":
        images = [op.inputs[2], op.outputs[0]]
    elif op.type == "Conv2DBackpropFilter":
        images = [op.inputs[0], op.inputs[2]]
    else:
        images = [op.inputs[0], op.outputs[0]]
    return sum(_size(tensor) for tensor in images if tensor.shape[-1] > 1)


def _is_view(op: Any) -> bool:
    if op.type == "Transpose" and op.inputs[0].shape.is_fully_defined():
        return sum(length > 1 for length in op.inputs[0].shape) <= 1  # a vector keeps its layout
    return op.type in _VIEWS


def _size(tensor: Any) -> int:
    if tensor.dtype in (tf.resource, tf.string, tf.variant):
        return 0
    if not tensor.shape.is_fully_defined() and (
        tensor.dtype.is_integer or tensor.op.type == "FusedBatchNormV3"
    ):
        return 0  # shapes of shapes, and cuDNN's reserve: no bytes at all for most sizes
    if tensor.op.type == "Empty":
        return 0  # what a variable holds after it let go of its buffer
    assert tensor.shape.is_fully_defined(), f"{tensor.op.type} {tensor.name} has no fixed shape"
    return int(tensor.shape.num_elements() * tensor.dtype.size)


def _run_order(ops: list[Any]) -> list[Any]:
    """Return ``ops`` in the order of TensorFlow's executor on a GPU. There every kernel is only launched, so
    the ops that are ready first run first."""
    followers: dict[str, list[Any]] = {op.name: [] for op in ops}
    waiting: dict[str, int] = {}
    for op in ops:
        before = {other.name: other for other in (*(t.op for t in op.inputs), *op.control_inputs)}
        waiting[op.name] = len(before)
        for name in before:
            followers[name].append(op)
    ready = deque(op for op in ops if waiting[op.name] == 0)
    order: list[Any] = []
    while ready:
        order.append(op := ready.popleft())
        for follower in followers[op.name]:
            waiting[follower.name] -= 1
            if waiting[follower.name] == 0:
                ready.append(follower)
    return order
