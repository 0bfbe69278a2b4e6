"""Search for one layout's plan.

Solve, run, look at the allocator, and correct. The rate of allocated to requested bytes is taken from the
model's own steps, cautiously at first, so that looking for a schedule does not itself leave the budget.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from checkmate.errors import NoScheduleError, ProfileError
from checkmate.ir.graph import CostOrigin, CostUnit, Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.budget_search import BudgetSearch
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.progress import Progress, Report
from checkmate.tf.allocator.learn import with_workspace
from checkmate.tf.devices import has_meter
from checkmate.tf.training.elsewhere import HOW_TO_METER, measure_elsewhere
from checkmate.tf.training.measure import (
    OutOfMemoryError,
    PeakSource,
    StepMeasurement,
    measure_plain,
    measure_scheduled,
)
from checkmate.tf.training.plan import (
    FIRST_RATE,
    HEADROOM,
    PlanRequest,
    StepPlan,
    held_by_others,
    meter_of,
    read_ahead,
)
from checkmate.tf.training.trace import LiveStep
from checkmate.units import format_bytes, format_overhead

_ATTEMPTS = 5
_QUICK_S = 3.0
_OVER = 1.15  # of the budget: what a step is taken to need that the device has no memory for


class PlanSearch:
    """A search for one layout's plan.

    ``rate`` is allocated per requested bytes; ``known`` says that it was measured. ``held`` are bytes that
    others hold on the device now; ``other`` adds what a data set will prepare beside the step. ``cautious``
    leaves room for that and for the allocator's varying luck. It is given up where nothing fits with it,
    since training is watched.
    """

    def __init__(
        self,
        step: LiveStep,
        tensors: Sequence[tf.Tensor],
        allowed: int,
        rate: float | None,
        request: PlanRequest,
        report: Report,
    ) -> None:
        self.step, self.tensors, self.allowed, self.request, self.report = (
            step,
            tensors,
            allowed,
            request,
            report,
        )
        self.graph = step.graph
        self.everything = _peak(self.graph, step.everything)
        self.rate, self.known = rate or FIRST_RATE, rate is not None
        self.held = held_by_others(self.graph)
        self.other = self.held + read_ahead(self.graph)
        self.cautious = True
        self.metered = has_meter(meter_of(self.graph))

    @property
    def room(self) -> int:
        """Return the bytes that the allocator may hold for the step.

        They are for when the step is measured alone. The rest of training is not around it then.
        """
        return int(self.allowed * HEADROOM) - self.other if self.cautious else self.allowed - self.held

    @property
    def target(self) -> int:
        """Return the requested bytes to solve for.

        They should keep the allocator within the budget.
        """
        return int(self.room / self.rate)

    def fits(self, found: StepMeasurement) -> bool:
        """Return whether what was measured fits in training.

        It must leave room for what is around the step there.
        """
        return found.peak_bytes - self.held <= self.room

    def plain(self) -> StepPlan | None:
        """Return the plain plan, if the plain step was measured to fit."""
        if self.everything > self.target:
            return None
        self.report(Progress("measure", message="measuring the plain step, which should fit"))
        try:
            found = self._with_peak(measure_plain(self.step, self.tensors), None, self.everything)
        except ProfileError:
            return None
        self._learn(found, self.everything)
        if not self.fits(found):
            return None
        return self._plan(None, found, "it fits, and trains as before")

    def again(self, schedule: Schedule | None) -> StepPlan | None:
        """Return the plan with another layout's schedule, if it fits.

        It must fit this graph and budget.
        """
        if schedule is None:
            return None
        # The other layout's graph may differ: small tensors are not scheduled.
        if not check(self.graph, schedule.steps.tolist(), budget_bytes=self.target).ok:
            return None
        moved = Schedule.of(self.graph, schedule.steps.tolist())
        found = self._measure(moved, "an earlier schedule")
        return self._plan(moved, found, "an earlier schedule fits") if self.fits(found) else None

    def solved(self) -> StepPlan:
        """Return the plan by a schedule that is solved for.

        Solve on operation counts and run that; then solve on what its ops took, until the allocator keeps the
        budget.

        Raises:
            NoScheduleError: no schedule keeps the budget.
        """
        first = self._first()
        found = self._measure(first, "a first schedule", costs=True)
        seconds = _with_seconds(self.graph, found.node_seconds)
        self.graph = with_workspace(seconds, found.workspace, found.reserves)
        first = Schedule.of(self.graph, first.steps.tolist())
        self._learn(found, _peak(self.graph, first))
        if not any(found.node_seconds):
            sentence = "the profiler saw no times of ops, so schedules are chosen by operation counts"
            self.report(Progress("measure", message=sentence))
        best: tuple[Schedule, StepMeasurement] | None = (first, found) if self.fits(found) else None
        least = (first, found)
        rate = self.rate  # what later schedules show beyond it is learned by the search
        budgets = BudgetSearch(self.room, self.target, base_cost=self.graph.base_cost, solves=1)
        for attempt in range(1, _ATTEMPTS + 1):
            result = self._solve(budgets.target, first, None, f"attempt {attempt}")
            schedule = result.schedule
            if schedule is None:
                if attempt == 1:
                    break
                budgets.found_nothing()  # the last cut was too deep: go halfway back
                continue
            candidate = budgets.found(result, int(rate * _peak(self.graph, schedule)))
            found = self._measure(schedule, f"attempt {attempt}")
            if self.fits(found):
                if best is None or simulate(self.graph, schedule).cost <= simulate(self.graph, best[0]).cost:
                    best = schedule, found
                break
            least = min(least, (schedule, found), key=lambda each: each[1].peak_bytes)
            # What is over counts chunks, and a target requested bytes, of which there are fewer.
            over = found.peak_bytes - self.held - self.room
            budgets.measured(candidate, self.room + int(over / rate))
        if best is None and least[1].peak_bytes > self.allowed:
            raise self._impossible(f"the allocator still held {format_bytes(least[1].peak_bytes)}")
        # What fits without room to spare is better than nothing: training is watched.
        return self._plan(*(best or least), "")

    def _first(self) -> Schedule:
        # Rate and caution may ask for less than is possible; then what the ops request is all that counts.
        proved, rate = False, self.rate
        for self.rate, self.cautious in ((rate, True), (rate, False), (1.0, False)):
            result = self._solve(self.target, None, _QUICK_S, "on operation counts")
            if result.schedule is not None:
                return result.schedule
            proved = result.status is SolveStatus.INFEASIBLE
        raise self._impossible("that is proved" if proved else "none was found")

    def _solve(self, target: int, start: Schedule | None, seconds: float | None, what: str) -> SolveResult:
        self.report(Progress("solve", message=f"solving for {format_bytes(target)} ({what})"))
        if start is not None:
            start = Schedule.of(self.graph, start.steps.tolist())
        return self.request.solve(self.graph, target, start, seconds, self.report)

    def _measure(self, schedule: Schedule, what: str, *, costs: bool = False) -> StepMeasurement:
        self.report(Progress("measure", message=f"measuring the scheduled step ({what})"))
        traced = Schedule.of(self.step.graph, schedule.steps.tolist())
        try:
            found = measure_scheduled(self.step, traced, self.tensors, costs=costs)
        except OutOfMemoryError:
            # A device that is no larger than the budget says no before a meter could; that is an answer too.
            return StepMeasurement(int(self.allowed * _OVER), self.held)
        requested = _peak(self.graph, schedule)
        found = self._with_peak(found, traced, requested)
        self._learn(found, requested)
        return found

    def _with_peak(
        self, found: StepMeasurement, schedule: Schedule | None, requested: int
    ) -> StepMeasurement:
        """Return ``found`` with a peak.

        Where this process has no meter, it is a fresh process's, or else the one that is predicted.
        """
        if self.metered:
            return found
        self.report(Progress("measure", message="measuring the step's memory in a fresh process"))
        there = measure_elsewhere(self.step, schedule, self.tensors, self.report)
        if there is None:
            return dataclasses.replace(
                found, peak_bytes=int(requested * self.rate), source=PeakSource.PREDICTED
            )
        return dataclasses.replace(there, node_seconds=found.node_seconds)

    def _learn(self, found: StepMeasurement, requested: int) -> None:
        if found.peak_bytes and found.source is not PeakSource.PREDICTED:
            self.rate = max(1.0, (found.peak_bytes - self.held) / requested)
            self.known = True

    def _impossible(self, why: str) -> NoScheduleError:
        needed = int(self.request.least(self.graph) * self.rate) + self.held
        raise NoScheduleError(
            f"no schedule keeps a training step of {self.step.model.name!r} with a "
            f"{self.step.layout.describe()} within {format_bytes(self.allowed)}: {why}; "
            f"the least possible is about {format_bytes(needed)}",
            hint=f"raise the budget to {format_bytes(needed * 1.02)} or more, or use a smaller batch",
            details={"budget_bytes": self.allowed, "needed_bytes": needed},
        )

    def _plan(self, schedule: Schedule | None, found: StepMeasurement, why: str) -> StepPlan:
        if schedule is not None:
            count = len(schedule.steps) - self.graph.n
            cost = format_overhead(simulate(self.graph, schedule).cost, self.graph.base_cost)
            why = f"{count} recomputation{'s' * (count != 1)}, {cost} computation" + (
                f" ({why})" if why else ""
            )
        peak = (
            f"{found.source.value} peak {format_bytes(found.peak_bytes)} of"
            if found.peak_bytes
            else "not metered, budget"
        )
        if found.source is PeakSource.FRESH_PROCESS:
            peak = f"peak {format_bytes(found.peak_bytes)}, {found.source.value}, of"
        how = "" if self.metered else f"; this process has no memory meter: {HOW_TO_METER}"
        sentence = (
            f"{self.step.layout.describe()}: {why}; {peak} {format_bytes(self.allowed)} "
            f"(keeping everything requests {format_bytes(self.everything)}){how}"
        )
        kept = None if schedule is None else Schedule.of(self.step.graph, schedule.steps.tolist())
        return StepPlan(self.step.layout, self.step, kept, found.peak_bytes, sentence)


def _peak(graph: Graph, schedule: Schedule) -> int:
    return simulate(graph, schedule).peak_bytes


def _with_seconds(graph: Graph, seconds: Sequence[float]) -> Graph:
    """Return ``graph`` with measured costs.

    It is as it was where nothing was measured.
    """
    if not any(seconds):
        return graph
    ops = tuple(dataclasses.replace(op, cost=cost) for op, cost in zip(graph.ops, seconds, strict=True))
    return dataclasses.replace(graph, ops=ops, cost_unit=CostUnit.SECONDS, cost_origin=CostOrigin.MEASURED)
