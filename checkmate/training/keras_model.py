"""Let a Keras model train by scheduled steps: ``make_train_function`` of that one instance is replaced."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.live.keras_step import logs_of, require_trainable
from checkmate.backends.tf.live.trace import LiveStep, step_of_fit
from checkmate.backends.tf.models.batch import BatchLayout, flatten, flatten_data, require_examples
from checkmate.backends.tf.models.own_step import has_own_step
from checkmate.errors import NotCompiledError
from checkmate.planning.plan_request import PlanRequest
from checkmate.training.any_step import own_train_step
from checkmate.training.compiled_steps import CompiledSteps, is_for_xla
from checkmate.training.functions import Functions
from checkmate.training.limit import Phases
from checkmate.training.memory_figures import MemoryFigures
from checkmate.training.plan import StepSubject
from checkmate.training.planner import Planner
from checkmate.training.watch import reading_of, went_over

Logs = dict[str, tf.Tensor]


def replace_training(model: Any, request: PlanRequest) -> None:
    """Let ``model`` train by schedules that keep the budget. Plans are made at the first batch of each layout
    and kept until the model is compiled again.
    """
    require_trainable(model)
    phases = Phases()

    def make_train_function(force: bool = False) -> Callable[[Iterator[Any]], Logs]:
        if model.train_function is None or force:
            require_trainable(model)
            model.train_function = _train_function(_training(model, request, phases))
        function: Callable[[Iterator[Any]], Logs] = model.train_function
        return function

    model.make_train_function = make_train_function
    model.train_function = None
    if not request.wait:
        model.fit = _ending(model)


def _ending(model: Any) -> Callable[..., Any]:
    """Return ``model.fit``, extended to end the background work of the training."""
    plain = getattr(model.fit, "plain", model.fit)

    @functools.wraps(plain)
    def fit(*arguments: Any, **named: Any) -> Any:
        well = False
        try:
            history = plain(*arguments, **named)
            well = True
        finally:
            training = getattr(model.train_function, "training", None)
            if training is not None:
                training.end(well=well)
        return history

    fit.plain = plain  # type: ignore[attr-defined]
    return fit


def prepare(model: Any, example: Any) -> None:
    """Make the plan for batches like ``example`` now; errors are those of ``Planner.plan``."""
    model.make_train_function()
    training: Training | CompiledTraining = model.train_function.training
    layout, tensors = training.flatten(example)
    require_examples(layout)
    training.prepare(layout, tensors)


def _training(model: Any, request: PlanRequest, phases: Phases) -> Training | CompiledTraining:
    """Choose XLA if the model asks for it or compiles its whole step, else the executor."""
    compiled = model.jit_compile or (has_own_step(model) and private.is_jit_compiled(model.train_step))
    kind = CompiledTraining if is_for_xla(model, request, compiled=compiled) else Training
    return kind(model, request, phases)


class _StepOfFit(StepSubject):
    """What ``fit`` runs on a batch: the model's step and its metrics."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def trace(
        self, layout: BatchLayout, tensors: Sequence[tf.Tensor] = (), *, for_xla: bool = False
    ) -> LiveStep:
        traced = own_train_step if has_own_step(self._model) else step_of_fit
        return traced(self._model, layout, tensors, for_xla=for_xla)

    def plainly(self, layout: BatchLayout, tensors: Sequence[tf.Tensor]) -> Logs:
        return self._model.train_step(layout.pack(tensors))  # type: ignore[no-any-return]

    def finish(self, step: LiveStep, layout: BatchLayout, tensors: Sequence[tf.Tensor], found: Any) -> Any:
        return found if step.with_metrics else logs_of(self._model, layout, tensors, found)


def _train_function(training: Training | CompiledTraining) -> Callable[[Iterator[Any]], Logs]:
    model = training.model

    def train(iterator: Iterator[Any]) -> Logs:
        logs: Logs | None = None
        for _ in range(model.steps_per_execution):
            try:
                data = next(iterator)
            except StopIteration:
                if logs is None:
                    raise
                break
            logs = training.step(data)
        assert logs is not None
        return logs

    train.training = training  # type: ignore[attr-defined]
    return train


class Training:
    """Run batches of any layout: each has its plan, and a compiled function with every shape known."""

    def __init__(self, model: Any, request: PlanRequest, phases: Phases) -> None:
        self.model, self.planner = model, Planner(_StepOfFit(model), request, phases)
        self._own = has_own_step(model)
        # A train_step of the model's own takes its data as it comes.
        self.flatten = flatten_data if self._own else flatten
        self._watched = not _share_a_meter(model.distribute_strategy)
        self._functions = Functions(self.planner)

    def prepare(self, layout: BatchLayout, tensors: list[tf.Tensor]) -> None:
        self.planner.plan(layout, tensors)

    def end(self, *, well: bool) -> None:
        self.planner.end(well=well)

    def figures(self) -> MemoryFigures:
        """Return the figures of the layout with the highest peak."""
        found = (plan.figures(self.planner.allowed_bytes) for plan in self.planner.plans)
        return max(found, key=lambda each: each.peak or 0, default=MemoryFigures())

    def step(self, data: Any) -> Logs:
        """Train on one batch; return the results of the metrics. Errors are those of ``Planner.plan``."""
        data = keras.tree.map_structure(_as_tensor, data)
        shares = _per_replica(data, self.model.distribute_strategy)
        layouts = []
        for share in shares:
            layout, tensors = self.flatten(share)
            layouts.append(layout)
            if layout.batch_size:
                self.planner.plan(layout, tensors, at_once=True)
        # Replicas that exchange gradients inside their schedules need the same one.
        apart = self._own and len({layout.key for layout in layouts}) > 1
        plan = self.planner.planned(layouts[0])
        before = reading_of(self.planner, layouts[0])
        ready = None if plan is None or len(shares) > 1 else plan.ready
        if ready is not None and ready.step.with_metrics and not ready.step.distributed:
            logs = ready.step.returned(*ready.run(tensors))
        else:
            logs = self._functions.run(layouts, partial(self._one_step, apart), data)
        del plan, ready  # what their functions hold would count as held by others
        if self._watched and went_over(self.planner, layouts, before):
            self.planner.plan_for_larger(layout, tensors)
        return logs  # type: ignore[no-any-return]

    def _one_step(self, apart: bool, data: Any) -> Logs:
        strategy = self.model.distribute_strategy
        logs = strategy.run(partial(self._on_replica, apart), args=(data,))
        return keras.tree.map_structure(lambda each: _mean(each, strategy), logs)  # type: ignore[no-any-return]

    def _on_replica(self, apart: bool, data: Any) -> Logs:
        layout, tensors = self.flatten(data)
        plan = self.planner.planned(layout)
        if plan is None or plan.step is None or plan.schedule is None or apart:
            return self.model.train_step(data)  # type: ignore[no-any-return]
        found, last = plan.step.run(plan.schedule, tensors)
        if not plan.step.with_metrics:
            # Compute them after the schedule: at the same time they would add to its peak.
            with tf.control_dependencies(last):
                found = logs_of(self.model, layout, tensors, found)
        return found  # type: ignore[no-any-return]


class CompiledTraining:
    """Run batches compiled by XLA; from the first step that it cannot compile, the executor runs all."""

    def __init__(self, model: Any, request: PlanRequest, phases: Phases) -> None:
        self.model, self._request, self._phases = model, request, phases
        self.flatten = flatten_data if has_own_step(model) else flatten
        self.compiled = CompiledSteps(_StepOfFit(model), request)
        self._executor: Training | None = None

    def prepare(self, layout: BatchLayout, tensors: list[tf.Tensor], *, training: bool = False) -> None:
        """Make the plan for such batches now; ``training`` waits for it."""
        if self._executor is None:
            try:
                self.compiled.plan(layout, training=training)
            except NotCompiledError as error:
                self._request.tell(f"{error}; TensorFlow's executor runs it instead")
                self._executor = Training(self.model, self._request, self._phases)
        if self._executor is not None and not training:
            self._executor.prepare(layout, tensors)

    def end(self, *, well: bool) -> None:
        if self._executor is not None:
            self._executor.end(well=well)

    def figures(self) -> MemoryFigures:
        if self._executor is not None:
            return self._executor.figures()
        found = (plan.figures for plan in self.compiled.plans.values())
        return max(found, key=lambda each: each.peak or 0, default=MemoryFigures())

    def step(self, data: Any) -> Logs:
        data = keras.tree.map_structure(_as_tensor, data)
        layout, tensors = self.flatten(data)
        if self._executor is None:
            self.prepare(layout, tensors, training=True)
        if self._executor is not None:
            return self._executor.step(data)
        return self.compiled.call(layout, tensors)  # type: ignore[no-any-return]


def _share_a_meter(strategy: Any) -> bool:
    """Whether several replicas use the CPU's allocator, whose meter does not tell them apart."""
    if strategy.num_replicas_in_sync == 1:
        return False
    devices = [tf.DeviceSpec.from_string(name).device_type for name in strategy.extended.worker_devices]
    return devices.count("CPU") > 1


def _as_tensor(leaf: Any) -> Any:
    """Return ``leaf`` as a tensor; None for an absent value of a generator. Per-replica values stay."""
    if leaf is None or isinstance(leaf, tf.experimental.Optional):
        return None
    kept = isinstance(leaf, tf.distribute.DistributedValues) or tf.is_tensor(leaf)
    return leaf if kept else tf.convert_to_tensor(leaf)


def _per_replica(data: Any, strategy: Any) -> list[Any]:
    """Return what each replica sees of ``data``; one share if all see the same."""
    leaves = keras.tree.flatten(data)
    if not any(isinstance(leaf, tf.distribute.DistributedValues) for leaf in leaves):
        return [data]
    per_leaf = [None if leaf is None else strategy.experimental_local_results(leaf) for leaf in leaves]
    count = max(len(local) for local in per_leaf if local is not None)
    return [
        keras.tree.pack_sequence_as(data, [local and local[r % len(local)] for local in per_leaf])
        for r in range(count)
    ]


def _mean(value: Any, strategy: Any) -> Any:
    local = strategy.experimental_local_results(value)
    return local[0] if len(local) == 1 else tf.reduce_mean(tf.stack(local), axis=0)
