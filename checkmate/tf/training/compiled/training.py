"""Run the batches of a model that XLA compiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from checkmate.errors import NotCompiledError
from checkmate.ir.schedule import Schedule
from checkmate.tf.models.batch import BatchLayout, Key
from checkmate.tf.private import without_retracing_warning
from checkmate.tf.training.compiled.planner import CompiledPlan, CompiledPlanner
from checkmate.tf.training.keras_step import has_own_step, update_metrics
from checkmate.tf.training.plans.plan import PlanRequest
from checkmate.tf.training.trace import LiveStep
from checkmate.tf.xla.emit import tied_step
from checkmate.tf.xla.ties import Tied

Logs = dict[str, tf.Tensor]


class CompiledSteps:
    """Run compiled steps, by the plan of each layout.

    ``trace``: traces the step of ``model`` for a layout.
    """

    def __init__(
        self, model: Any, request: PlanRequest, trace: Callable[[Any, BatchLayout], LiveStep]
    ) -> None:
        self.model = model
        self.planner = CompiledPlanner(model, request, trace, self._body)
        self._own = has_own_step(model)
        self._made: dict[Key, tuple[CompiledPlan, Any]] = {}

    def run(self, layout: BatchLayout, tensors: list[tf.Tensor]) -> Logs:
        """Train on one batch; return the results of the metrics.

        Raises:
            As ``CompiledPlanner.plan``.
        """
        plan = self.planner.plan(layout)
        if self._made.get(layout.key, (None,))[0] is not plan:
            body = self._body(layout, plan.step, plan.schedule, plan.tied)
            function = tf.function(body, autograph=False, jit_compile=True)
            self._made[layout.key] = plan, without_retracing_warning(function)
        logs: Logs = self._made[layout.key][1](*tensors)
        return logs

    def _body(
        self, layout: BatchLayout, step: LiveStep | None, schedule: Schedule | None, tied: Tied
    ) -> Callable[..., Logs]:
        """Return the step of ``layout`` as a function of its tensors.

        Metrics are included.
        """

        def train(*tensors: tf.Tensor) -> Logs:
            if step is None or schedule is None:
                plainly: Logs = self.model.train_step(layout.pack(tensors))
                return plainly
            found, _ = step.run(schedule, tensors, emit=partial(tied_step, tied=tied))
            if self._own:
                logs: Logs = found
                return logs
            loss, predictions = found
            x, y, weights = layout.pack(tensors)
            return update_metrics(self.model, x, y, predictions, weights, loss)

        return train


def why_executor(model: Any) -> str:
    """Return why ``model`` cannot be compiled here, or an empty string."""
    replicas = model.distribute_strategy.num_replicas_in_sync
    if replicas > 1:
        return f"a step on {replicas} replicas is not scheduled for XLA, so TensorFlow's executor runs it"
    return ""


def executor_sentence(error: NotCompiledError) -> str:
    """Say that the executor runs what XLA cannot compile."""
    return f"{error}; TensorFlow's executor runs it instead"
