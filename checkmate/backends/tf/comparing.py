"""Compare the scheduled step's gradients with the plain one's, where the plain step fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkmate.backends.tf.emit.other_trace import op_types
from checkmate.backends.tf.measure.fresh_step import compare_fresh
from checkmate.backends.tf.plain import Plain, share_of, smaller_batches
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.tied import XlaEmission
from checkmate.errors import StepTooLargeError, TraceError
from checkmate.ir import Schedule
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest

GRADIENTS, RESULTS = "gradients", "variables and results"


@dataclass(frozen=True)
class Compared:
    """A comparison at ``batch`` on ``device`` (cpu or gpu). ``found``: as returned by
    ``backends.tf.measure.step.compare``; None if the plain step fits nowhere. ``note``: a sentence if batch
    or device are not the step's own. ``what``: what was compared, in words: gradients, or the results of a
    step that is not Keras's own."""

    found: Mapping[str, Any] | None
    batch: int = 0
    device: str = ""
    note: str = ""
    what: str = GRADIENTS


def compare_where_it_fits(
    request: ModelRequest,
    folded: FoldedStep,
    schedule: Schedule,
    plain: Plain,
    *,
    usual: Mapping[str, Any] | None = None,
    xla: XlaEmission | None = None,
    report: Report,
    cancelled: Cancelled,
) -> Compared:
    """Compare the scheduled step where the plain step fits: at its own batch, a smaller one, or on the CPU.
    At another batch the schedule's order is that of the same ops (``backends.tf.emit.other_trace``).
    ``usual``: what was found with default kernels where the step was measured.
    """
    kind = folded.graph.device_kind
    loaded = folded.traced.loaded
    what = GRADIENTS if loaded.own is None else RESULTS
    for on in dict.fromkeys((kind, "cpu")):
        at = request if on == kind else dataclasses.replace(request, device="cpu", kernels=None)
        batch, smaller = plain.batch if on == kind else request.batch_size, None
        while batch:
            whole = batch == request.batch_size and on == kind
            task: dict[str, Any] = {"request": at.at_batch(batch).to_json(), "steps": schedule.steps.tolist()}
            task |= {} if xla is None else {"xla": xla.to_json()}
            if not whole:
                task |= {"nodes": folded.nodes, "op_types": op_types(folded)}
            where = "" if whole else f" at batch {batch}{'' if on == kind else ' on the CPU'}"
            share = 0.5
            try:
                found = compare_fresh(
                    task,
                    what=what,
                    where=where,
                    report=report,
                    cancelled=cancelled,
                    usual=usual if whole else None,
                )
                return Compared(found, batch, on, _note(what, where), what)
            except StepTooLargeError as error:
                share = share_of(error)
            except TraceError:
                if whole:
                    raise
            # The first error tells how much smaller the next batches are.
            smaller = smaller or smaller_batches(batch, share)
            batch = next(smaller, 0) if loaded.any_batch else 0
    return Compared(None, what=what)


def _note(what: str, where: str) -> str:
    if not where:
        return ""
    return (
        f"{what} were compared{where}: the largest batch tried at which the plain step fits beside its "
        "copies; the ops and their order are the same there"
    )
