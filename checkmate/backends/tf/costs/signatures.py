"""Describe what the cost of a node depends on, as a short text.

Nodes of the same signature run the same kernels on as many bytes. A signature holds for each op of the node:
its type, the attributes that change what is computed, the shapes and dtypes of what it reads and writes, the
values of small integer inputs (axes, permutations), and which op of the node it reads from. It also holds the
surroundings: device, TensorFlow, threads, and how TensorFlow may rewrite the graph.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.devices import kernels_here
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.machine.load import usable_cores

# The version of signatures and of how costs are measured. With a higher number older costs are not found.
_LAYOUT = 4
_SMALL = 16  # elements
# Names, hints and seeds: they change from trace to trace, but do not change what is computed.
_NO_MATTER = frozenset({"container", "shared_name", "seed", "seed2", "parallel_iterations", "debug_name"})


def signatures(folded: FoldedStep) -> list[str]:
    """Return one signature per node of the graph: a SHA-256 in hexadecimal."""
    around = json.dumps(surroundings(folded), sort_keys=True)
    found: list[str] = []
    for node, members in enumerate(folded.nodes):
        facts = [around, str(folded.graph.ops[node].workspace_bytes), *_described(folded, members)]
        if any(_calls_function(folded.structure.ops[member]) for member in members):
            # No shape tells how often a loop runs, so its cost is valid for this very step only.
            facts.append(f"{folded.graph.fingerprint} {node}")
        found.append(hashlib.sha256("\n".join(facts).encode("utf-8")).hexdigest())
    return found


def surroundings(folded: FoldedStep) -> dict[str, Any]:
    """Return what decides how long ops take, besides the ops themselves.

    This is the device, versions, threads and TensorFlow's options.
    """
    device = folded.graph.device
    return {
        "layout": _LAYOUT,
        "device": "" if device is None else f"{device.kind} {device.name}",
        "tensorflow": tf.__version__,
        "cores": usable_cores(),
        # 0: TensorFlow's own choice, which follows the cores.
        "threads": [
            tf.config.threading.get_intra_op_parallelism_threads(),
            tf.config.threading.get_inter_op_parallelism_threads(),
            os.environ.get("OMP_NUM_THREADS", ""),
        ],
        "kernels": kernels_here("cpu" if device is None else device.kind).value,
        "rewriting": sorted(map(str, tf.config.optimizer.get_experimental_options().items())),
        "jit": str(tf.config.optimizer.get_jit()),
        "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
    }


def described_bodies(op: tf.Operation) -> Iterator[str]:
    """Yield lines on the functions that ``op`` calls, nested ones too.

    They are bodies of loops and branches of conditions. Names are left out: they change from trace to trace.
    What the op is called with decides too, so its small numbers are told first.
    """
    if not _calls_function(op):
        return
    yield json.dumps([_small_numbers(tensor) for tensor in op.inputs])
    attributes = op.node_def.attr
    for attribute in sorted(attributes):
        for function in (attributes[attribute].func, *attributes[attribute].list.func):
            if function.name:
                yield attribute
                yield from _described_body(private.function_body(op.graph, function.name))


def _described_body(body: Any) -> Iterator[str]:
    if body is None:
        yield "unknown"
        return
    ops = body.get_operations()
    places = {op.name: place for place, op in enumerate(ops)}
    for op in ops:
        reads = [[places.get(tensor.op.name, -1), tensor.value_index] for tensor in op.inputs]
        values = [_small_numbers(op.outputs[0])] if op.type == "Const" else []
        known = [] if op.type == "Const" else _attributes(op)
        yield json.dumps([op.type, known, reads, values, [_kind(tensor) for tensor in op.outputs]])
        yield from described_bodies(op)
    yield json.dumps([[places.get(tensor.op.name, -1), tensor.value_index] for tensor in body.outputs])


def _described(folded: FoldedStep, members: tuple[int, ...]) -> list[str]:
    """Return one line per op of a node."""
    structure = folded.structure
    places = {member: place for place, member in enumerate(members)}
    lines: list[str] = []
    for member in members:
        op = structure.ops[member]
        reads: list[list[Any]] = []
        for tensor in op.inputs:
            root = structure.root(tensor)
            inside = places.get(root[0], -1) if root is not None else -1
            reads.append([_kind(tensor), inside, _small_value(tensor)])
        lines.append(json.dumps([op.type, _attributes(op), reads, [_kind(tensor) for tensor in op.outputs]]))
    return lines


def _kind(tensor: tf.Tensor) -> str:
    return f"{tensor.dtype.name} {tensor.shape}"


def _attributes(op: tf.Operation) -> list[list[str]]:
    attributes = op.node_def.attr
    wanted = sorted(name for name in attributes if not name.startswith("_") and name not in _NO_MATTER)
    return [
        [name, attributes[name].SerializeToString(deterministic=True).hex()]
        for name in wanted
        if not _is_function(attributes[name])
    ]


def _calls_function(op: tf.Operation) -> bool:
    return any(_is_function(value) for value in op.node_def.attr.values())


def _is_function(attribute: Any) -> bool:
    kind = attribute.WhichOneof("value")
    return kind == "func" or (kind == "list" and bool(attribute.list.func))


def _small_numbers(tensor: tf.Tensor) -> str:
    """Return the values of a constant of few numbers, else an empty text."""
    few = tensor.shape.is_fully_defined() and tensor.shape.num_elements() <= _SMALL
    if not few or not (tensor.dtype.is_integer or tensor.dtype.is_floating or tensor.dtype.is_bool):
        return ""
    value = tf.get_static_value(tensor)
    return "" if value is None else str(value.tolist())


def _small_value(tensor: tf.Tensor) -> list[int] | None:
    """Return the values of a constant of few integers, else None.

    Such a constant says what an op does: it is an axis, a permutation or a shape.
    """
    if (
        not tensor.dtype.is_integer
        or not tensor.shape.is_fully_defined()
        or tensor.shape.num_elements() > _SMALL
    ):
        return None
    value = tf.get_static_value(tensor)
    return None if value is None else [int(each) for each in value.flat]
