"""Trace a model's step, measure its costs and run it plainly."""

from __future__ import annotations

from checkmate.backends.tf.costs import session
from checkmate.backends.tf.costs.fresh import with_costs_in_child
from checkmate.backends.tf.costs.options import CostOptions
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement, measure_fresh
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest


def measured_plainly(
    request: ModelRequest, *, report: Report, cancelled: Cancelled
) -> tuple[ModelRequest, FoldedStep, FreshMeasurement]:
    """Return the request, the step with measured costs, and its plain run.

    The request that is returned names the kernels. Nothing is taken from costs measured before.

    Raises:
        CancelledError: the user cancelled. CheckmateError: the model cannot be loaded, traced or measured.
    """
    folded = session.prepare(request, report=report, cancelled=cancelled)
    request = session.with_kernels_of(request, folded.graph)
    folded = with_costs_in_child(request, folded, CostOptions("measured"), report=report, cancelled=cancelled)
    plain = measure_fresh(
        request, None, message="measuring the plain step", report=report, cancelled=cancelled, history=True
    )
    return request, folded, plain
