"""Plans of a step that was loaded, as files can hold them."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from checkmate.backends.jax.models.compare import Compared, compare
from checkmate.backends.jax.models.load import LoadedStep
from checkmate.backends.jax.plan import JaxPlan, JaxPlanner, StepRequest
from checkmate.backends.jax.transform import request_of
from checkmate.ir.graph import Graph
from checkmate.progress import Cancelled, Report


def graph_of_step(loaded: LoadedStep, *, report: Report, cancelled: Cancelled) -> Graph:
    """Return the graph of a step; costs are counted.

    Raises:
        TraceError: the step cannot be traced. NotCompiledError: XLA cannot compile it. CancelledError: the
        user cancelled.
    """
    request = request_of("100%", donate_argnums=loaded.donated, report=report, cancelled=cancelled)
    with redirect_stdout(sys.stderr):  # what the user's code prints while it is traced
        return JaxPlanner(loaded.step, request).graph(loaded.shapes)


def plan_of_step(loaded: LoadedStep, request: StepRequest) -> JaxPlan:
    """Return the plan for a step's own arguments, without XLA's options.

    Raises:
        TraceError: the step cannot be traced. NotCompiledError: XLA cannot compile it. NoScheduleError,
        CancelledError: as ``rematerialize``.
    """
    with redirect_stdout(sys.stderr):  # what the user's code prints while it is traced
        return JaxPlanner(loaded.step, request).plan(loaded.shapes, part=True)


def compare_with_plain(loaded: LoadedStep, plan: JaxPlan, request: StepRequest) -> Compared:
    """Run the plain step and a plan's from the same state.

    Raises:
        CancelledError: the user cancelled.
    """
    with redirect_stdout(sys.stderr):
        traced, plain = JaxPlanner(loaded.step, request).plain(loaded.shapes)
        return compare(
            plan,
            plain,
            traced.jaxpr,
            loaded.arguments,
            report=request.report,
            cancelled=request.cancelled,
        )
