"""The traced step that is measured and written.

Here is also what is known of the step when it is run plainly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from checkmate.backends.tf.allocator.predict import predicted_allocated
from checkmate.backends.tf.costs import session
from checkmate.backends.tf.emit.other_trace import for_traced_step
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement, measure_fresh
from checkmate.backends.tf.memory_check import first_region
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.planning.fitting.arranging import Arranger
from checkmate.planning.report.notes import predicted_share_note, replaced_note
from checkmate.planning.solving import known_minimum
from checkmate.planning.verification.plain import Plain, measure_plain
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest
from checkmate.units import Budget, format_bytes


@dataclass(frozen=True, eq=False)
class MeasuredStep:
    """A traced step with the graph that is solved.

    It also has what is known of the step when it is run plainly.
    """

    request: ModelRequest
    folded: FoldedStep
    plain: Plain
    report: Report
    cancelled: Cancelled

    @property
    def graph(self) -> Graph:
        return self.folded.graph

    def predicted_peak(self, result: SolveResult) -> int:
        """Return the peak in bytes that the allocator's meter should show."""
        steps = result.require_schedule().steps.tolist()
        return predicted_allocated(self.folded, self.graph, steps, self.plain.history)

    def arranged(self, result: SolveResult, allowed: int) -> tuple[SolveResult, tuple[str, ...]]:
        """Return ``result`` in an order of its steps that should show less.

        The order is another one only where the given one should show more than ``allowed`` bytes. Also return
        a note on that.
        """
        if self.predicted_peak(result) <= allowed:
            return result, ()
        found = Arranger(self.folded, self.graph, self.plain.history, self.cancelled).arranged(
            result, allowed
        )
        if self.predicted_peak(found) >= self.predicted_peak(result):
            return result, ()
        return found, replaced_note(result, found, allowed)

    def measure(self, result: SolveResult) -> FreshMeasurement:
        """Measure the scheduled step in a fresh process.

        It is compared with the plain step there if both fit.

        Raises:
            StepTooLargeError: it does not fit the device. CancelledError: the user cancelled.
        """
        message = "measuring the scheduled step"
        return measure_fresh(
            self.request,
            result.require_schedule(),
            message=message,
            report=self.report,
            cancelled=self.cancelled,
            region=first_region(self.graph, result.require_schedule()),
            compare_within=None if self.plain.measured is None else self.plain.peak_bytes,
        )

    def metered_budget(
        self, budget_bytes: int | Budget | None, result: SolveResult
    ) -> tuple[int, tuple[str, ...]]:
        """Return what the allocator may show, in bytes, and notes on it.

        A share is of the plain step's measured peak, as for ``run``. Where ``budget_bytes`` is None, it is
        the schedule's own budget, which counts requested bytes, at the plain step's rate of allocated per
        requested bytes.
        """
        if isinstance(budget_bytes, Budget):
            least = known_minimum(self.graph).bytes if budget_bytes == Budget() else 0
            allowed = budget_bytes.resolve(keep_everything_peak=self.plain.peak_bytes, minimum=least)
            return allowed, predicted_share_note(budget_bytes, allowed, self.plain)
        if budget_bytes is not None:
            return budget_bytes, ()
        seen = self.plain.measured
        requested = simulate(self.graph, Schedule.plain(self.graph)).peak_bytes
        rate = max(1.0, self.plain.peak_bytes / (requested if seen is None else seen.requested_peak_bytes))
        should = "should show" if seen is None else "shows"
        note = (
            f"the schedule's budget {format_bytes(result.budget_bytes)} counts requested bytes; the plain "
            f"step's allocator {should} {rate:.3f} bytes for each"
        )
        return int(result.budget_bytes * rate), (note,)


@dataclass(frozen=True, eq=False)
class Retraced:
    """The step of a file, traced here: nothing of it was run yet.

    ``result`` is for the traced step. ``notes`` say what changed.
    """

    request: ModelRequest
    folded: FoldedStep
    result: SolveResult
    notes: tuple[str, ...]

    @property
    def for_xla(self) -> bool:
        return self.folded.traced.loaded.jit_compiled

    def measured(
        self, report: Report, cancelled: Cancelled
    ) -> tuple[MeasuredStep, SolveResult, tuple[str, ...]]:
        """Measure the plain step. Return the step with it, the schedule for it, and notes on what changed."""
        plain = measure_plain(self.request, self.folded, report=report, cancelled=cancelled)
        return MeasuredStep(self.request, self.folded, plain, report, cancelled), self.result, self.notes


def with_target_of(request: ModelRequest, graph: Graph) -> ModelRequest:
    """Return ``request`` for the target of ``graph``, unless it names one.

    A model may be compiled for XLA on one machine and not on another; a schedule is for one of them. It is
    folded as ``graph`` was.
    """
    request = replace(request, fused=bool(graph.metadata.get("fused")))
    known = graph.metadata.get("target")
    return request if request.target is not None or known is None else replace(request, target=str(known))


def retrace(
    request: ModelRequest, graph: Graph, result: SolveResult, report: Report, cancelled: Cancelled
) -> Retraced:
    """Trace the step that ``graph`` (of a file) describes; run nothing.

    Raises:
        OtherStepError: ``graph`` is not this model's.
    """
    request = with_target_of(session.with_kernels_here(request), graph)
    folded = session.prepare(request, report=report, cancelled=cancelled)
    request = session.with_kernels_of(request, folded.graph)  # a step may have the batch of its example
    graph, result, retraced = for_traced_step(folded.graph, graph, result)
    return Retraced(request, replace(folded, graph=graph), result, retraced)
