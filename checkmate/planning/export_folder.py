"""Write the export folder, verified after reloading.

It holds the SavedModel, an example, the graph, the schedule and the report.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from checkmate.backends.tf.costs import session
from checkmate.backends.tf.emit.saved_model import example_script, measure_reloaded, save_step
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.errors import VerificationError
from checkmate.formats.folder import put_in_place, staging
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.planning.measured_step import MeasuredStep
from checkmate.planning.report.records import write_records
from checkmate.planning.verification.comparing import Compared, compare_where_it_fits
from checkmate.planning.verification.report import Measurements, verification_report
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.request import ModelRequest

_SAVED_MODEL = "saved_model"


def write_folder(
    step: MeasuredStep,
    result: SolveResult,
    measured: FreshMeasurement,
    directory: Path,
    budget_bytes: int,
    notes: tuple[str, ...],
) -> VerificationReport:
    """Write the folder whole or not at all, and return its report.

    ``budget_bytes`` is what the allocator may show.

    Raises:
        VerificationError: the gradients are not the plain step's. ExportError: the folder cannot be written.
        StepTooLargeError: the reloaded step does not fit. CancelledError: the user cancelled.
    """
    schedule = result.require_schedule()
    predicted = step.predicted_peak(result)
    save = partial(save_step, step.folded, schedule)
    written = StepToWrite(step.request, step.folded, result, save, step.report, step.cancelled)
    with staging(directory) as staged:
        compared = _compared_while_saving(step, schedule, measured, partial(written.save_into, staged))
        found = Measurements(step.plain, measured, compared, predicted_bytes=predicted)
        report = _verified(written, found, staged, budget_bytes, notes)
        put_in_place(staged, directory)
    return report


def _compared_while_saving(
    step: MeasuredStep, schedule: Schedule, measured: FreshMeasurement, save: Callable[[], None]
) -> Compared:
    """Compare the gradients and call ``save`` meanwhile.

    Comparing runs in processes of its own. Neither is timed or metered; if
    saving fails, comparing is cancelled.
    """
    failed = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        comparing = pool.submit(
            compare_where_it_fits,
            step.request,
            step.folded,
            schedule,
            step.plain,
            usual=measured.compared,
            report=step.report,
            cancelled=lambda: failed.is_set() or step.cancelled(),
        )
        try:
            save()
        except BaseException:
            failed.set()
            raise
        return comparing.result()


@dataclass(frozen=True, eq=False)
class StepToWrite:
    """A scheduled step, and what writes it.

    ``save``: writes its SavedModel into a folder. The schedule is that of ``result``.
    """

    request: ModelRequest
    folded: FoldedStep
    result: SolveResult
    save: Callable[[Path], None]
    report: Report
    cancelled: Cancelled

    def save_into(self, staged: Path) -> None:
        """Write the SavedModel where ``_verified`` looks for it."""
        self.report(Progress("export", message="writing the SavedModel"))
        self.save(staged / _SAVED_MODEL)


def write_verified(
    step: StepToWrite,
    found_before: Measurements,
    directory: Path,
    budget_bytes: int,
    notes: tuple[str, ...],
) -> VerificationReport:
    """Write the folder of a step that was measured, and measure it again.

    ``found_before``: what is known before it is written. It is reloaded in a process with TensorFlow alone.

    Raises:
        As ``write_folder``.
    """
    with staging(directory) as staged:
        step.save_into(staged)
        report = _verified(step, found_before, staged, budget_bytes, notes)
        put_in_place(staged, directory)
    return report


def _verified(
    step: StepToWrite, found_before: Measurements, staged: Path, budget_bytes: int, notes: tuple[str, ...]
) -> VerificationReport:
    """Reload the saved step, and write what stands beside it."""
    graph, result = step.folded.graph, step.result
    batch = session.flat_batch(step.folded.traced.loaded)
    reloaded = measure_reloaded(
        staged / _SAVED_MODEL, batch, device=step.request.device, report=step.report, cancelled=step.cancelled
    )
    found = verification_report(
        step.request,
        graph,
        result.require_schedule(),
        replace(found_before, reloaded=reloaded),
        budget_bytes=budget_bytes,
        notes=notes,
    )
    if found.gradients["equal"] is False:
        raise VerificationError(
            f"{found.problems[0]}; nothing was written",
            hint="please report the model: this is a fault of checkmate",
        )
    (staged / "train_example.py").write_text(example_script(step.folded, batch), encoding="utf-8")
    write_records(staged, graph, result, found)
    stop_if(step.cancelled)
    return found
