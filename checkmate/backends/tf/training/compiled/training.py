"""Run steps that XLA compiles, by the plan of each layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from checkmate.backends.tf.models.batch import BatchLayout, Key
from checkmate.backends.tf.private import letting_go, without_retracing_warning
from checkmate.backends.tf.training.compiled.planner import CompiledPlan, CompiledPlanner, Trace
from checkmate.backends.tf.training.keras_step import logs_of
from checkmate.backends.tf.training.plans.plan import PlanRequest
from checkmate.backends.tf.training.trace import LiveStep
from checkmate.backends.tf.training.wording import not_planned
from checkmate.backends.tf.xla.tied import tied_step
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.errors import NotCompiledError
from checkmate.ir.schedule import Schedule

Plainly = Callable[[BatchLayout], Callable[..., Any]]
Finish = Callable[[LiveStep, BatchLayout, Sequence[tf.Tensor], Any], Any]


class CompiledSteps:
    """Run compiled steps, by the plan of each layout.

    ``trace``: traces the step of ``subject`` for a layout. ``plain``: a layout → the plain step, of its
    tensors. ``finish``: a step, its layout, its tensors, and what it gave → what is returned.
    """

    def __init__(
        self, subject: Any, request: PlanRequest, trace: Trace, plain: Plainly, finish: Finish | None = None
    ) -> None:
        self._plain, self._finish = plain, finish
        self.planner = CompiledPlanner(subject, request, trace, self._body)
        self._made: dict[Key, tuple[CompiledPlan, Any]] = {}

    def call(self, layout: BatchLayout, tensors: Sequence[tf.Tensor], hint: str = "") -> Any:
        """Run the step once, or call it in the function that is being traced.

        ``hint``: what to do where there is no plan then.

        Raises:
            UsageError: called while a function is traced, without a plan. Others as ``CompiledPlanner.plan``.
        """
        plan = (
            self.planner.plan(layout, training=True)
            if tf.executing_eagerly()
            else self.planner.planned(layout)
        )
        if plan is None:
            raise not_planned(layout, hint)
        return self._function(plan)(*tensors)

    def _function(self, plan: CompiledPlan) -> Any:
        key = plan.layout.key
        if self._made.get(key, (None,))[0] is not plan:
            body = self._body(plan.layout, plan.step, plan.schedule, plan.tied)
            function = tf.function(letting_go(body), autograph=False, jit_compile=True)
            self._made[key] = plan, without_retracing_warning(function)
        return self._made[key][1]

    def _body(
        self, layout: BatchLayout, step: LiveStep | None, schedule: Schedule | None, tied: WaitPolicy
    ) -> Callable[..., Any]:
        def train(*tensors: tf.Tensor) -> Any:
            if step is None or schedule is None:
                return self._plain(layout)(*tensors)
            found, _ = step.run(schedule, tensors, emit=partial(tied_step, tied=tied))
            return found if self._finish is None else self._finish(step, layout, tensors, found)

        return train


def fit_steps(model: Any, request: PlanRequest, trace: Trace) -> CompiledSteps:
    """Return the compiled steps of ``fit``: they return the metrics."""

    def plain(layout: BatchLayout) -> Callable[..., Any]:
        return lambda *tensors: model.train_step(layout.pack(tensors))

    def finish(step: LiveStep, layout: BatchLayout, tensors: Sequence[tf.Tensor], found: Any) -> Any:
        return found if step.with_metrics else logs_of(model, layout, tensors, found)

    return CompiledSteps(model, request, trace, plain, finish)


def why_executor(model: Any) -> str:
    """Return why ``model`` cannot be compiled here, or an empty string."""
    replicas = model.distribute_strategy.num_replicas_in_sync
    if replicas > 1:
        return f"a step on {replicas} replicas is not scheduled for XLA, so TensorFlow's executor runs it"
    return ""


def executor_sentence(error: NotCompiledError) -> str:
    """Say that the executor runs what XLA cannot compile."""
    return f"{error}; TensorFlow's executor runs it instead"
