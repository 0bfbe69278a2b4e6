"""What is decided for each batch layout: train plainly, or by which schedule; found by measuring on the first such batch.

The user's budget counts what the device's allocator holds; schedules count what ops request. The rate between them is taken
from the model's own steps, cautiously at first, so that looking for a schedule does not itself leave the budget.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from checkmate.errors import NoScheduleError, ProfileError, ScheduleError, TraceError
from checkmate.ir.graph import CostOrigin, CostUnit, Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.progress import Progress, Report
from checkmate.simulate import simulate
from checkmate.tf.live.batch import Key, Layout
from checkmate.tf.live.measure import Measured, measure_plain, measure_scheduled
from checkmate.tf.live.trace import LiveStep, live_step
from checkmate.units import Budget, format_bytes, format_overhead

_ATTEMPTS = 5
_FIRST_RATE = 1.15  # allocated per requested bytes, before anything is measured: 1.02 to 1.17 on the networks tried
_SAFETY = 0.995  # chunks are lumpy: what just fits by the rate may not by itself
_QUICK_S = 3.0

Solve = Callable[[Graph, int, Schedule | None, float | None, Report], SolveResult]


@dataclass(frozen=True)
class Wishes:
    """What the user wants, and how it is to be found.

    ``solve``: (graph, budget of requested bytes, schedule to start from, seconds or None for the user's own limit, progress) →
    result. ``least``: graph → the least requested bytes known to be reachable. ``progress``: shows progress while it is open.
    ``tell``: one line per decision.
    """

    budget: Budget
    solve: Solve
    least: Callable[[Graph], int]
    progress: Callable[[], AbstractContextManager[Report]]
    tell: Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Plan:
    """For one layout: ``step`` run by ``schedule``, or as TensorFlow would by itself where that is None.

    ``step`` is None where the step has nothing to schedule. ``peak_bytes``: measured on the allocator, 0 where it shows nothing.
    """

    layout: Layout
    step: LiveStep | None
    schedule: Schedule | None
    peak_bytes: int
    sentence: str


class Planner:
    """Plans by layout for one model and one budget; what one layout teaches is used for the next."""

    def __init__(self, model: Any, wishes: Wishes) -> None:
        self.model, self.wishes = model, wishes
        self.allowed_bytes: int | None = None  # the budget on the allocator, once a first step tells what a share means
        self._plans: dict[Key, Plan] = {}
        self._rate: float | None = None
        self._last: Schedule | None = None

    def planned(self, layout: Layout) -> Plan | None:
        """The plan for ``layout`` where there is one."""
        return self._plans.get(layout.key)

    def plan(self, layout: Layout, tensors: Sequence[tf.Tensor]) -> Plan:
        """The plan for ``layout``, made now where there is none, by measuring steps on ``tensors``.

        Raises:
            NoScheduleError: no schedule keeps the budget; the message names the least possible.
            TraceError, ProfileError, CycleError: the step could not be traced, run or measured.
        """
        found = self.planned(layout)
        if found is None:
            with self.wishes.progress() as report:
                found = self._plans[layout.key] = self._make(layout, tensors, report)
            self.wishes.tell(found.sentence)
        return found

    def exceeded(self, layout: Layout, peak_bytes: int) -> None:
        """The step of ``layout`` was seen at ``peak_bytes``, over the budget: forget its plan and be more careful."""
        assert self.allowed_bytes is not None
        self._rate = (self._rate or _FIRST_RATE) * peak_bytes / self.allowed_bytes
        self._plans.pop(layout.key, None)
        self.wishes.tell(
            f"{layout.describe()}: the allocator held {format_bytes(peak_bytes)}, over the budget of "
            f"{format_bytes(self.allowed_bytes)}; solving again for less"
        )

    def _make(self, layout: Layout, tensors: Sequence[tf.Tensor], report: Report) -> Plan:
        report(Progress("trace", message=f"tracing the training step, {layout.describe()}"))
        try:
            step = live_step(self.model, layout)
        except TraceError as error:
            if "nothing to rematerialize" not in str(error):
                raise
            return Plan(
                layout, None, None, 0, f"{layout.describe()}: nothing big enough to recompute; it trains plainly"
            )
        if self.allowed_bytes is None:
            self.allowed_bytes = self._resolve(step)
        search = _Search(step, tensors, self.allowed_bytes, self._rate, self.wishes, report)
        plan = search.plain() or search.again(self._last) or search.solved()
        self._rate = max(search.rate, self._rate or 1.0) if search.known else self._rate
        self._last = plan.schedule or self._last
        return plan

    def _resolve(self, step: LiveStep) -> int:
        budget, least = self.wishes.budget, 0
        if budget == Budget():
            # Room for the allocator's chunks on top of what ops request.
            least = int(self.wishes.least(step.graph) * _FIRST_RATE) + _held_by_others(step.graph)
        everything = _peak(step.graph, step.everything) + _held_by_others(step.graph)
        return budget.resolve(keep_everything_peak=everything, minimum=least)


class _Search:
    """The search for one layout's plan. ``rate``: allocated per requested bytes; ``known``: it was measured."""

    def __init__(
        self,
        step: LiveStep,
        tensors: Sequence[tf.Tensor],
        allowed: int,
        rate: float | None,
        wishes: Wishes,
        report: Report,
    ) -> None:
        self.step, self.tensors, self.allowed, self.wishes, self.report = step, tensors, allowed, wishes, report
        self.graph = step.graph
        self.everything = _peak(self.graph, step.everything)
        self.rate, self.known = rate or _FIRST_RATE, rate is not None
        self.other = _held_by_others(self.graph)

    @property
    def target(self) -> int:
        """Requested bytes that should keep the allocator within the budget."""
        return int((self.allowed - self.other) / self.rate * _SAFETY)

    def plain(self) -> Plan | None:
        """Train plainly, if that was measured to fit."""
        if self.everything > self.target:
            return None
        self.report(Progress("measure", message="measuring the plain step, which should fit"))
        try:
            found = measure_plain(self.step, self.tensors)
        except ProfileError:
            return None
        if found.peak_bytes > self.allowed:
            return None
        self._learn(found, self.everything)
        return self._plan(None, found, "it trains plainly, which fits")

    def again(self, schedule: Schedule | None) -> Plan | None:
        """The schedule of another layout, if it fits this one's graph and budget."""
        if schedule is None:
            return None
        try:
            moved = Schedule.of(self.graph, schedule.steps.tolist())
            peak = _peak(self.graph, moved)
        except (ScheduleError, IndexError, ValueError):
            return None
        if peak > self.target:
            return None
        found = self._measure(moved, "an earlier schedule")
        return self._plan(moved, found, "an earlier schedule fits") if found.peak_bytes <= self.allowed else None

    def solved(self) -> Plan:
        """Solve on operation counts, run that, then solve on what its ops took, until the allocator keeps the budget."""
        first = self._first()
        found = self._measure(first, "a first schedule")
        self.graph = _with_seconds(self.graph, found.node_seconds)
        best: tuple[Schedule, Measured] | None = (first, found) if found.peak_bytes <= self.allowed else None
        over = found
        for attempt in range(1, _ATTEMPTS + 1):
            schedule = self._solve(self.target, first, None, f"attempt {attempt}").schedule
            if schedule is None:
                break
            found = self._measure(schedule, f"attempt {attempt}")
            if found.peak_bytes <= self.allowed:
                if best is None or simulate(self.graph, schedule).cost <= simulate(self.graph, best[0]).cost:
                    best = schedule, found
                break
            over = found
            self.rate *= found.peak_bytes / self.allowed
        if best is None:
            raise self._impossible(f"the allocator still held {format_bytes(over.peak_bytes)}")
        return self._plan(*best, "")

    def _first(self) -> Schedule:
        # The guessed rate may ask for less than is possible; then what the ops request is all that counts.
        rates = [self.rate] if self.known else [self.rate, 1.0]
        proved = False
        for self.rate in rates:
            result = self._solve(self.target, None, _QUICK_S, "on operation counts")
            if result.schedule is not None:
                return result.schedule
            proved = result.status is SolveStatus.INFEASIBLE
        raise self._impossible("that is proved" if proved else "none was found")

    def _solve(self, target: int, start: Schedule | None, seconds: float | None, what: str) -> SolveResult:
        self.report(Progress("solve", message=f"solving for {format_bytes(target)} ({what})"))
        if start is not None:
            start = Schedule.of(self.graph, start.steps.tolist())
        return self.wishes.solve(self.graph, target, start, seconds, self.report)

    def _measure(self, schedule: Schedule, what: str) -> Measured:
        self.report(Progress("measure", message=f"measuring the scheduled step ({what})"))
        found = measure_scheduled(self.step, Schedule.of(self.step.graph, schedule.steps.tolist()), self.tensors)
        self._learn(found, _peak(self.graph, schedule))
        return found

    def _learn(self, found: Measured, requested: int) -> None:
        if found.peak_bytes:
            self.rate = max(1.0, (found.peak_bytes - self.other) / requested)
            self.known = True

    def _impossible(self, why: str) -> NoScheduleError:
        needed = int(self.wishes.least(self.graph) * self.rate / _SAFETY) + self.other
        raise NoScheduleError(
            f"no schedule keeps a training step of {self.step.model.name!r} with a {self.step.layout.describe()} within "
            f"{format_bytes(self.allowed)}: {why}; the least possible is about {format_bytes(needed)}",
            hint=f"raise the budget to {format_bytes(needed * 1.02)} or more, or use a smaller batch",
            details={"budget_bytes": self.allowed, "needed_bytes": needed},
        )

    def _plan(self, schedule: Schedule | None, found: Measured, why: str) -> Plan:
        if schedule is not None:
            count = len(schedule.steps) - self.graph.n
            cost = format_overhead(simulate(self.graph, schedule).cost, self.graph.base_cost)
            why = f"{count} recomputations, {cost} computation" + (f" ({why})" if why else "")
        peak = f"measured peak {format_bytes(found.peak_bytes)} of" if found.peak_bytes else "not metered, budget"
        sentence = (
            f"{self.step.layout.describe()}: {why}; {peak} {format_bytes(self.allowed)} "
            f"(keeping everything requests {format_bytes(self.everything)})"
        )
        kept = None if schedule is None else Schedule.of(self.step.graph, schedule.steps.tolist())
        return Plan(self.step.layout, self.step, kept, found.peak_bytes, sentence)


def _peak(graph: Graph, schedule: Schedule) -> int:
    return simulate(graph, schedule).peak_bytes


def _with_seconds(graph: Graph, seconds: Sequence[float]) -> Graph:
    """``graph`` with measured costs; as it was where nothing was measured."""
    if not any(seconds):
        return graph
    ops = tuple(dataclasses.replace(op, cost=cost) for op, cost in zip(graph.ops, seconds, strict=True))
    return dataclasses.replace(graph, ops=ops, cost_unit=CostUnit.SECONDS, cost_origin=CostOrigin.MEASURED)


def meter_of(graph: Graph) -> str:
    """The name of the device whose allocator counts."""
    return "GPU:0" if graph.device is not None and graph.device.kind == "gpu" else "CPU:0"


def _held_by_others(graph: Graph) -> int:
    """Bytes in use on the device that are not the step's own: a data set in memory, other models."""
    try:
        current = int(tf.config.experimental.get_memory_info(meter_of(graph))["current"])
    except ValueError:  # a device without a meter
        return 0
    return max(0, current - graph.fixed_bytes)
