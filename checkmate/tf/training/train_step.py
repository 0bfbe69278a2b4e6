"""Offer the bare training step of a compiled model, for custom loops."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from checkmate.errors import UsageError
from checkmate.tf.models.batch import flatten, require_examples
from checkmate.tf.training.functions import Functions
from checkmate.tf.training.keras_step import require_keras_step, require_no_xla, require_trainable
from checkmate.tf.training.plans.limit import Phases
from checkmate.tf.training.plans.plan import PlanRequest, StepPlan
from checkmate.tf.training.plans.planner import Planner
from checkmate.tf.training.trace import StepParts, whole_step


class TrainStep:
    """Train the model for one batch per call, within the budget.

    ``step(x, y, sample_weight)`` updates the weights once and returns (loss, predictions). Called with arrays
    or tensors it plans by itself, at the first batch of each layout. Called while a ``tf.function`` is traced
    (in a custom loop, or by a strategy's ``run``) it needs known shapes and a plan made before with
    ``prepare``. Metrics are left to the caller.
    """

    def __init__(self, model: Any, request: PlanRequest) -> None:
        require_trainable(model)
        require_no_xla(model)
        require_keras_step(model)
        self.model, self._request, self._phases = model, request, Phases()
        self._trained: tuple[int, ...] | None = None  # what the plans are for
        self._plan_anew()

    def prepare(self, x: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Make the plan for batches like this one; leave the model as it is.

        Raises:
            NoScheduleError: as for ``Planner.plan``.
            TraceError, ProfileError: the step cannot be traced or run.
        """
        layout, tensors = flatten((x, y, sample_weight))
        require_examples(layout)
        self._begin_phase()
        self._planner.plan(layout, tensors)
        self._trained = _trained(self.model)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def __call__(self, x: Any, y: Any = None, sample_weight: Any = None) -> tuple[tf.Tensor, Any]:
        """Train on one batch.

        Raises:
            UsageError: called while a function is traced, without a plan; or with a strategy, outside its
                ``run``. Others as ``prepare``.
        """
        layout, tensors = flatten((x, y, sample_weight))
        self._begin_phase()
        if not tf.executing_eagerly():
            plan = self._planner.planned(layout)
            if plan is None:
                raise UsageError(
                    f"the step was called inside a tf.function with a {layout.describe()} "
                    "that it has no plan for",
                    hint="call step.prepare(x, y) on such a batch first, outside of the function",
                )
            return self._emit(plan, tensors)
        if self.model.distribute_strategy.num_replicas_in_sync > 1:
            raise UsageError(
                f"the model {self.model.name!r} is distributed, so its step runs on replicas",
                hint="call step.prepare(x, y) with one replica's batch, "
                "then the step inside strategy.run in a tf.function",
            )
        plan = self._planner.plan(layout, tensors, at_once=True)
        self._trained = _trained(self.model)
        function = self._functions.of([layout], lambda *given: self._emit(plan, given))
        found: tuple[tf.Tensor, Any] = function(*tensors)
        return found

    def _begin_phase(self) -> None:
        """Plan anew if the model was compiled again or its layers changed.

        Layers change when they are frozen or thawed.
        """
        if self._trained is not None and self._trained != _trained(self.model):
            require_trainable(self.model)
            self._plan_anew()

    def _plan_anew(self) -> None:
        self._planner = Planner(self.model, self._request, phases=self._phases)
        self._functions = Functions(self._planner)
        self._trained = None

    def _emit(self, plan: StepPlan, tensors: Any) -> tuple[tf.Tensor, Any]:
        if plan.step is not None and (plan.schedule is not None or plan.step.distributed):
            schedule = plan.schedule if plan.schedule is not None else plan.step.everything
            found: tuple[tf.Tensor, Any] = plan.step.run(schedule, tensors)[0]
            return found
        parts = StepParts()
        loss, flat, _ = whole_step(self.model, plan.layout, parts, lambda name: None)(*tensors)
        return loss, parts.pack_predictions(flat)


def _trained(model: Any) -> tuple[int, ...]:
    """Return what tells one phase of a training from the next.

    It is its optimizer and what it trains.
    """
    return id(model.optimizer), *map(id, model.trainable_variables)
