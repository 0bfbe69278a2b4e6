"""Trace a step that is any function of tensors, with state in variables.

Nothing is known of it but its graph: how many backward passes it has, what it updates and what it returns.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.models.model import LoadedModel, ModelLike
from checkmate.backends.tf.models.own_step import explained, naming
from checkmate.backends.tf.trace.inlined import has_calls, inlined
from checkmate.backends.tf.trace.parts import phases_of
from checkmate.backends.tf.trace.sizes import total_bytes, variable_bytes
from checkmate.backends.tf.trace.trace import TracedStep, Unplanned, execution_order
from checkmate.backends.tf.trace.variables import concrete_step
from checkmate.errors import TraceError

# Their effects outlive the step, and no variable tells how to undo them after a trial run.
_PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc", "NumpyFunction"})
_DATA = frozenset({"IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional"})
_TABLES = frozenset({"LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableImportV2"})
# Not TensorListStack and its like: a tensor list is a value, and no state.
_OWN_STATE = re.compile(r"Queue|^Stack|^Barrier|^(Ordered)?Map(Stage|Unstage)|^(Stage|Unstage)")
_COLLECTIVES = re.compile(r"^Collective|^Nccl")  # a trial run would wait for the others
_SUMMARIES = re.compile(r"^Write\w*Summary$|^WriteFile$|^Save(V2|Slices)?$")


@dataclass(frozen=True, eq=False)
class Returned:
    """Hold the structure of what a step returns.

    ``structure``: the number of an output at every leaf, -1 where there is None. ``loss``: the number of the
    loss; None where no output is a number.
    """

    structure: Any
    loss: int | None = None

    def pack(self, flat: Sequence[tf.Tensor]) -> Any:
        """Return the outputs in their structure."""
        leaves = [None if i < 0 else flat[i] for i in tf.nest.flatten(self.structure, expand_composites=True)]
        return tf.nest.pack_sequence_as(self.structure, leaves, expand_composites=True)

    def names(self) -> tuple[str, ...]:
        """Return a name for each output, made of the keys that lead to it."""
        found: dict[int, str] = {}
        for path, number in keras.tree.flatten_with_path(self.structure):
            said = re.sub(r"\W", "_", "_".join(map(str, path))) or "output"
            name = f"output_{said}" if said[0].isdigit() else said
            if number >= 0:
                found[number] = f"{name}_{number}" if name in found.values() else name
        return tuple(found[number] for number in sorted(found))


def trace_own_step(loaded: LoadedModel) -> TracedStep:
    """Trace the step of ``loaded`` that is not Keras's own.

    Raises:
        As ``trace_function``; the sentences name where the step comes from.
    """
    own = loaded.own
    assert own is not None
    with naming(own.spec):
        step, returned, function = trace_function(
            own.call, loaded.input_specs, ModelLike(own.spec), batch_size=loaded.batch_size
        )
    names = tuple(
        f"output_{name}" if name == "loss" and number != returned.loss else name
        for number, name in enumerate(returned.names())
    )
    return dataclasses.replace(step, loaded=loaded, unplanned=Unplanned(function, names, returned.loss))


def fixed_bytes(traced: TracedStep, inputs: int) -> dict[str, int]:
    """Return the bytes that a step holds from its start to its end.

    They are those of its variables and of its first ``inputs`` arguments.
    """
    return {
        "variables": variable_bytes(traced.variables),
        "inputs": total_bytes(traced.function.inputs[:inputs]),
    }


def trace_function(
    body: Callable[..., Any],
    specs: Sequence[tf.TensorSpec],
    subject: Any,
    *,
    batch_size: int,
    for_xla: bool = False,
) -> tuple[TracedStep, Returned, Any]:
    """Trace ``body``, a function of flat tensors, and all that it calls.

    ``subject``: the Keras model whose step it is, or a ``ModelLike``. The last result is the concrete
    function as TensorFlow runs it by itself, calls and loops included. It returns a loss, then what ``body``
    returns. ``for_xla``: XLA is to compile the whole step.

    Raises:
        TraceError: it cannot be traced, does what cannot be undone after a trial run, or returns a sparse or
        ragged tensor.
        JitCompiledError: XLA compiles a part of it, and not the whole.
    """
    loaded = _loaded(subject, specs, batch_size)
    results: list[Any] = []

    def traced(*tensors: tf.Tensor) -> list[tf.Tensor]:
        result = body(*tensors)
        _require_dense(result, loaded.name)
        found, leaves = _flattened(result)
        loss = _loss_of(result, found)
        results[:] = [result, leaves, [tf.zeros(()) if loss is None else found[loss], *found], _count(), loss]
        return results[2]  # type: ignore[no-any-return]

    concrete, whole_loops = _concrete(traced, specs, loaded.name, for_xla)
    _require_one_device(concrete.graph, loaded.name)
    function, outputs, count = concrete, results[2], results[3]
    if has_calls(concrete.graph):
        function, outputs, count = _without_calls(concrete, outputs, specs, loaded.name, for_xla)
    created = function.graph.get_operations()[:count]
    ops = tuple(created[i] for i in execution_order(created))
    require_repeatable(ops, loaded.name)
    step = TracedStep(
        loaded=loaded,
        function=function,
        ops=ops,
        phases=phases_of(ops),
        loss=outputs[0],
        predictions=tuple(outputs[1:]),
        gradients={},
        held=private.captured_variables(concrete),
        whole_loops=whole_loops,
    )
    return step, Returned(_structure(results[0], results[1]), results[4]), concrete


def _flattened(result: Any) -> tuple[list[tf.Tensor], list[int]]:
    """Return the tensors of ``result``, and the number of one at every leaf.

    The number is -1 where there is None.
    """
    flat = [
        None if leaf is None else tf.convert_to_tensor(leaf)
        for leaf in tf.nest.flatten(result, expand_composites=True)
    ]
    found = [tensor for tensor in flat if tensor is not None]
    numbers = iter(range(len(found)))
    return found, [-1 if tensor is None else next(numbers) for tensor in flat]


def _loss_of(result: Any, found: Sequence[tf.Tensor]) -> int | None:
    """Return which of ``found``, tensors of ``result``, is the loss.

    It is what is called so, else the first number; None where there is no number.
    """
    named = result.get("loss") if isinstance(result, Mapping) else None
    numbers = [i for i, tensor in enumerate(found) if tensor.shape.rank == 0 and tensor.dtype.is_floating]
    return next((i for i in numbers if found[i] is named), numbers[0] if numbers else None)


def _concrete(
    body: Callable[..., Any], specs: Sequence[tf.TensorSpec], name: str, for_xla: bool = False
) -> tuple[Any, bool]:
    with explained(name):
        concrete, whole_loops = concrete_step(body, specs, for_xla=for_xla)
    private.forget_custom_gradients(concrete.graph)
    return concrete, whole_loops


def _without_calls(
    concrete: Any, outputs: Sequence[tf.Tensor], specs: Sequence[tf.TensorSpec], name: str, for_xla: bool
) -> tuple[Any, list[tf.Tensor], int]:
    found: list[Any] = []

    def traced(*tensors: tf.Tensor) -> list[tf.Tensor]:
        found[:] = [inlined(concrete, for_xla=for_xla)(*tensors), 0]
        found[1] = _count()
        return found[0]  # type: ignore[no-any-return]

    function, _ = _concrete(traced, specs, name)
    assert len(found[0]) == len(outputs)
    return function, found[0], found[1]


def _count() -> int:
    # What comes later is TensorFlow's own: identities that make the outputs wait for the assignments.
    return len(tf.compat.v1.get_default_graph().get_operations())


def _structure(result: Any, leaves: Sequence[int]) -> Any:
    return tf.nest.pack_sequence_as(result, leaves, expand_composites=True)


def _require_dense(result: Any, name: str) -> None:
    """Raise an error if a step returns what is no plain tensor.

    Raises:
        TraceError: it returns a sparse or ragged tensor, or slices such as an embedding's gradient.
    """
    for leaf in tf.nest.flatten(result):
        if isinstance(leaf, (tf.IndexedSlices, tf.SparseTensor, tf.RaggedTensor)):
            raise TraceError(
                f"the training step of {name!r} returns {type(leaf).__name__}, which have no fixed size",
                hint="return it as a dense tensor, such as tf.convert_to_tensor(gradient)",
            )


def _require_one_device(graph: Any, name: str) -> None:
    """Raise an error if a step runs on several devices of one kind at once.

    A schedule is for one device, and so is its budget.

    Raises:
        TraceError: it does, as what a distribution strategy runs on its replicas.
    """
    devices: dict[str, set[str]] = {}
    for device in _devices(graph):
        spec = tf.DeviceSpec.from_string(device)
        if spec.device_type is not None and spec.device_index is not None:
            devices.setdefault(spec.device_type, set()).add(device)
    count = max(map(len, devices.values()), default=0)
    if count > 1:
        raise TraceError(
            f"the training step of {name!r} runs on {count} devices at once, as strategy.run does, and a "
            "schedule is for one",
            hint="call checkmate.rematerialize_function on the function that each replica runs, inside "
            "strategy.scope(), and call what it returns in strategy.run",
        )


def _devices(graph: Any) -> set[str]:
    found: set[str] = set()
    for op in graph.get_operations():
        found.add(op.device)
        for body in _bodies(op):
            found |= _devices(body)
    return found - {""}


def require_repeatable(ops: Sequence[tf.Operation], name: str) -> None:
    """Raise an error if a trial run of the step could not be undone.

    Raises:
        TraceError: it calls Python, takes data from an iterator, fills a table or queue, or writes files, be
        it in the body of a loop or of a condition.
    """
    for op in ops:
        for body in _bodies(op):
            require_repeatable(body.get_operations(), name)
        if op.type in _PYTHON:
            what = "calls Python code each time (tf.py_function or tf.numpy_function)"
        elif op.type in _DATA:
            what = "takes its data from an iterator itself"
        elif op.type in _TABLES or _OWN_STATE.search(op.type):
            what = f"keeps state outside of variables ({op.type})"
        elif _COLLECTIVES.search(op.type):
            what = f"exchanges tensors with other workers ({op.type})"
        elif _SUMMARIES.search(op.type):
            what = f"writes to files ({op.type})"
        else:
            continue
        raise TraceError(
            f"the training step of {name!r} {what}, which cannot be undone after a trial run",
            hint="do that outside of the step, and hand its result in as an argument",
        )


def _bodies(op: tf.Operation) -> Iterator[Any]:
    """Yield the graphs of the functions that an op calls.

    They are bodies of loops and branches of conditions.
    """
    for attribute in op.node_def.attr.values():
        called = [attribute.func, *attribute.list.func]
        for name in {function.name for function in called if function.name}:
            body = private.function_body(op.graph, name)
            if body is not None:
                yield body


def _loaded(subject: Any, specs: Sequence[tf.TensorSpec], batch_size: int) -> LoadedModel:
    return LoadedModel(
        model=subject,
        name=str(subject.name),
        batch_size=batch_size,
        input_specs=tuple(specs),
    )
