"""From a budget to an exported step: the one loop behind ``run``, ``export`` and ``verify``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkmate.backends.protocol import Allowed, CompiledStep, Fitted, MeteredStep, PlannedStep
from checkmate.errors import NoScheduleError, SolveCancelledError, StepTooLargeError, VerificationError
from checkmate.ir import Graph, SolveResult, VerificationReport
from checkmate.ir.shown import Shown
from checkmate.planning.arranging import arranged
from checkmate.planning.compiling import CompiledSearch
from checkmate.planning.metered import fit_metered
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.planning.solving import keep_everything_peak, known_minimum, solve
from checkmate.progress import Progress
from checkmate.units import Budget, format_bytes

# The allocator's excess over requested bytes differs between schedules, so some room is left.
_SAFETY = 0.995
_EXPORTS = 4  # attempts until the reloaded step fits too: its allocator has another history of requests
_RELOADED_OVER = 0.05  # of the budget: the assumed excess of a reloaded step that ran out of memory


@dataclass(frozen=True, eq=False)
class RunOutcome(Shown):
    """What ``run`` found: the measured report, the schedule that fits, and the graph that it is for."""

    report: VerificationReport
    result: SolveResult
    graph: Graph


class StepPlanning:
    """Looks for a step's schedule: solve, predict and measure, or compile, and correct."""

    def __init__(self, step: PlannedStep, solver: ScheduleSolver) -> None:
        self.step, self._solver = step, solver
        self._compiled: CompiledSearch[Any, Any] | None = None
        if isinstance(step, CompiledStep):
            self._compiled = CompiledSearch(step.compilation, solver)  # kept: it never compiles a step twice

    def allowed(self, budget: Budget | int | None) -> Allowed:
        """Return what the step may show for ``budget``; None means the supplied schedule's own budget."""
        step = self.step
        if isinstance(budget, int):
            return Allowed(budget)
        if budget is None:
            return step.own_budget()
        least = self._least_bytes() if budget == Budget() else 0
        if budget.share is None:
            return Allowed(budget.resolve(keep_everything_peak=step.plain_bytes, minimum=least))
        allowed = budget.resolve(keep_everything_peak=step.share_bytes, minimum=least)
        notes = step.share_notes(budget, allowed)
        if step.share_bytes < step.plain_bytes:
            written, without = format_bytes(step.share_bytes), format_bytes(step.plain_bytes)
            notes += (
                f"the budget is a share of the {written} that the step takes as written; plain: {without}",
            )
        return Allowed(allowed, notes)

    def _least_bytes(self) -> int:
        if self._compiled is not None:
            return self._compiled.least_bytes()
        assert isinstance(self.step, MeteredStep)
        ratio = max(1.0, self.step.graph.origin.allocated_per_requested)
        known = known_minimum(self.step.graph, constraints=self._solver.constraints)
        return int(known.bytes * ratio * (2 - _SAFETY) + 2**20)

    def as_given(self, allowed: int, *, to_write: bool) -> Fitted:
        """Measure or compile the supplied schedule. If it is ``to_write``, its steps may be reordered first,
        to fit the allocator's meter."""
        result, notes = self.step.supplied, tuple[str, ...]()
        assert result is not None
        if isinstance(self.step, CompiledStep):
            return self._compiled_as_given(self.step, result, allowed)
        assert isinstance(self.step, MeteredStep)
        if to_write:
            asked, result = result, arranged(self.step.replica, result, allowed, self._solver.cancelled)
            notes = replaced_note(asked, result, allowed)
        found = self.step.measure(result)
        if found.expected_bytes > allowed:
            found = self.step.in_turn(found, allowed)
        return replace(found, notes=(*notes, *found.notes))

    def _compiled_as_given(self, step: CompiledStep, result: SolveResult, allowed: int) -> Fitted:
        assert self._compiled is not None
        return step.fitted(self._compiled.as_given(result, allowed), result)

    def fit(self, goal: int, allowed: int, *, first: bool) -> Fitted:
        """Find a schedule that shows at most ``goal`` bytes; try the supplied one ``first``."""
        supplied = self.step.supplied if first else None
        if isinstance(self.step, CompiledStep):
            return self._fit_compiled(self.step, goal, supplied)
        assert isinstance(self.step, MeteredStep)
        found = fit_metered(self.step, self._solver, goal, supplied)
        measured = found.require_fit()
        notes = (
            *replaced_note(supplied, found.result, allowed),
            found.margin,
            *_reload_margin_note(allowed - goal),
            *dict.fromkeys([*measured.notes, *self.step.origin_notes]),
        )
        return replace(measured, notes=notes)

    def _fit_compiled(self, step: CompiledStep, goal: int, supplied: SolveResult | None) -> Fitted:
        assert self._compiled is not None
        if supplied is not None:
            given = self._compiled_as_given(step, supplied, goal)
            if given.expected_bytes <= goal:
                return given
        found = self._compiled.fit(goal)
        if not found.fits:
            raise step.none_fits(found)
        graph = step.graph
        return step.fitted(
            found, found.result or solve(graph, keep_everything_peak(graph), solver="keep-all")
        )


def verified(planning: StepPlanning, budget: Budget | int | None) -> VerificationReport:
    """Run the supplied schedule beside the plain step."""
    allowed = planning.allowed(budget)
    fitted = planning.as_given(allowed.bytes, to_write=False)
    return planning.step.verify(fitted, allowed.bytes, (*allowed.notes, *fitted.notes))


def exported(planning: StepPlanning, budget: Budget | int | None, directory: Path) -> VerificationReport:
    """Export the supplied schedule as it is."""
    allowed = planning.allowed(budget)
    fitted = planning.as_given(allowed.bytes, to_write=True)
    return planning.step.export(fitted, directory, allowed.bytes, (*allowed.notes, *fitted.notes))


def exported_within(planning: StepPlanning, budget: Budget, directory: Path) -> RunOutcome:
    """Fit, write and reload until the reloaded step keeps the budget too; else the last one written stays."""
    step, allowed = planning.step, planning.allowed(budget)
    goal, outcome = allowed.bytes, None
    for attempt in range(1, _EXPORTS + 1):
        try:
            fitted = planning.fit(goal, allowed.bytes, first=attempt == 1)
        except (NoScheduleError, VerificationError) as error:
            if outcome is None or isinstance(error, SolveCancelledError):
                raise
            break
        try:
            found = step.export(fitted, directory, allowed.bytes, (*allowed.notes, *fitted.notes))
        except StepTooLargeError:  # the reloaded step ran out of memory
            if attempt < _EXPORTS:
                goal -= int(_RELOADED_OVER * allowed.bytes)
                continue
            if outcome is None:
                raise
            break
        outcome = RunOutcome(found, fitted.result, step.graph)
        shown = max(int(found.peak_bytes[name] or 0) for name in ("measured", "reloaded_measured"))
        if shown <= allowed.bytes or attempt == _EXPORTS:
            break
        over = format_bytes(shown - allowed.bytes)
        step.report(Progress("solve", message=f"the reloaded step is over by {over}: solving for less"))
        goal = goal_after_reload(goal, allowed.bytes, fitted.expected_bytes, shown)
    assert outcome is not None  # the loop raises unless it has written one
    return outcome


def goal_after_reload(goal: int, allowed: int, expected: int, shown: int) -> int:
    """Return what the next schedule may show, in bytes. The last one showed more than ``expected``; the next
    one may exceed its prediction by the same bytes, or by the same ratio, so the smaller goal is taken."""
    by_difference = goal - (shown - allowed) - int((1 - _SAFETY) * allowed)
    by_ratio = int(_SAFETY * allowed * expected / shown)
    return min(by_difference, by_ratio)


def replaced_note(first: SolveResult | None, result: SolveResult, allowed_bytes: int) -> tuple[str, ...]:
    """Return a note if the written schedule is not the requested one."""
    if first is None or result is first:
        return ()
    steps, others = (sorted(each.require_schedule().steps.tolist()) for each in (first, result))
    if steps == others:
        return (
            f"the schedule that was asked for was over {format_bytes(allowed_bytes)} on the allocator's "
            "meter; its steps were put in another order",
        )
    asked, found = format_bytes(first.peak_bytes or 0), format_bytes(result.peak_bytes or 0)
    return (
        f"the schedule that was asked for ({asked} of requested bytes) was over "
        f"{format_bytes(allowed_bytes)} on the allocator's meter; a schedule of {found} replaced it",
    )


def _reload_margin_note(taken_bytes: int) -> tuple[str, ...]:
    if not taken_bytes:
        return ()
    taken = format_bytes(taken_bytes)
    return (
        f"{taken} of the budget are left free, because the allocator lays out the reloaded step differently",
    )
