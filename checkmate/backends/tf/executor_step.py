"""A step that TensorFlow's executor runs: its peak is predicted, then measured on the allocator's meter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from checkmate.backends.protocol import Allowed, Fitted, MeteredStep, StepSolver
from checkmate.backends.tf.comparing import Compared
from checkmate.backends.tf.costs.fresh import with_costs, with_costs_of_scheduled_step
from checkmate.backends.tf.costs.known import CostOptions
from checkmate.backends.tf.costs.profile import ESTIMATED
from checkmate.backends.tf.emit.saved_model import save_step
from checkmate.backends.tf.emit.side_by_side import in_turn, runs_side_by_side
from checkmate.backends.tf.environment import EXACT
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement, measure_fresh
from checkmate.backends.tf.memory_check import first_region
from checkmate.backends.tf.plain import AllocatorReplica, Plain, measure_plain
from checkmate.backends.tf.tasks import expect_tasks
from checkmate.backends.tf.tf_step import TfStep, TracedStep
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.verification_report import Measurements
from checkmate.backends.tf.xla.tied import XlaEmission
from checkmate.errors import StepTooLargeError
from checkmate.ir import Graph, Schedule, SolveResult
from checkmate.machine.cost_origin import cache_facts, origin_words, reading_words
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Report
from checkmate.units import Budget, format_bytes


@dataclass(frozen=True, eq=False)
class Measured(Fitted):
    """``folded``: the step that was measured, with ``in_turn`` set if its ops ran one at a time."""

    measured: FreshMeasurement
    folded: FoldedStep


class ExecutorStep(TfStep, MeteredStep):
    """A step that the executor runs. The plain step is measured when it is made."""

    def __init__(
        self,
        traced: TracedStep,
        report: Report,
        cancelled: Cancelled,
        too_large: StepTooLargeError | None = None,
    ) -> None:
        """Measure the plain step. ``too_large``: the error of an earlier attempt, if it does not fit."""
        super().__init__(traced, report, cancelled)
        self._plain = measure_plain(
            self.request, self.folded, too_large=too_large, report=report, cancelled=cancelled
        )

    @property
    def plain(self) -> Plain:
        return self._plain

    @property
    def plain_bytes(self) -> int:
        return self.plain.peak_bytes

    @cached_property
    def share_bytes(self) -> int:
        if not self.folded.traced.taken_out or self.plain.measured is None:
            return self.plain_bytes
        found = measure_fresh(
            self.request,
            None,
            message="measuring the step as it is written",
            report=self.report,
            cancelled=self.cancelled,
            as_written=True,
        )
        return min(self.plain_bytes, found.first_peak_bytes)

    def share_notes(self, budget: Budget, allowed: int) -> tuple[str, ...]:
        """Say that a budget in percent refers to a predicted peak, if the plain step was not measured."""
        if budget.share is None or self.plain.measured is not None:
            return ()
        peak, share = format_bytes(self.plain.peak_bytes), f"{100 * budget.share:g} %"
        return (f"the budget {format_bytes(allowed)} is {share} of the plain step's predicted peak {peak}",)

    def own_budget(self) -> Allowed:
        assert self.supplied is not None
        budget, seen = self.supplied.budget_bytes, self.plain.measured
        requested = simulate(self.graph, Schedule.plain(self.graph)).peak_bytes
        rate = max(1.0, self.plain.peak_bytes / (requested if seen is None else seen.requested_peak_bytes))
        should = "should show" if seen is None else "shows"
        note = (
            f"the schedule's budget {format_bytes(budget)} counts requested bytes; the plain step's "
            f"allocator {should} {rate:.3f} bytes for each"
        )
        return Allowed(int(budget * rate), (note,))

    @property
    def replica(self) -> AllocatorReplica:
        return AllocatorReplica(self.folded, self.plain.history)

    def measure(self, result: SolveResult, what: str = "", *, within: int | None = None) -> Measured:
        return self._measured(self.folded, result, what, within)

    def in_turn(self, fitted: Fitted, within: int) -> Measured:
        assert isinstance(fitted, Measured)
        if not runs_side_by_side(fitted.folded, fitted.result.require_schedule()):
            return fitted
        found = self._measured(in_turn(self.folded), fitted.result, ", one op after another", within)
        if found.expected_bytes >= fitted.expected_bytes:
            return fitted
        shown, less = format_bytes(fitted.expected_bytes), format_bytes(found.expected_bytes)
        note = f"ops run one after another, because side by side they showed {shown}, not {less}"
        return replace(found, notes=(*found.notes, note))

    def _measured(self, folded: FoldedStep, result: SolveResult, what: str, within: int | None) -> Measured:
        expect_tasks(EXACT)  # gradients are compared there
        fits, schedule = self.plain.measured is not None, result.require_schedule()
        found = measure_fresh(
            self.request,
            schedule,
            message=f"measuring the scheduled step{what}",
            report=self.report,
            cancelled=self.cancelled,
            stage="run",
            region=first_region(self.graph, schedule),
            in_turn=folded.in_turn,
            compare_within=(within or self.plain.peak_bytes) if fits else None,
        )
        return Measured(result, found.peak_bytes, doubts_note(self.graph), found, folded)

    @property
    def origin_notes(self) -> tuple[str, ...]:
        return *costs_note(self.graph), *doubts_note(self.graph), *self.folded.traced.notes

    def measurements(self, fitted: Fitted) -> Measurements:
        assert isinstance(fitted, Measured)
        predicted = self.replica.predicted(fitted.result.require_schedule().steps.tolist())
        return Measurements(self.plain, fitted.measured, Compared(None), predicted_bytes=predicted)

    def emission(self, fitted: Fitted) -> XlaEmission | None:
        return None

    def save(self, fitted: Fitted, directory: Path) -> tuple[str, ...]:
        assert isinstance(fitted, Measured)
        return save_step(fitted.folded, fitted.result.require_schedule(), directory)


def executor_step(traced: TracedStep, budget: Budget, costs: CostOptions, solver: StepSolver) -> ExecutorStep:
    """Measure the costs of a step, and the plain step."""
    solver.refuse_hopeless(traced.folded.graph, budget)
    request, folded, too_large = traced.request, traced.folded, None
    try:
        folded = with_costs(folded, costs, request=request, report=solver.report, cancelled=solver.cancelled)
    except StepTooLargeError as error:
        too_large = error
        folded = with_costs_of_scheduled_step(
            request,
            folded,
            budget,
            error,
            solver.solve_above_minimum,
            report=solver.report,
            cancelled=solver.cancelled,
        )
    return ExecutorStep(TracedStep(request, folded), solver.report, solver.cancelled, too_large)


def costs_note(graph: Graph) -> tuple[str, ...]:
    """Say when op costs were measured, or on what else than the plain step."""
    if measured_on := graph.origin.profile.get("measured_on"):
        return (f"op costs: measured on {measured_on}, because the plain step does not fit",)
    if cache_facts(graph).get("ops"):
        return (f"op costs: {origin_words(graph)}",)
    return tuple(note for note in graph.origin.notes if note.startswith(ESTIMATED))


def doubts_note(graph: Graph) -> tuple[str, ...]:
    """Say why the costs that the schedule was chosen by are doubtful, if they are."""
    words = reading_words(graph)
    return (words,) if words else ()
