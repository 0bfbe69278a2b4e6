"""Every use of TensorFlow's private API, in one place: ``tests/tf/test_private.py`` fails loudly if a release changes it.

Re-emission needs to create an op from another op's ``NodeDef`` (TensorFlow's public API has no way to do that), to know
whether an op is stateful, and to read what a graph captured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import config, function_def_to_graph, kernels, ops
from tensorflow.python.util import _pywrap_util_port

# Facts about where an op came from, not what it does; stale in a new graph.
_DROPPED_ATTRIBUTES = frozenset({"_output_shapes", "_class", "_gradient_op_type"})
# Grappler takes ops with this attribute for ones that are asked for by name: it neither rewrites nor removes them.
_PRESERVED = "_grappler_do_not_remove"


def create_op(
    graph: Any,
    original: tf.Operation,
    inputs: Sequence[tf.Tensor],
    control_inputs: Sequence[tf.Operation],
    name: str,
    *,
    preserved: bool = False,
) -> tf.Operation:
    """A copy of ``original`` in ``graph`` with other inputs, running after ``control_inputs``.

    ``preserved``: TensorFlow's graph rewriting must leave the op as it is.
    """
    attributes = {
        key: value for key, value in original.node_def.attr.items() if key not in _DROPPED_ATTRIBUTES
    }
    if "parallel_iterations" in attributes:
        # A loop that runs ahead of its own accumulations holds many iterations' intermediates at once (measured on an LSTM:
        # 43 MB instead of 3), by luck of scheduling. One iteration at a time makes its memory what the graph says.
        attributes["parallel_iterations"] = attr_value_pb2.AttrValue(i=1)
    if preserved:
        attributes[_PRESERVED] = attr_value_pb2.AttrValue(b=True)
    with graph.control_dependencies(None), graph.control_dependencies(list(control_inputs)):
        return graph._create_op_internal(
            original.type,
            list(inputs),
            dtypes=[output.dtype for output in original.outputs],
            name=name,
            attrs=attributes,
            op_def=original.op_def,
        )


def registered_kernels(op_type: str) -> Sequence[Any]:
    """Return the ``KernelDef`` of every kernel of ``op_type`` that this build of TensorFlow has, for any device."""
    return list(kernels.get_registered_kernels_for_op(op_type).kernel)


def forbid_nondeterminism(forbidden: bool) -> None:
    """Make an op without a deterministic kernel an error (``True``), or run as usual again: the public API cannot take it back."""
    if forbidden:
        config.enable_op_determinism()
    else:
        config.disable_op_determinism()


def onednn_enabled() -> bool:
    """Return whether this process runs oneDNN's kernels: TensorFlow decides by the CPU and ``TF_ENABLE_ONEDNN_OPTS``."""
    return bool(_pywrap_util_port.IsMklEnabled())


@contextmanager
def keras_sees_gpu() -> Iterator[None]:
    """Let Keras build what it builds on a GPU (cuDNN's recurrent layers), though this process may have none.

    Keras asks TensorFlow for its devices, which would start a GPU.
    """
    # Not by "from … import rnn": in the package, that name is the function.
    keras_rnn: Any = import_module("keras.src.backend.tensorflow.rnn")
    asked = keras_rnn._is_gpu_available
    keras_rnn._is_gpu_available = lambda: True
    try:
        yield
    finally:
        keras_rnn._is_gpu_available = asked


def is_stateful(op: tf.Operation) -> bool:
    """Whether running the op twice may differ from running it once."""
    return bool(op._is_stateful)


def captures(graph: Any) -> Iterator[tuple[Any, tf.Tensor]]:
    """(external tensor, placeholder inside ``graph``) for everything the graph captured."""
    yield from graph.captures


def capture(graph: Any, external: Any) -> tf.Tensor:
    """The tensor that stands for ``external`` inside ``graph``."""
    return graph.capture(external)


def copy_functions(source: Any, target: Any) -> None:
    """Make the functions that ``source``'s ops call (loop bodies, branches) known to ``target``."""
    for function in source._functions.values():
        target._add_function(function)


def function_body(graph: Any, name: str) -> Any:
    """Return the body of the function ``name`` in ``graph``'s library as a graph; None where it is unknown.

    The graph it was traced into is preferred: rebuilt from its definition, variables have lost their shapes.
    """
    found = graph._functions.get(name)
    if found is None:
        return None
    traced = getattr(found, "graph", None)
    if traced is not None:
        return traced
    definition = getattr(found, "function_def", None) or found.cached_definition
    return function_def_to_graph.function_def_to_graph(definition)


def flops(graph: Any, op: tf.Operation) -> float | None:
    """TensorFlow's own operation count of ``op``; None where it has none."""
    try:
        value = ops.get_stats_for_node_def(graph, op.node_def, "flops").value
    except ValueError:  # TensorFlow counts poolings and the gradients of convolutions for channels last alone
        return _channels_first_flops(op)
    return None if value is None else float(value)


def _channels_first_flops(op: tf.Operation) -> float | None:
    """What TensorFlow would count if the channels came last."""
    if not all(tensor.shape.is_fully_defined() for tensor in (*op.inputs, *op.outputs)):
        return None
    if op.type in ("Conv2DBackpropInput", "Conv2DBackpropFilter"):
        kernel = op.inputs[1].shape if op.type == "Conv2DBackpropInput" else op.outputs[0].shape
        return float(2 * op.inputs[2].shape.num_elements() * math.prod(kernel[:3]))
    if "ksize" in op.node_def.attr:
        return float(math.prod(op.get_attr("ksize")) * op.outputs[0].shape.num_elements())
    return None
