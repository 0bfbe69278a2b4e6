"""Plans of a step that was loaded, as files can hold them."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from checkmate.jax.models.compare import Compared, compare
from checkmate.jax.models.load import LoadedStep
from checkmate.jax.plan import JaxPlan, JaxPlanner, StepRequest


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
