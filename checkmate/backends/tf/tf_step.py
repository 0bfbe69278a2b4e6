"""A TensorFlow step that is measured, compared with the plain one, and exported."""

from __future__ import annotations

import threading
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from checkmate.backends.protocol import Fitted, PlannedStep
from checkmate.backends.tf.comparing import Compared, compare_where_it_fits
from checkmate.backends.tf.devices import choose_device, kernels_here
from checkmate.backends.tf.emit.other_trace import for_traced_step
from checkmate.backends.tf.emit.saved_model import measure_reloaded, write_example
from checkmate.backends.tf.plain import Plain
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.of_request import trace_request, with_kernels_of
from checkmate.backends.tf.verification_report import Measurements, verification_report
from checkmate.backends.tf.xla.tied import XlaEmission
from checkmate.errors import VerificationError
from checkmate.formats.files import put_in_place, staging
from checkmate.formats.schedule import write_records
from checkmate.ir import Graph, SolveResult, VerificationReport
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.request import ModelRequest

_SAVED_MODEL = "saved_model"


@dataclass(frozen=True, eq=False)
class TracedStep:
    """A step as traced in this process; nothing was run yet. ``supplied``: a schedule from a file, adapted to
    this trace; ``notes`` say what changed."""

    request: ModelRequest
    folded: FoldedStep
    supplied: SolveResult | None = None
    notes: tuple[str, ...] = ()

    @property
    def for_xla(self) -> bool:
        return self.folded.traced.loaded.jit_compiled


def traced_step(request: ModelRequest, report: Report, cancelled: Cancelled) -> TracedStep:
    folded = trace_request(request, report=report, cancelled=cancelled)
    return TracedStep(with_kernels_of(request, folded.graph), folded)


def retraced_step(
    request: ModelRequest, graph: Graph, result: SolveResult, report: Report, cancelled: Cancelled
) -> TracedStep:
    """Trace the step that ``graph`` (of a file) describes."""
    kernels = kernels_here(choose_device(request).kind)  # to compare processes with each other
    request = _with_target_of(replace(request, kernels=kernels.value), graph)
    traced = traced_step(request, report, cancelled)  # a step may have the batch of its example
    graph, result, notes = for_traced_step(traced.folded.graph, graph, result)
    return TracedStep(traced.request, replace(traced.folded, graph=graph), result, notes)


def _with_target_of(request: ModelRequest, graph: Graph) -> ModelRequest:
    """Return ``request`` with the folding of ``graph``, and with its target unless the request names one. A
    schedule is for one target, and Keras may choose XLA for a model on one machine and not on another."""
    request = replace(request, fused=graph.origin.fused)
    known = graph.origin.target
    return request if request.target is not None or not known else replace(request, target=known)


class TfStep(PlannedStep):
    @property
    @abstractmethod
    def plain(self) -> Plain: ...

    def __init__(self, traced: TracedStep, report: Report, cancelled: Cancelled) -> None:
        self.request, self.folded, self.supplied = traced.request, traced.folded, traced.supplied
        self.notes, self.report, self.cancelled = traced.notes, report, cancelled

    @property
    def graph(self) -> Graph:
        return self.folded.graph

    @abstractmethod
    def measurements(self, fitted: Fitted) -> Measurements:
        """Measure the scheduled step in a fresh process, unless that was done."""

    @abstractmethod
    def emission(self, fitted: Fitted) -> XlaEmission | None:
        """How the step is emitted for XLA; None: it is for the executor."""

    @abstractmethod
    def save(self, fitted: Fitted, directory: Path) -> tuple[str, ...]:
        """Write the SavedModel; return sentences on what it leaves out."""

    def verify(self, fitted: Fitted, allowed: int, notes: tuple[str, ...]) -> VerificationReport:
        found = self.measurements(fitted)
        compared = self._compared(fitted, found, self.cancelled)
        return self._reported(fitted, replace(found, compared=compared), allowed, notes)

    def export(
        self, fitted: Fitted, directory: Path, allowed: int, notes: tuple[str, ...]
    ) -> VerificationReport:
        """Write the SavedModel and the records beside it, and reload it with TensorFlow alone."""
        found = self.measurements(fitted)
        with staging(directory) as staged:
            compared, left_out = self._compared_while_saving(fitted, found, staged)
            found = replace(found, compared=compared)
            report = self._reloaded(fitted, found, staged, allowed, (*notes, *left_out))
            put_in_place(staged, directory)
        return report

    def _compared(self, fitted: Fitted, found: Measurements, cancelled: Cancelled) -> Compared:
        return compare_where_it_fits(
            self.request,
            self.folded,
            fitted.result.require_schedule(),
            self.plain,
            usual=found.measured.compared,
            xla=self.emission(fitted),
            report=self.report,
            cancelled=cancelled,
        )

    def _compared_while_saving(
        self, fitted: Fitted, found: Measurements, staged: Path
    ) -> tuple[Compared, tuple[str, ...]]:
        """Compare the gradients, in processes of their own, and write the SavedModel meanwhile. Neither is
        timed or metered. If saving fails, comparing is cancelled. Also return what ``save`` does.
        """
        failed = threading.Event()

        def cancelled() -> bool:
            return failed.is_set() or self.cancelled()

        with ThreadPoolExecutor(max_workers=1) as pool:
            comparing = pool.submit(self._compared, fitted, found, cancelled)
            try:
                self.report(Progress("export", message="writing the SavedModel"))
                left_out = self.save(fitted, staged / _SAVED_MODEL)
            except BaseException:
                failed.set()
                raise
            return comparing.result(), left_out

    def _reloaded(
        self, fitted: Fitted, found: Measurements, staged: Path, allowed: int, notes: tuple[str, ...]
    ) -> VerificationReport:
        batch = self.folded.traced.loaded.make_batch()
        reloaded = measure_reloaded(
            staged / _SAVED_MODEL,
            batch,
            device=self.request.device,
            report=self.report,
            cancelled=self.cancelled,
        )
        report = self._reported(fitted, replace(found, reloaded=reloaded), allowed, notes)
        if report.gradients["equal"] is False:
            raise VerificationError(
                f"{report.problems[0]}; nothing was written",
                hint="please report the model: this is a fault of checkmate",
            )
        write_example(self.folded, batch, staged)
        write_records(staged, self.graph, fitted.result, report)
        stop_if(self.cancelled)
        return report

    def _reported(
        self, fitted: Fitted, found: Measurements, allowed: int, notes: tuple[str, ...]
    ) -> VerificationReport:
        schedule = fitted.result.require_schedule()
        return verification_report(
            self.request, self.graph, schedule, found, budget_bytes=allowed, notes=(*self.notes, *notes)
        )
