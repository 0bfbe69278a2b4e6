"""Trace a step that is any function of tensors, with state in variables.

Nothing is known of it but its graph: a tape's gradients carry a name scope, and assignments are ops of their
own. Everything else follows from what reads what."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import keras
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.models.batch import distinct_names
from checkmate.backends.tf.models.model import LoadedModel, ModelLike
from checkmate.backends.tf.models.own_step import naming
from checkmate.backends.tf.trace.calls import called, without_calls
from checkmate.backends.tf.trace.loops import bodies_of
from checkmate.backends.tf.trace.sizes import total_bytes, variable_bytes
from checkmate.backends.tf.trace.trace import TracedStep, Unplanned, concrete_step
from checkmate.backends.tf.trace.walks import execution_order
from checkmate.errors import JitCompiledError, TraceError
from checkmate.ir import Phase
from checkmate.models.user_code import explained

# ``tf.GradientTape`` makes the first scope, ``tf.gradients`` the second.
_GRADIENT_SCOPE = re.compile(r"(^|/)(gradient_tape|gradients)(_\d+)?/")
_RESOURCE_WRITE = re.compile(
    r"^(Assign.*VariableOp|Resource(Sparse)?(Apply|Scatter).*|ResourceStridedSlice.*)$"
)
# By op type: a lasting effect outside of variables, which cannot be undone after a trial run.
_LASTING = {
    r"(PyFunc|PyFuncStateless|EagerPyFunc|NumpyFunction)$": (
        "calls Python code each time (tf.py_function or tf.numpy_function)"
    ),
    r"IteratorGetNext(Sync|AsOptional)?$": "takes its data from an iterator itself",
    # Not TensorListStack and its like: a tensor list is a value, and no state.
    r"LookupTable(Insert|Remove|Import)V2$|.*Queue|Stack|Barrier|((Ordered)?Map)?(Stage|Unstage)": (
        "keeps state outside of variables ({})"
    ),
    r"Collective|Nccl": "exchanges tensors with other workers ({})",  # a trial run would wait for the others
    r"Write\w*Summary$|WriteFile$|Save(V2|Slices)?$": "writes to files ({})",
}


@dataclass(frozen=True, eq=False)
class Returned:
    """What a step returns. ``structure`` has the index of a flat output at every leaf, -1 for None. ``loss``:
    the index of the loss."""

    structure: Any
    loss: int | None = None

    def pack(self, flat: Sequence[tf.Tensor]) -> Any:
        leaves = [None if i < 0 else flat[i] for i in tf.nest.flatten(self.structure, expand_composites=True)]
        return tf.nest.pack_sequence_as(self.structure, leaves, expand_composites=True)

    def names(self) -> tuple[str, ...]:
        found: dict[int, str] = {}
        for path, number in keras.tree.flatten_with_path(self.structure):
            said = re.sub(r"\W", "_", "_".join(map(str, path))) or "output"
            if number >= 0:
                found[number] = f"output_{said}" if said[0].isdigit() else said
        return distinct_names(found)


def trace_own_step(loaded: LoadedModel) -> TracedStep:
    own = loaded.own
    assert own is not None
    with naming(own.spec):
        step, returned = trace_function(
            own.call,
            loaded.input_specs,
            ModelLike(own.spec),
            batch_size=loaded.batch_size,
            as_written=loaded.as_written,
        )
    names = tuple(
        f"output_{name}" if name == "loss" and number != returned.loss else name
        for number, name in enumerate(returned.names())
    )
    return dataclasses.replace(step, loaded=loaded, unplanned=Unplanned(step.as_traced, names, returned.loss))


def fixed_bytes(traced: TracedStep, inputs: int) -> dict[str, int]:
    """Return the bytes that a step holds from its start to its end: its variables, its first ``inputs``."""
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
    as_written: bool = False,
) -> tuple[TracedStep, Returned]:
    """Trace ``body``, a function of flat tensors, with everything that it calls. ``subject``: the Keras model
    whose step it is, or a ``ModelLike``. ``as_written``: its own recomputation stays in it. The traced step
    returns a loss, then what ``body`` returns."""
    name = str(subject.name)
    loaded = LoadedModel(subject, name, batch_size, tuple(specs), as_written=as_written)
    results: list[Any] = []

    def traced(*tensors: tf.Tensor) -> list[tf.Tensor]:
        result = body(*tensors)
        _require_dense(result, name)
        flat = tf.nest.flatten(result, expand_composites=True)
        found = [tf.convert_to_tensor(leaf) for leaf in flat if leaf is not None]
        numbers = count()
        leaves = [-1 if leaf is None else next(numbers) for leaf in flat]
        loss = _loss_of(result, found)
        outputs = [tf.zeros(()) if loss is None else found[loss], *found]
        # Ops created after this are TensorFlow's own: identities that make outputs wait for assignments.
        made = len(tf.compat.v1.get_default_graph().get_operations())
        results[:] = [outputs, made, result, leaves, loss]
        return outputs

    with explained(name):
        concrete, whole_loops, written = concrete_step(traced, loaded, for_xla=for_xla)
    _require_one_device(concrete.graph, name)
    outputs, made, result, leaves, loss = results
    created = concrete.graph.get_operations()[:made]
    ops = tuple(created[i] for i in execution_order(created))
    require_repeatable(ops, name)
    step = TracedStep(
        loaded=loaded,
        function=concrete,
        ops=ops,
        phases=(Phase.FORWARD,) * len(ops),
        loss=outputs[0],
        predictions=tuple(outputs[1:]),
        gradients={},
        held=private.captured_variables(concrete),
        whole_loops=whole_loops,
        as_written=written,
    )
    with explained(name):
        step = without_calls(step, for_xla=for_xla)
    _require_no_calls(step.ops)
    step = dataclasses.replace(step, phases=phases_of(step.ops))
    structure = tf.nest.pack_sequence_as(result, leaves, expand_composites=True)
    return step, Returned(structure, loss)


def _loss_of(result: Any, found: Sequence[tf.Tensor]) -> int | None:
    """Return the place in ``found`` of what ``result`` calls loss, else of the first scalar, else None."""
    named = result.get("loss") if isinstance(result, Mapping) else None
    numbers = [i for i, tensor in enumerate(found) if tensor.shape.rank == 0 and tensor.dtype.is_floating]
    return next((i for i in numbers if found[i] is named), numbers[0] if numbers else None)


def _require_dense(result: Any, name: str) -> None:
    for leaf in tf.nest.flatten(result):
        if isinstance(leaf, (tf.IndexedSlices, tf.SparseTensor, tf.RaggedTensor)):
            raise TraceError(
                f"the training step of {name!r} returns {type(leaf).__name__}, which have no fixed size",
                hint="return it as a dense tensor, such as tf.convert_to_tensor(gradient)",
            )


def _require_one_device(graph: Any, name: str) -> None:
    # A schedule is for one device, and so is its budget.
    devices: dict[str, set[str]] = {}
    for device in _devices(graph):
        spec = tf.DeviceSpec.from_string(device)
        if spec.device_type is not None and spec.device_index is not None:
            devices.setdefault(spec.device_type, set()).add(device)
    most = max(map(len, devices.values()), default=0)
    if most > 1:
        raise TraceError(
            f"the training step of {name!r} runs on {most} devices at once, as strategy.run does, and a "
            "schedule is for one",
            hint="call checkmate.rematerialize_function on the function that each replica runs, inside "
            "strategy.scope(), and call what it returns in strategy.run",
        )


def _require_no_calls(ops: Sequence[tf.Operation]) -> None:
    compiled = next(filter(None, map(called, ops)), None)
    if compiled is not None:
        raise JitCompiledError(
            f"the step calls {compiled!r}, which is compiled with jit_compile=True; "
            "a part that XLA compiles is not scheduled on TensorFlow's executor",
            hint="make that function with jit_compile=False, or let XLA compile the whole step: "
            'checkmate.rematerialize_function(step, budget, target="xla")',
        )


def _devices(graph: Any) -> set[str]:
    found: set[str] = set()
    for op in graph.get_operations():
        found |= {op.device, *(device for body in bodies_of(op) for device in _devices(body))}
    return found - {""}


def require_repeatable(ops: Sequence[tf.Operation], name: str) -> None:
    for op in ops:
        for body in bodies_of(op):
            require_repeatable(body.get_operations(), name)
        what = next((what for types, what in _LASTING.items() if re.match(types, op.type)), None)
        if what is not None:
            raise TraceError(
                f"the training step of {name!r} {what.format(op.type)}, "
                "which cannot be undone after a trial run",
                hint="do that outside of the step, and hand its result in as an argument",
            )


def phases_of(ops: Sequence[tf.Operation]) -> tuple[Phase, ...]:
    """Return the phase of each of ``ops``, which are in a valid order. A gradient, and what is computed from
    gradients for other gradients or an output alone, is of the backward pass. An update is what serves
    assignments and no gradient: optimizers, averages of weights, metrics."""
    index = {op.name: i for i, op in enumerate(ops)}
    sources = [[index[t.op.name] for t in op.inputs if t.op.name in index] for op in ops]
    gradient = [_GRADIENT_SCOPE.search(op.name) is not None for op in ops]
    for_gradients = _with_sources((i for i, found in enumerate(gradient) if found), sources)
    for_writes = _with_sources((i for i, op in enumerate(ops) if _RESOURCE_WRITE.match(op.type)), sources)
    from_gradients = gradient[:]
    phases: list[Phase] = []
    for i, op in enumerate(ops):
        # The empty lists that a forward loop fills for its gradient are made in the gradient's scope.
        empty = op.type == "EmptyTensorList"
        from_gradients[i] = not empty and (gradient[i] or any(from_gradients[each] for each in sources[i]))
        if gradient[i]:
            phases.append(Phase.BACKWARD)
        elif i in for_writes and i not in for_gradients:
            phases.append(Phase.UPDATE)
        else:
            phases.append(Phase.BACKWARD if from_gradients[i] else Phase.FORWARD)
    return tuple(phases)


def _with_sources(ends: Iterable[int], sources: Sequence[Sequence[int]]) -> set[int]:
    found: set[int] = set()
    stack = list(ends)
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack.extend(sources[op])
    return found
