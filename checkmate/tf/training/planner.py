"""Plan each batch layout of a model by measuring on its first batch."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from checkmate.errors import NoScheduleError, OnlySmallTensorsError
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.progress import Progress, Report
from checkmate.tf.emit.small_chunks import SmallChunks
from checkmate.tf.training.batch import BatchLayout, Key
from checkmate.tf.training.plan import FIRST_RATE, PlanRequest, StepPlan, allowing_for, held_by_others
from checkmate.tf.training.search import PlanSearch
from checkmate.tf.training.trace import LiveStep, live_step
from checkmate.units import Budget, format_bytes

_CORRECTIONS = 3


class Planner:
    """Hold the plans of one model for one budget, by batch layout.

    What one layout teaches is used for the next.
    """

    def __init__(self, model: Any, request: PlanRequest) -> None:
        self.model, self.request = model, request
        self.allowed_bytes: int | None = (
            None  # the budget on the allocator, once a first step tells what a share means
        )
        self._plans: dict[Key, StepPlan] = {}
        self._exceeding: dict[Key, StepPlan] = {}
        self._limits: dict[Key, int] = {}
        self._rate: float | None = None
        self._last: Schedule | None = None

    def planned(self, layout: BatchLayout) -> StepPlan | None:
        """Return the plan for ``layout``; None where there is none yet."""
        return self._plans.get(layout.key)

    def plan(self, layout: BatchLayout, tensors: Sequence[tf.Tensor]) -> StepPlan:
        """Return the plan for ``layout``; make it now if there is none.

        It is made by measuring steps on ``tensors``.

        Raises:
            NoScheduleError: no schedule keeps the budget; the message names the least possible.
            TraceError, ProfileError, CycleError: the step could not be traced, run or measured.
        """
        found = self.planned(layout)
        if found is None:
            with self.request.progress() as report:
                found = self._plans[layout.key] = self._within_limit(layout, tensors, report)
            self.request.tell(found.sentence)
        return found

    def exceeded(self, layout: BatchLayout, peak_bytes: int) -> None:
        """Forget the plan of ``layout``, which exceeded the budget, and aim lower.

        The step was seen at ``peak_bytes``. After a few such corrections the plan stays as it is, because
        each costs a search.
        """
        assert self.allowed_bytes is not None
        limit = self._limits.get(layout.key, self.allowed_bytes)
        spent = limit < self.allowed_bytes * 0.9**_CORRECTIONS
        self.request.tell(
            f"{layout.describe()}: the allocator held {format_bytes(peak_bytes)}, over the budget of "
            f"{format_bytes(self.allowed_bytes)}; {'the plan is kept' if spent else 'solving again for less'}"
        )
        if not spent:
            self._limits[layout.key] = int(limit * max(0.85, min(0.97, self.allowed_bytes / peak_bytes)))
            self._exceeding[layout.key] = self._plans.pop(layout.key)

    def _within_limit(self, layout: BatchLayout, tensors: Sequence[tf.Tensor], report: Report) -> StepPlan:
        try:
            return self._make(layout, tensors, report)
        except NoScheduleError as error:
            if layout.key not in self._exceeding:
                raise
            # Training has begun, so a step that is a little over the budget is better than none.
            return dataclasses.replace(
                self._exceeding[layout.key], sentence=f"{error}; the earlier plan is kept"
            )

    def _make(self, layout: BatchLayout, tensors: Sequence[tf.Tensor], report: Report) -> StepPlan:
        report(Progress("trace", message=f"tracing the training step, {layout.describe()}"))
        try:
            step = live_step(self.model, layout)
        except OnlySmallTensorsError:
            return StepPlan(
                layout,
                None,
                None,
                0,
                f"{layout.describe()}: nothing big enough to recompute; it trains as before",
            )
        gc.collect()  # what nobody uses any longer would count as held by others
        if self.allowed_bytes is None:
            self.allowed_bytes = self._resolve(step)
        allowed = self._limits.get(layout.key, self.allowed_bytes)
        small_chunks = SmallChunks(step.folded.structure)
        small_chunks.make()
        search = PlanSearch(step, tensors, allowed, self._rate, self.request, report)
        plan = search.plain() or search.again(self._last) or search.solved()
        self._rate = max(search.rate, self._rate or 1.0) if search.known else self._rate
        self._last = plan.schedule or self._last
        return plan if plan.schedule is None else dataclasses.replace(plan, small_chunks=small_chunks)

    def _resolve(self, step: LiveStep) -> int:
        budget, least, held = self.request.budget, 0, held_by_others(step.graph)
        if budget == Budget():
            least = allowing_for(int(self.request.least(step.graph) * FIRST_RATE), held, step.graph)
        everything = simulate(step.graph, step.everything).peak_bytes + held
        return budget.resolve(keep_everything_peak=everything, minimum=least)
