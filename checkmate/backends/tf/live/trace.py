"""Trace and fold the training step of a live model for one batch layout.

On one device the step includes the optimizer's update, so that a gradient dies as soon as its variable is
updated. Under a distribution strategy the replicas exchange gradients before the update. There the traced
step is a pure function of the batch and the values of the variables; it returns gradients and new values, and
Keras applies both.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Self

import keras
import tensorflow as tf

from checkmate.backends.tf.costs.profile import analytic_costs
from checkmate.backends.tf.devices import kernels_here
from checkmate.backends.tf.emit.copies import EmittedOutputs
from checkmate.backends.tf.emit.ordered import ordered_step
from checkmate.backends.tf.emit.side_by_side import in_turn, runs_side_by_side
from checkmate.backends.tf.live.keras_step import attach_mask, build, masks_of, total_loss, update_metrics
from checkmate.backends.tf.models.batch import BatchLayout
from checkmate.backends.tf.models.model import LoadedModel
from checkmate.backends.tf.trace.coarsen import FoldedStep, fold
from checkmate.backends.tf.trace.of_function import require_repeatable
from checkmate.backends.tf.trace.seen_sizes import with_seen_sizes
from checkmate.backends.tf.trace.sizes import tensor_bytes, variable_bytes
from checkmate.backends.tf.trace.trace import StepOutputs, TracedStep, trace_step, train_on
from checkmate.errors import OnlySmallTensorsError, TraceError
from checkmate.ir import Device, Graph, Schedule

Note = Callable[[str], None]
Emit = Callable[[FoldedStep, Schedule], Callable[..., EmittedOutputs]]


@dataclass(eq=False)
class StepParts:
    """How to rebuild structured results from the step's flat outputs; filled in while the step is traced.

    Numbers are indices of flat outputs. ``predictions``: the structure of the predictions (or of the metrics'
    results, if the step returns these), with a number at each leaf. ``masks``: number of a prediction →
    number of its mask. ``gradients``: per trainable variable the numbers of its gradient's tensors, and the
    dense shape if it is sparse. ``updates``: (variable, number of its new value).
    """

    predictions: Any = None
    masks: dict[int, int] = field(default_factory=dict)
    gradients: list[tuple[tuple[int, ...], tuple[int, ...] | None]] = field(default_factory=list)
    updates: list[tuple[Any, int]] = field(default_factory=list)

    def pack_predictions(self, flat: Sequence[tf.Tensor]) -> Any:
        """Return the predictions in their structure, with masks attached."""
        for prediction, mask in self.masks.items():
            attach_mask(flat[prediction], flat[mask])
        return keras.tree.map_structure(lambda i: flat[i], self.predictions)


@dataclass(frozen=True, eq=False)
class LiveStep(ABC):
    """A step traced for one batch layout, ready to be scheduled."""

    name: str
    layout: BatchLayout
    folded: FoldedStep

    def with_folded(self, folded: FoldedStep) -> Self:
        return replace(self, folded=folded)

    @property
    def graph(self) -> Graph:
        """The graph to schedule; costs are operation counts."""
        return self.folded.graph

    @property
    def in_turn(self) -> Self:
        """This step, emitted so that its ops run one after another instead of side by side."""
        return self.with_folded(in_turn(self.folded))

    def runs_side_by_side(self, schedule: Schedule) -> bool:
        return runs_side_by_side(self.folded, schedule)

    @property
    def unscheduled(self) -> Schedule | None:
        """How to run without recomputation: None, the step as traced; or the keep-everything schedule if the
        user's own recomputation was taken out, since the traced step would still recompute."""
        return self.everything if self.folded.traced.taken_out else None

    @property
    def as_written(self) -> Self | None:
        """The plain step with the user's own recomputation; None if there was none to take out."""
        structure, traced = self.folded.structure, self.folded.traced
        if not traced.taken_out:
            return None
        structure = replace(structure, traced=replace(traced, unsplit=traced.as_written))
        return self.with_folded(replace(self.folded, structure=structure))

    @property
    @abstractmethod
    def distributed(self) -> bool:
        """Whether several replicas run the step."""

    @property
    def with_metrics(self) -> bool:
        """Whether the step itself updates its metrics."""
        return True

    @property
    def everything(self) -> Schedule:
        """The schedule that runs each op once, in the order of the trace."""
        return Schedule.plain(self.graph)

    def arguments(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return list(tensors)

    @abstractmethod
    def plain(self) -> Callable[..., Any]:
        """Return the unscheduled step as a function of its arguments. Its first result is the loss."""

    @abstractmethod
    def returned(self, loss: tf.Tensor, flat: Sequence[tf.Tensor]) -> Any:
        """Return the step's structured result, built from the emitted function's flat outputs."""

    def apply(self, flat: Sequence[tf.Tensor]) -> None:  # noqa: B027 - few leave anything
        """Apply the updates that are not part of the scheduled step (those of a distributed Keras step)."""

    def run(
        self, schedule: Schedule, tensors: Sequence[tf.Tensor], *, emit: Emit = ordered_step
    ) -> tuple[Any, list[tf.Operation]]:
        """Emit the scheduled step into the graph that is being traced, updates included.

        Returns the step's result and the last ops of the schedule. ``emit``: the emission, by default for
        TensorFlow's executor.
        """
        outputs = emit(self.folded, schedule)(*self.arguments(tensors))
        self.apply(outputs.predictions)
        return self.returned(outputs.loss, outputs.predictions), list(outputs.last)


@dataclass(frozen=True, eq=False)
class KerasStep(LiveStep):
    """Keras's own training step. With metrics it returns their results, else the loss and the predictions.

    ``variables``: in a distributed step, the variables whose values are passed as arguments; else empty."""

    model: Any
    parts: StepParts
    variables: tuple[Any, ...]
    with_metrics: bool = False

    @property
    def distributed(self) -> bool:
        return bool(self.variables)

    def arguments(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return [*tensors, *(tf.convert_to_tensor(_local(variable.value)) for variable in self.variables)]

    def plain(self) -> Callable[..., Any]:
        """As ``LiveStep.plain``. A distributed step also returns the tensors for ``apply``, since TensorFlow
        would not compute what is not returned."""
        if not self.distributed:
            function = self.folded.traced.as_traced
            return lambda *arguments: (function(*arguments),)
        pure = pure_step(self.model, self.layout, self.variables, StepParts(), lambda name: None)

        def one_replica(*arguments: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
            with self.model.distribute_strategy.scope():
                loss, flat, _ = pure(*arguments)
            return loss, flat

        return one_replica

    def returned(self, loss: tf.Tensor, flat: Sequence[tf.Tensor]) -> Any:
        found = self.parts.pack_predictions(flat)
        return found if self.with_metrics else (loss, found)

    def apply(self, flat: Sequence[tf.Tensor]) -> None:
        if not self.distributed:
            return
        gradients: list[Any] = []
        for numbers, shape in self.parts.gradients:
            parts = [flat[i] for i in numbers]
            if shape is not None:
                parts = [tf.IndexedSlices(parts[0], parts[1], tf.constant(shape, parts[1].dtype))]
            gradients.append(parts[0] if parts else None)
        for variable, number in self.parts.updates:
            variable.assign(flat[number])
        self.model.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))


def step_of_fit(
    model: Any, layout: BatchLayout, tensors: Sequence[tf.Tensor] = (), *, for_xla: bool = False
) -> KerasStep:
    """Trace and fold what ``fit`` runs on a batch: the step, and its metrics, which may need memory too.

    Metrics are left out under a distribution strategy, which creates their variables lazily, and if they
    cannot be traced, scheduled or run on trial.
    """
    if tf.distribute.has_strategy() or model.distribute_strategy is not tf.distribute.get_strategy():
        return live_step(model, layout, tensors, for_xla=for_xla)
    try:
        return live_step(model, layout, tensors, metrics=True, for_xla=for_xla)
    except OnlySmallTensorsError:
        raise
    except TraceError:
        return live_step(model, layout, tensors, for_xla=for_xla)


def live_step(
    model: Any,
    layout: BatchLayout,
    tensors: Sequence[tf.Tensor] = (),
    *,
    metrics: bool = False,
    for_xla: bool = False,
) -> KerasStep:
    """Trace and fold the step of ``model`` for batches of ``layout``.

    ``tensors``: such a batch, to learn sizes that are known only at run time. ``metrics``: include the update
    of the metrics. ``for_xla``: as for ``trace_step``. Raises a TraceError if Keras or TensorFlow cannot
    build the step, it has nothing to schedule, or its metrics cannot be run on trial.
    """
    strategy = model.distribute_strategy
    distributed = strategy.num_replicas_in_sync > 1
    build(model, layout)
    variables = _read_variables(model) if distributed else ()
    specs = (*layout.specs, *(tf.TensorSpec(v.shape, v.dtype) for v in variables))
    loaded = LoadedModel(model=model, name=str(model.name), batch_size=layout.batch_size, input_specs=specs)
    parts = StepParts()

    def make(_: LoadedModel, *, note: Note) -> Callable[..., StepOutputs]:
        return (
            pure_step(model, layout, variables, parts, note)
            if distributed
            else whole_step(model, layout, parts, note, metrics=metrics)
        )

    with strategy.scope() if distributed else nullcontext(), _naming_shapes(layout):
        traced = trace_step(loaded, make, for_xla=for_xla)
    require_repeatable(traced.ops, str(model.name))
    if tensors and not distributed:
        traced = with_seen_sizes(traced, lambda: tensors)
    fixed = {
        "parameters": variable_bytes(model.variables),
        "optimizer": variable_bytes(model.optimizer.variables),
        "inputs": sum(tensor_bytes(t) for t in traced.function.inputs[: len(layout.specs)]),
    }
    folded = folded_here(traced, fixed)
    return KerasStep(str(model.name), layout, folded, model, parts, variables, metrics)


@contextmanager
def _naming_shapes(layout: BatchLayout) -> Iterator[None]:
    """Add the batch's shapes to the hint of a tracing error: the batch is its usual cause."""
    try:
        yield
    except TraceError as error:
        shapes = " and ".join(str(tuple(spec.shape)) for spec in layout.specs)
        hint = f"give a batch as fit takes it, such as (x, y); this one has the shapes {shapes}"
        raise type(error)(str(error), hint=hint, details=error.details) from error.__cause__


def folded_here(traced: TracedStep, fixed: dict[str, int]) -> FoldedStep:
    """Fold for this process's device, with operation counts as costs; ``fixed``: bytes by purpose."""
    device = _device()
    folded = fold(
        traced, kernels_here(device.kind), fixed=fixed, device=device, metadata={"tensorflow": tf.__version__}
    )
    return dataclasses.replace(folded, graph=analytic_costs(folded))


def whole_step(
    model: Any, layout: BatchLayout, parts: StepParts, note: Note, *, metrics: bool = False
) -> Callable[..., StepOutputs]:
    """The step with forward pass, loss, backward pass and update; with ``metrics`` it returns their results
    instead of the predictions."""

    def step(*tensors: tf.Tensor) -> StepOutputs:
        x, y, weights = layout.pack(tensors)

        def loss_of(predictions: Any) -> tf.Tensor:
            return total_loss(model, x, y, predictions, weights)

        loss, left, gradients = train_on(model, x, loss_of, note)
        if metrics:
            results = update_metrics(model, x, y, left, weights, loss)
            left = keras.tree.map_structure(tf.convert_to_tensor, results)
        flat = _flat_predictions(left, parts)
        note("end")
        return loss, flat, gradients

    return step


def pure_step(
    model: Any, layout: BatchLayout, variables: Sequence[Any], parts: StepParts, note: Note
) -> Callable[..., StepOutputs]:
    """The step without its update: a function of the batch and the values of ``variables``."""

    def step(*tensors: tf.Tensor) -> StepOutputs:
        count = len(layout.specs)
        x, y, weights = layout.pack(tensors[:count])
        values = dict(zip(map(id, variables), tensors[count:], strict=True))
        watched = [values[id(variable)] for variable in model.trainable_variables]
        scope = keras.StatelessScope([(v, values[id(v)]) for v in variables], collect_losses=True)
        with scope, tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(watched)
            predictions = model(x, training=True)
            note("loss")
            loss = total_loss(model, x, y, predictions, weights)
            scaled = model.optimizer.scale_loss(loss)
        note("backward")
        gradients = tape.gradient(scaled, watched)
        flat = _flat_predictions(predictions, parts)
        _note_gradients(gradients, watched, flat, parts)
        parts.updates.clear()
        for variable in variables:
            new = scope.get_current_value(variable)
            if new is not values[id(variable)]:
                parts.updates.append((variable, len(flat)))
                flat.append(tf.cast(new, variable.dtype))
        note("update")
        note("end")
        return loss, flat, [[] for _ in gradients]

    return step


def _note_gradients(
    gradients: Sequence[Any], watched: Sequence[Any], flat: list[tf.Tensor], parts: StepParts
) -> None:
    parts.gradients.clear()
    for gradient, value in zip(gradients, watched, strict=True):
        tensors = [] if gradient is None else [gradient]
        shape = None
        if isinstance(gradient, tf.IndexedSlices):
            tensors, shape = [gradient.values, gradient.indices], tuple(value.shape)
        parts.gradients.append((tuple(range(len(flat), len(flat) + len(tensors))), shape))
        flat.extend(tensors)


def _flat_predictions(predictions: Any, parts: StepParts) -> list[tf.Tensor]:
    """Return the predictions and their masks, flat; ``parts`` says where each of them is."""
    flat = list(keras.tree.flatten(predictions))
    parts.predictions = keras.tree.pack_sequence_as(predictions, list(range(len(flat))))
    parts.masks.clear()
    for number, mask in masks_of(flat).items():
        parts.masks[number] = len(flat)
        flat.append(mask)
    return flat


def _local(value: Any) -> Any:
    """Return the part of a distributed variable that one replica here sees.

    Read outside of a replica, a metric is summed over all workers, and each of them would have to take part.
    """
    on_replica = tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()
    if on_replica or not isinstance(value, tf.distribute.DistributedValues):
        return value
    return value.distribute_strategy.experimental_local_results(value)[0]


def _read_variables(model: Any) -> tuple[Any, ...]:
    """Return every variable that the step without its update may use.

    The optimizer's slots are left out: a value that is held while its variable is updated costs a copy.
    """
    found = [*model.variables, *model.metrics_variables]
    found += [variable for variable in model.optimizer.variables if len(variable.shape) == 0]
    return tuple({id(variable): variable for variable in found}.values())


def _device() -> Device:
    gpu = bool(tf.config.list_logical_devices("GPU"))
    return Device("GPU" if gpu else "CPU", "gpu" if gpu else "cpu", 0)
