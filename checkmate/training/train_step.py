"""Offer the bare training step of a compiled model, for custom loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from checkmate.backends.tf.live.keras_step import chosen_by_keras, require_keras_step, require_trainable
from checkmate.backends.tf.live.trace import LiveStep, StepParts, live_step, whole_step
from checkmate.backends.tf.models.batch import BatchLayout, flatten, require_examples
from checkmate.errors import UsageError
from checkmate.planning.plan_request import PlanRequest
from checkmate.training.compiled_steps import CompiledSteps, is_for_xla
from checkmate.training.functions import Functions
from checkmate.training.limit import Phases
from checkmate.training.plan import StepSubject
from checkmate.training.planner import Planner
from checkmate.training.wording import not_planned

_PREPARE = "call step.prepare(x, y) on such a batch first, outside of the function"


class TrainStep(StepSubject):
    """Train the model for one batch per call, within the budget.

    ``step(x, y, sample_weight)`` updates the weights once and returns (loss, predictions); metrics are left
    to the caller. Called with arrays or tensors it plans by itself, at the first batch of each layout. Called
    while a ``tf.function`` is traced (in a custom loop, or by a strategy's ``run``) it needs known shapes and
    a plan made before with ``prepare``.
    """

    def __init__(self, model: Any, request: PlanRequest) -> None:
        require_trainable(model)
        require_keras_step(model)
        self.model, self._request, self._phases = model, request, Phases()
        self._trained: tuple[int, ...] | None = None  # what the plans are for
        self._plan_anew()

    def prepare(self, x: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Make the plan for batches like this one; leave the model as it is.

        Raises:
            NotCompiledError: XLA is to compile it, and cannot. Others as ``checkmate.train_step``.
        """
        layout, tensors = flatten((x, y, sample_weight))
        require_examples(layout)
        self._begin_phase()
        if self.compiled is not None:
            self.compiled.plan(layout)
        else:
            self._planner.plan(layout, tensors)
        self._trained = _trained(self.model)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def __call__(self, x: Any, y: Any = None, sample_weight: Any = None) -> tuple[tf.Tensor, Any]:
        """Train on one batch.

        Raises:
            UsageError: called while a function is traced, without a plan; or with a strategy, outside its
            ``run``.
        """
        layout, tensors = flatten((x, y, sample_weight))
        self._begin_phase()
        result: tuple[tf.Tensor, Any]
        if self.compiled is not None:
            result = self.compiled.call(layout, tensors, _PREPARE)
            self._trained = _trained(self.model)
            return result
        if not tf.executing_eagerly():
            return self._emit(layout, tensors)
        if self.model.distribute_strategy.num_replicas_in_sync > 1:
            raise UsageError(
                f"the model {self.model.name!r} is distributed, so its step runs on replicas",
                hint="call step.prepare(x, y) with one replica's batch, "
                "then the step inside strategy.run in a tf.function",
            )
        plan = self._planner.plan(layout, tensors, at_once=True)
        self._trained = _trained(self.model)
        if plan.ready is not None:
            result = plan.ready.step.returned(*plan.ready.run(tensors))
        else:
            result = self._functions.run([layout], lambda *given: self._emit(layout, given), *tensors)
        return result

    def _begin_phase(self) -> None:
        """Plan anew if the model was compiled again, or layers were frozen or thawed."""
        if self._trained is not None and self._trained != _trained(self.model):
            require_trainable(self.model)
            self._plan_anew()

    def _plan_anew(self) -> None:
        compiled = self.model.jit_compile and not chosen_by_keras()
        for_xla = is_for_xla(self.model, self._request, compiled=compiled)
        self.compiled = CompiledSteps(self, self._request) if for_xla else None
        self._planner = Planner(self, self._request, self._phases)
        self._functions = Functions(self._planner)
        self._trained = None

    def _emit(self, layout: BatchLayout, tensors: Any) -> tuple[tf.Tensor, Any]:
        plan = self._planner.planned(layout)
        if plan is None:
            raise not_planned(layout, _PREPARE)
        if plan.step is not None and (plan.schedule is not None or plan.step.distributed):
            schedule = plan.schedule if plan.schedule is not None else plan.step.everything
            found: tuple[tf.Tensor, Any] = plan.step.run(schedule, tensors)[0]
            return found
        return self.plainly(layout, tensors)

    def trace(
        self, layout: BatchLayout, tensors: Sequence[tf.Tensor] = (), *, for_xla: bool = False
    ) -> LiveStep:
        return live_step(self.model, layout, tensors, for_xla=for_xla)

    def plainly(self, layout: BatchLayout, tensors: Sequence[tf.Tensor]) -> tuple[tf.Tensor, Any]:
        parts = StepParts()
        loss, flat, _ = whole_step(self.model, layout, parts, lambda name: None)(*tensors)
        return loss, parts.pack_predictions(flat)


def _trained(model: Any) -> tuple[int, ...]:
    """Identify the optimizer and the variables that it trains; if they change, a new phase of training
    begins."""
    return id(model.optimizer), *map(id, model.trainable_variables)
