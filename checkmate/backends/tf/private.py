"""Make every use of TensorFlow's private API, in one place.

``tests/tf/test_private.py`` fails loudly if a release changes it."""

from __future__ import annotations

import copy
import ctypes
import gc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue, NameAttrList
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import atomic_function, tf_method_target
from tensorflow.python.framework import config, func_graph, function_def_to_graph, kernels, ops
from tensorflow.python.ops import handle_data_util, resource_variable_ops
from tensorflow.python.util import _pywrap_util_port, deprecation

# These attributes tell where an op came from, not what it does; they would be stale in a new graph.
_DROPPED_ATTRIBUTES = frozenset({"_output_shapes", "_class", "_gradient_op_type"})
_CUSTOM_GRADIENT = "CustomGradient-"  # and a number, for each op that was made with one
# Grappler neither rewrites nor removes ops with this attribute: it takes them for ops asked for by name.
_PRESERVED = "_grappler_do_not_remove"

# Abseil's releases, one of which is in TensorFlow's library; a part of the names of its functions.
_ABSEIL = ("20250814", "20250512", "20250127", "20240722", "20240116", "20230802", "20230125")
_WARNINGS = 1  # of Abseil's levels: notes are 0


def is_jit_compiled(function: Any) -> bool:
    return getattr(function, "_jit_compile", None) is True


def forget_custom_gradients(graph: Any) -> None:
    """Drop the custom gradients registered for ops of ``graph``; else TensorFlow keeps them, and the graph,
    for good."""
    registered = ops.gradient_registry._registry
    for op in graph.get_operations():
        with suppress(ValueError):  # it has no such attribute
            name = op.get_attr("_gradient_op_type").decode()
            if name.startswith(_CUSTOM_GRADIENT):
                registered.pop(name, None)


def letting_go(body: Callable[..., Any]) -> Callable[..., Any]:
    def traced(*given: Any) -> Any:
        found = body(*given)
        if tf.inside_function():
            forget_custom_gradients(tf.compat.v1.get_default_graph())
        return found

    return traced


def saved_as(body: Callable[..., Any], functions: Sequence[Any]) -> Any:
    """Return a function like ``body`` that a SavedModel keeps as these concrete ``functions``: the first that
    takes the given tensors runs."""
    function = tf.function(body, autograph=False)
    function._list_all_concrete_functions_for_serialization = lambda: functions
    return function


def create_op(
    graph: Any,
    original: tf.Operation,
    inputs: Sequence[tf.Tensor],
    control_inputs: Sequence[tf.Operation],
    name: str,
    *,
    preserved: bool = False,
    any_shape: bool = False,
    turned: Iterable[str] = (),
    iterations: int = 1,
) -> tf.Operation:
    """Copy ``original`` into ``graph`` with other inputs, to run after ``control_inputs``. An ``IdentityN``
    may be copied for one of its tensors. ``preserved``: graph rewriting must leave the op as it is.
    ``any_shape``: it assigns a variable, whatever shape that has then. ``turned``: boolean attributes that
    are the other way round in the copy. ``iterations``: how many of a loop may run at once, at most."""
    attributes = _attributes(original, iterations)
    if any_shape:
        attributes["validate_shape"] = AttrValue(b=False)
    for flag in turned:
        attributes[flag] = AttrValue(b=not attributes[flag].b)
    if preserved:
        attributes[_PRESERVED] = AttrValue(b=True)
    kind, dtypes = original.type, [output.dtype for output in original.outputs]
    if kind == "IdentityN" and len(inputs) < len(dtypes):
        kind, dtypes = "Identity", [inputs[0].dtype]
        attributes = {"T": AttrValue(type=inputs[0].dtype.as_datatype_enum)}
    return _created(graph, kind, inputs, control_inputs, name, dtypes, attributes)


def create_loop(
    graph: Any,
    original: tf.Operation,
    inputs: Sequence[tf.Tensor],
    control_inputs: Sequence[tf.Operation],
    name: str,
    *,
    stateless: bool = False,
    functions: Mapping[str, str] = {},
    numbers: Mapping[str, int] = {},
) -> tf.Operation:
    """Copy the loop ``original`` into ``graph``. ``stateless``: the copy takes no variables. ``functions``:
    other names of its ``body`` and ``cond``. ``numbers``: attributes to add."""
    attributes = _attributes(original)
    dtypes = [tensor.dtype for tensor in inputs]
    shapes = [
        (new if new.dtype != output.dtype else output).shape.as_proto()
        for new, output in zip(inputs, original.outputs, strict=True)
    ]
    types = [each.as_datatype_enum for each in dtypes]
    attributes["T"] = AttrValue(list=AttrValue.ListValue(type=types))
    attributes["output_shapes"] = AttrValue(list=AttrValue.ListValue(shape=shapes))
    if stateless:
        attributes.pop("_read_only_resource_inputs", None)
    attributes |= {key: AttrValue(func=NameAttrList(name=each)) for key, each in functions.items()}
    attributes |= {key: AttrValue(i=number) for key, number in numbers.items()}
    kind = "StatelessWhile" if stateless else original.type
    return _created(graph, kind, inputs, control_inputs, name, dtypes, attributes)


_STATELESS = {
    "While": "StatelessWhile",
    "If": "StatelessIf",
    "Case": "StatelessCase",
    "StatefulPartitionedCall": "PartitionedCall",
}


def takes_values(op: tf.Operation) -> bool:
    """Return whether ``op`` calls functions, and could give them values in place of variables."""
    return op.type in _STATELESS and not op.node_def.attr["_XlaMustCompile"].b


def create_stateless(
    graph: Any,
    original: tf.Operation,
    inputs: Sequence[tf.Tensor],
    control_inputs: Sequence[tf.Operation],
    name: str,
    functions: Mapping[str, str],
    dtypes: Sequence[tf.DType],
) -> tf.Operation:
    """Copy ``original``, which calls functions. ``functions``: their new names, by their old ones.
    ``dtypes``: what they return."""
    if original.type == "While":
        names = {key: functions[each] for key, each in called_functions(original)}
        return create_loop(graph, original, inputs, control_inputs, name, stateless=True, functions=names)
    attributes = _attributes(original)
    attributes.pop("_read_only_resource_inputs", None)
    for value in attributes.values():
        for called in [value.func] if value.HasField("func") else value.list.func:
            called.name = functions[called.name]
    types = [tensor.dtype.as_datatype_enum for tensor in inputs]
    given = len(attributes["Tin"].list.type)
    attributes["Tin"] = AttrValue(list=AttrValue.ListValue(type=types[len(types) - given :]))
    attributes["Tout"] = AttrValue(list=AttrValue.ListValue(type=[each.as_datatype_enum for each in dtypes]))
    kind = _STATELESS.get(original.type, original.type)
    return _created(graph, kind, inputs, control_inputs, name, dtypes, attributes)


def _attributes(op: tf.Operation, iterations: int | None = None) -> dict[str, Any]:
    attributes = {key: value for key, value in op.node_def.attr.items() if key not in _DROPPED_ATTRIBUTES}
    if "parallel_iterations" in attributes and iterations is not None:
        # Concurrent iterations of a loop hold their intermediates at once (an LSTM held 43 MB instead of 3).
        # One at a time takes the memory that the graph counts; more are allowed if there is room.
        as_traced = attributes["parallel_iterations"].i
        attributes["parallel_iterations"] = AttrValue(i=min(as_traced, iterations))
    return attributes


def attributes_of(op: tf.Operation) -> tuple[tuple[str, bytes], ...]:
    """Return what distinguishes ``op`` from others of its type, in a form that can be compared."""
    found = op.node_def.attr
    kept = sorted(found.keys() - _DROPPED_ATTRIBUTES)
    return tuple((key, found[key].SerializeToString(deterministic=True)) for key in kept)


def read_instead(op: tf.Operation, number: int, tensor: tf.Tensor) -> None:
    """Let ``op`` read ``tensor`` as its input of that number."""
    op._update_input(number, tensor)


def _created(
    graph: Any,
    kind: str,
    inputs: Sequence[tf.Tensor],
    control_inputs: Sequence[tf.Operation],
    name: str,
    dtypes: Sequence[tf.DType],
    attributes: dict[str, Any],
) -> tf.Operation:
    with graph.control_dependencies(None), graph.control_dependencies(list(control_inputs)):
        return graph._create_op_internal(kind, list(inputs), dtypes=dtypes, name=name, attrs=attributes)


def copy_op(
    graph: Any,
    op: tf.Operation,
    made: dict[str, tf.Tensor],
    control_inputs: Sequence[tf.Operation],
    name: str,
) -> tf.Operation:
    """Copy ``op`` into ``graph``. ``made``: what stands for each tensor there, by name; it is filled in."""
    copied = create_op(graph, op, [made[tensor.name] for tensor in op.inputs], control_inputs, name)
    stand_for(op.outputs, copied.outputs, made)
    return copied


def stand_for(
    originals: Sequence[tf.Tensor], copies: Sequence[tf.Tensor], made: dict[str, tf.Tensor]
) -> None:
    for old, new in zip(originals, copies, strict=True):
        keep_shape(old, new)
        made[old.name] = new


def placeholder_like(tensor: tf.Tensor, name: str) -> tf.Tensor:
    made = tf.compat.v1.placeholder(tensor.dtype, tensor.shape, name=name)
    keep_shape(tensor, made)
    return made


def add_function(
    target: Any, name: str, build: Callable[[Any], tuple[list[tf.Tensor], list[tf.Tensor]]]
) -> str:
    """Add the function that ``build`` fills (its inputs, outputs) to ``target``; return its name."""
    with target.as_default():
        inner = func_graph.FuncGraph(f"{name}_{ops.uid()}")
    with inner.as_default():
        inner.inputs, inner.outputs = build(inner)
    target._add_function_recursive(atomic_function.from_func_graph(inner.name, inner, {}))
    return str(inner.name)


def registered_kernels(op_type: str) -> Sequence[Any]:
    return list(kernels.get_registered_kernels_for_op(op_type).kernel)


def forbid_nondeterminism(forbidden: bool) -> None:
    """Choose whether an op without a deterministic kernel is an error; the public API cannot switch back."""
    (config.enable_op_determinism if forbidden else config.disable_op_determinism)()


def is_deterministic() -> bool:
    return bool(config.is_op_determinism_enabled())


def onednn_enabled() -> bool:
    return bool(_pywrap_util_port.IsMklEnabled())


@contextmanager
def keras_sees_gpu() -> Iterator[None]:
    """Let Keras build cuDNN's recurrent layers, without asking TensorFlow for a GPU, which would start it."""
    # "from … import rnn" would import the function: the package has one of that name.
    keras_rnn: Any = import_module("keras.src.backend.tensorflow.rnn")
    asked = keras_rnn._is_gpu_available
    keras_rnn._is_gpu_available = lambda: True
    try:
        yield
    finally:
        keras_rnn._is_gpu_available = asked


def is_stateful(op: tf.Operation) -> bool:
    """Return whether running the op twice may differ from running it once."""
    return bool(op._is_stateful)


def given_inputs(function: Any, target: Any, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    outside = {inner.name: external for external, inner in function.graph.captures}
    left = iter(tensors)
    return [
        target.capture(outside[tensor.name]) if tensor.name in outside else next(left)
        for tensor in function.graph.inputs
    ]


def copy_functions(source: Any, target: Any) -> None:
    for function in source._functions.values():
        target._add_function(function)


def is_function(attribute: Any) -> bool:
    kind = attribute.WhichOneof("value")
    return kind == "func" or (kind == "list" and bool(attribute.list.func))


def called_functions(op: tf.Operation) -> Iterator[tuple[str, str]]:
    attributes = op.node_def.attr
    for attribute in sorted(attributes):
        for function in (attributes[attribute].func, *attributes[attribute].list.func):
            if function.name:
                yield attribute, function.name


def function_body(graph: Any, name: str) -> Any:
    """Return the body of function ``name`` as a graph, preferably as traced (rebuilt ones lose shapes); None:
    unknown."""
    found = graph._functions.get(name)
    if found is None:
        return None
    traced = getattr(found, "graph", None)
    return _from_definition(graph, found) if traced is None else traced


def called_body(graph: Any, name: str, inputs: int, outputs: int) -> Any:
    """Return ``function_body`` as it was called: a gradient may have added outputs to it since."""
    body = function_body(graph, name)
    if body is not None and (len(body.inputs), len(body.outputs)) != (inputs, outputs):
        body = _from_definition(graph, graph._functions[name])
    return body


def called_bodies(op: tf.Operation) -> dict[str, Any]:
    """Return the bodies of the functions that ``op`` calls, by name; empty if one of them is not known."""
    inputs = len(op.inputs) - (op.type in ("If", "Case"))
    found = {
        name: called_body(op.graph, name, inputs, 1 if key == "cond" else len(op.outputs))
        for key, name in called_functions(op)
    }
    return {} if None in found.values() else found


def _from_definition(graph: Any, function: Any) -> Any:
    definition = getattr(function, "function_def", None) or function.cached_definition
    with graph.as_default():  # TensorFlow looks there for functions whose names are types of ops
        return function_def_to_graph.function_def_to_graph(definition)


_ELEMENTS = "_checkmate_elements_"  # and the number of an output: an attribute of its op


def note_elements(tensor: tf.Tensor, count: int) -> None:
    """Note on the op of ``tensor``, whose shape is open, how many elements it was seen with."""
    tensor.op._set_attr(f"{_ELEMENTS}{tensor.value_index}", AttrValue(i=count))


def noted_elements(tensor: tf.Tensor) -> int | None:
    attributes, name = tensor.op.node_def.attr, f"{_ELEMENTS}{tensor.value_index}"
    return int(attributes[name].i) if name in attributes else None


_TRIPS = "_checkmate_seen_trips"


def note_trips(loop: tf.Operation, count: int) -> None:
    """Note on ``loop`` how often its body was seen to run, which nothing else tells."""
    loop._set_attr(_TRIPS, AttrValue(i=count))


def noted_trips(loop: tf.Operation) -> int | None:
    attributes = loop.node_def.attr
    return int(attributes[_TRIPS].i) if _TRIPS in attributes else None


def keep_shape(original: tf.Tensor, copy: tf.Tensor) -> None:
    """Give ``copy`` what is known of the shape of ``original``, or of the variable behind its handle."""
    copy.set_shape(original.shape)
    if not copy.shape.is_fully_defined() and (count := noted_elements(original)) is not None:
        note_elements(copy, count)
    data = getattr(original, "_handle_data", None)
    if data is not None and data.is_set and not getattr(getattr(copy, "_handle_data", None), "is_set", False):
        handle_data_util.set_handle_data(copy, data)


class HandledVariable:
    def __init__(self, handle: Any) -> None:
        (found,) = handle._handle_data.shape_and_type
        self.handle = handle
        self.dtype, self.shape = tf.as_dtype(found.dtype), tf.TensorShape(found.shape)

    def numpy(self) -> Any:
        return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.dtype).numpy()

    def assign(self, value: Any) -> None:
        tf.raw_ops.AssignVariableOp(resource=self.handle, value=value)


def captured_variables(function: Any) -> tuple[Any, ...]:
    """Return every variable that the concrete ``function`` reads or writes; TensorFlow lists the former."""
    known = {id(variable.handle): variable for variable in function.variables}
    unknown: list[Any] = []
    for external, inner in function.graph.captures:
        data = getattr(external, "_handle_data", None)
        if inner.dtype == tf.resource and id(external) not in known and data is not None and data.is_set:
            unknown.append(external)
    every = _variables_by_handle(unknown)
    found = {id(handle): every.get(id(handle), HandledVariable(handle)) for handle in unknown}
    return (*known.values(), *found.values())


def _variables_by_handle(handles: list[Any]) -> dict[int, Any]:
    every = owners_of(handles, resource_variable_ops.BaseResourceVariable)
    return {id(handle): item for item in every if (handle := getattr(item, "_handle", None)) is not None}


def owners_of(handles: list[Any], kind: type) -> list[Any]:
    """Return the objects of ``kind`` that have these handles, each once. The collector is not asked for all
    objects: among these may be another thread's unfinished tuple, and that thread would end with a
    SystemError."""
    holders = gc.get_referrers(*handles) if handles else []
    attributes = [holder for holder in holders if type(holder) is dict]
    owners = gc.get_referrers(*attributes) if attributes else []
    return list({id(each): each for each in (*holders, *owners) if issubclass(type(each), kind)}.values())


def method_owner(function: Any) -> tuple[bool, Any]:
    """Return whether a ``tf.function`` is a method, and of which object; None where that is gone."""
    method = getattr(getattr(function, "python_function", None), "__wrapped__", None)
    target = getattr(method, "__self__", None)
    if not isinstance(target, tf_method_target.TfMethodTarget):
        return False, None
    return True, target.target


def flops(graph: Any, op: tf.Operation) -> float | None:
    with deprecation.silence():  # TensorFlow's own code calls a deprecated function
        try:
            value = ops.get_stats_for_node_def(graph, op.node_def, "flops").value
        except ValueError:  # TensorFlow counts poolings and gradients of convolutions only for channels last
            return _channels_first_flops(op)
    return None if value is None else float(value)


def _channels_first_flops(op: tf.Operation) -> float | None:
    if not all(tensor.shape.is_fully_defined() for tensor in (*op.inputs, *op.outputs)):
        return None
    if op.type in ("Conv2DBackpropInput", "Conv2DBackpropFilter"):
        kernel = op.inputs[1].shape if op.type == "Conv2DBackpropInput" else op.outputs[0].shape
        return float(2 * op.inputs[2].shape.num_elements() * math.prod(kernel[:3]))
    if "ksize" in op.node_def.attr:
        return float(math.prod(op.get_attr("ksize")) * op.outputs[0].shape.num_elements())
    return None


def without_retracing_warning(function: Any) -> Any:
    """Return the ``tf.function``, silenced about retracing: each layout of batches has one of its own."""
    function._omit_frequent_tracing_warning = True
    return function


def rewrites_graphs() -> bool:
    """Return whether TensorFlow rewrites the graphs of plain steps here; it does not to compare bits."""
    return not tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer", False)


@contextmanager
def folding_constants() -> Iterator[None]:
    """Let this thread call functions without rewriting their graphs, but for the folding of constants. The
    public option is the whole process's."""
    running: Any = context.context()
    before = running.function_call_options
    options = config_pb2.ConfigProto.FromString(before.config_proto_serialized)
    once = rewriter_config_pb2.RewriterConfig(
        optimizers=["constfold"], meta_optimizer_iterations=rewriter_config_pb2.RewriterConfig.ONE
    )
    options.graph_options.rewrite_options.MergeFrom(once)
    instead = copy.copy(before)
    instead.config_proto_serialized = options
    running.function_call_options = instead
    try:
        yield
    finally:
        running.function_call_options = before


@contextmanager
def first_replica(replica: FirstReplica) -> Iterator[None]:
    """Let what is traced be what the strategy runs on its first replica alone, without waiting for others."""
    extended = replica.strategy.extended

    def reduced(how: Any, value: Any, options: Any = None) -> Any:
        return tf.nest.map_structure(lambda each: replica.exchanged(how.value.lower(), each), value)

    instead = {"_use_merge_call": lambda: False, "_replica_ctx_all_reduce": reduced}
    before = {name: vars(extended)[name] for name in instead if name in vars(extended)}
    for name, method in instead.items():
        setattr(extended, name, method)
    try:
        with replica:
            yield
    finally:
        for name in instead:
            delattr(extended, name)
        for name, method in before.items():
            setattr(extended, name, method)


class FirstReplica(tf.distribute.ReplicaContext):  # type: ignore[misc]
    def __init__(self, strategy: Any) -> None:
        super().__init__(strategy, replica_id_in_sync_group=0)

    def exchanged(self, how: str, value: Any) -> Any:
        """Return what stands for an exchange (``sum``, ``mean``, ``first`` or the name of a method)."""
        raise NotImplementedError

    def merge_call(self, merge_fn: Any, args: Any = (), kwargs: Any = None) -> Any:
        return merge_fn(_Merged(self), *args, **(kwargs or {}))


class _Merged:
    """Stands for a strategy's merge context, in which all replicas have the first one's value."""

    def __init__(self, replica: FirstReplica) -> None:
        self._replica = replica

    @property
    def extended(self) -> _Merged:
        return self

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        return (value,)

    def broadcast_to(self, value: Any, destinations: Any) -> Any:
        del destinations
        return self._replica.exchanged("first", value)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: self._replica.exchanged(name, arguments)


def local_handle(handle: Any, replica: int) -> Any:
    """Return what ``replica`` has of the variable behind ``handle``, which may be the same on all."""
    container = getattr(handle, "_distributed_container", None)
    found = None if container is None else container()
    return handle if found is None else found.values[replica].handle


def number_of(context: Any) -> int:
    found = context._replica_id
    return int(tf.get_static_value(found) if tf.is_tensor(found) else found)


@contextmanager
def without_notes() -> Iterator[None]:
    """Keep TensorFlow from printing notes, such as its profiler's five lines per trace; warnings stay."""
    found = _log_level()
    if found is None:
        yield
        return
    level, set_level = found
    before = level()
    set_level(max(before, _WARNINGS))
    try:
        yield
    finally:
        set_level(before)


@cache
def _log_level() -> tuple[Callable[[], int], Callable[[int], object]] | None:
    try:
        library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib()) / "libtensorflow_framework.so.2"))
    except OSError:
        return None
    for release in _ABSEIL:
        room = f"_ZN4absl{len(release) + 4}lts_{release}"
        level = getattr(library, f"{room}11MinLogLevelEv", None)
        set_level = getattr(library, f"{room}14SetMinLogLevelENS0_18LogSeverityAtLeastE", None)
        if level is not None and set_level is not None:
            return level, set_level
    return None
