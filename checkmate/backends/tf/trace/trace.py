"""Trace the training step with TensorFlow, one op at a time: forward pass, loss, backward pass and update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import tensorflow as tf

from checkmate.backends.outcomes import TAKEN_OUT
from checkmate.backends.tf import private
from checkmate.backends.tf.models.model import LoadedModel
from checkmate.backends.tf.trace.loops import is_loop
from checkmate.backends.tf.trace.own_recomputation import fold_recomputation, may_recompute
from checkmate.backends.tf.trace.walks import execution_order, needed
from checkmate.errors import TraceError
from checkmate.ir import Phase
from checkmate.models.error_text import first_line

Result = TypeVar("Result")

_SIZES_SEEN = "sizes that are known only when the step runs count as in one run"

# All ops that Keras's zeros, ones and constants are made of.
_CONSTANT = frozenset({"Const", "Fill", "Cast", "Reshape", "BroadcastTo", "Identity"})


@dataclass(frozen=True, eq=False)
class Unplanned:
    """The plain form of a step that is not Keras's own. ``function`` returns a loss, then everything that the
    step returns. ``names``: of the step's results. ``loss``: the index of the loss among these, if any."""

    function: Any
    names: tuple[str, ...]
    loss: int | None


@dataclass(frozen=True, eq=False)
class TracedStep:
    """One traced training step.

    ``ops``: in a valid order, that of creation if possible. ``gradients``: variable path → the tensors of its
    gradient (two if sparse: values and indices), in the order of the trainable variables. ``held``: all
    variables, if ``function`` does not know them all. ``unplanned``: set for a step that is not Keras's own.
    ``unsplit``: the function before its loops and calls were rewritten. ``whole_loops``: XLA compiles the
    loops, so they are not split. ``as_written``: the function before the user's own recomputation was taken
    out. ``sizes_seen``: some sizes were read off one run. ``whole``: sentences on loops that hold much and
    could not be split."""

    loaded: LoadedModel
    function: Any
    ops: tuple[tf.Operation, ...]
    phases: tuple[Phase, ...]
    loss: tf.Tensor
    predictions: tuple[tf.Tensor, ...]
    gradients: Mapping[str, tuple[tf.Tensor, ...]]
    held: tuple[Any, ...] | None = None
    unplanned: Unplanned | None = None
    unsplit: Any = None
    whole_loops: bool = False
    as_written: Any = None
    sizes_seen: bool = False
    whole: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        said = {TAKEN_OUT: self.taken_out, _SIZES_SEEN: self.sizes_seen}
        return (*self.loaded.notes, *(note for note, holds in said.items() if holds), *self.whole)

    @property
    def taken_out(self) -> bool:
        return self.as_written is not None

    @property
    def graph(self) -> Any:
        return self.function.graph

    @property
    def as_traced(self) -> Any:
        """The concrete function with the loops that the user wrote."""
        return self.unsplit or self.function

    @property
    def variables(self) -> tuple[tf.Variable, ...]:
        """All variables that the step uses: weights, slots, moving averages and random seeds."""
        return tuple(self.function.variables) if self.held is None else self.held


StepOutputs = tuple[tf.Tensor, list[tf.Tensor], list[list[tf.Tensor]]]


def needed_ops(traced: TracedStep) -> set[str]:
    gradients = (tensor for tensors in traced.gradients.values() for tensor in tensors)
    return needed([traced.loss, *traced.predictions, *gradients], traced.ops)


def step_function(
    loaded: LoadedModel, *, note: Callable[[str], None] | None = None
) -> Callable[..., StepOutputs]:
    """Return the plain training step of ``loaded`` as a Python function of flat inputs and labels. It does
    what ``keras.Model.train_step`` does for the weights, without metrics, and returns (loss, predictions,
    gradients per trainable variable), flat. ``note`` is called with ``loss``, ``backward``, ``update`` and
    ``end`` where those parts begin."""
    model, told = loaded.model, note or (lambda name: None)

    def step(*tensors: tf.Tensor) -> StepOutputs:
        x, y = loaded.pack(tensors)

        def loss_of(predictions: Any) -> tf.Tensor:
            return model.compute_loss(x=x, y=y, y_pred=predictions, training=True)

        loss, predictions, gradients = train_on(model, x, loss_of, told)
        told("end")
        return loss, tf.nest.flatten(predictions), gradients

    return step


def train_on(
    model: Any, x: Any, loss_of: Callable[[Any], tf.Tensor], note: Callable[[str], None]
) -> tuple[tf.Tensor, Any, list[list[tf.Tensor]]]:
    """Train ``model`` on the inputs ``x``, as ``keras.Model.train_step`` does. ``loss_of``: maps the
    predictions to the loss. ``note`` is called with ``loss``, ``backward`` and ``update`` where those parts
    begin. Returns the loss, the predictions, and per trainable variable the tensors of its gradient."""
    with tf.GradientTape() as tape:
        predictions = model(x, training=True)
        note("loss")
        loss = loss_of(predictions)
        scaled = model.optimizer.scale_loss(loss)
    note("backward")
    variables = model.trainable_variables
    gradients = tape.gradient(scaled, [variable.value for variable in variables])
    note("update")
    model.optimizer.apply_gradients(zip(gradients, variables, strict=True))
    flat = [[] if g is None else tf.nest.flatten(g, expand_composites=True) for g in gradients]
    return loss, predictions, flat


def trace_step(
    loaded: LoadedModel,
    make: Callable[..., Callable[..., StepOutputs]] = step_function,
    *,
    for_xla: bool = False,
    with_gradients: bool = False,
) -> TracedStep:
    """Trace the training step of ``loaded``. ``with_gradients``: the concrete function returns more than the
    loss."""
    borders: dict[str, int] = {}
    outputs: list[StepOutputs] = []

    def note(name: str) -> None:
        borders[name] = len(tf.compat.v1.get_default_graph().get_operations())

    def traced(*tensors: tf.Tensor) -> Any:
        outputs[:] = [make(loaded, note=note)(*tensors)]
        return outputs[0] if with_gradients else outputs[0][0]

    try:
        concrete, whole_loops, as_written = concrete_step(traced, loaded, for_xla=for_xla)
    except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError, tf.errors.OpError) as error:
        raise TraceError(
            f"the training step of {loaded.name!r} could not be traced: {first_line(error)}",
            hint="train one batch with Keras itself first; "
            "loss= and input_shape= set what the model leaves open",
        ) from error
    loss, predictions, gradients = outputs[0]
    paths = [variable.path for variable in loaded.model.trainable_variables]
    # Ops after "end" are TensorFlow's own: identities that make the outputs wait for the assignments.
    created = concrete.graph.get_operations()[: borders["end"]]
    order = execution_order(created)
    return TracedStep(
        loaded=loaded,
        function=concrete,
        ops=tuple(created[i] for i in order),
        phases=tuple(_phase(i, borders) for i in order),
        loss=loss,
        predictions=tuple(predictions),
        gradients={path: tuple(g) for path, g in zip(paths, gradients, strict=True) if g},
        whole_loops=whole_loops,
        as_written=as_written,
    )


def _phase(index: int, borders: Mapping[str, int]) -> Phase:
    if index < borders["loss"]:
        return Phase.FORWARD
    if index < borders["backward"]:
        return Phase.LOSS
    return Phase.BACKWARD if index < borders["update"] else Phase.UPDATE


def concrete_step(body: Callable[..., Any], loaded: LoadedModel, *, for_xla: bool) -> tuple[Any, bool, Any]:
    """Return the concrete function of ``body``, and whether XLA has its loops (their lists then have a known
    length). Where recomputation of its own was taken out, also return the one with it, else None."""
    taken_out = False

    def without(*tensors: tf.Tensor) -> Any:
        nonlocal taken_out
        found = body(*tensors)
        taken_out = fold_recomputation(tf.compat.v1.get_default_graph().get_operations())
        return found

    def concrete(body: Callable[..., Any], compiled: bool | None = None) -> Any:
        function = tf.function(tracing_once(body), autograph=False, jit_compile=compiled)
        made = function.get_concrete_function(*loaded.specs)
        private.forget_custom_gradients(made.graph)
        return made

    found = concrete(body)
    whole_loops = for_xla and any(map(is_loop, found.graph.get_operations()))
    if whole_loops:
        found = concrete(body, compiled=True)
    if loaded.as_written or not may_recompute(found.graph.get_operations()):
        return found, whole_loops, None
    as_written, found = found, concrete(without, compiled=whole_loops or None)
    return found, whole_loops, as_written if taken_out else None


def tracing_once(body: Callable[..., Result]) -> Callable[..., Result]:
    """Return ``body`` for a ``tf.function`` that is traced only once though it creates variables. TensorFlow
    traces a function a second time if its first trace created variables, such as an optimizer's slots and the
    sums of metrics. Those begin with a constant, so they are created outside of the trace."""

    @wraps(body)
    def traced(*given: Any, **named: Any) -> Result:
        with tf.variable_creator_scope(_created_outside):
            return body(*given, **named)

    return traced


def _created_outside(create: Callable[..., Any], **options: Any) -> Any:
    value = options.get("initial_value")
    constant = None if value is None or tf.distribute.has_strategy() else _constant(value)
    if constant is None:
        return create(**options)
    with tf.init_scope():
        return create(**options | {"initial_value": constant, "experimental_enable_variable_lifting": False})


def _constant(value: Any) -> Any:
    """Return a variable's initial value if it is constant, or the function that makes it; else None. The
    function is tried in a graph of its own, where it can read nothing of the trace."""
    if not callable(value):
        return tf.get_static_value(value) if tf.is_symbolic_tensor(value) else value
    with tf.Graph().as_default() as graph:
        try:
            made = value()
        except Exception:  # it reads the trace, or is the user's code, which may raise what it likes
            return None
        if any(op.type not in _CONSTANT for op in graph.get_operations()):
            return None
        if not tf.is_tensor(made):
            return made
        # Python may have drawn its numbers just now. Zeros of any size are better made on the device.
        return tf.get_static_value(made) if made.op.type == "Const" else value
