"""The graph of a step that was loaded."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from checkmate.ir.graph import Graph
from checkmate.jax.models.load import LoadedStep
from checkmate.jax.plan import JaxPlanner
from checkmate.jax.transform import request_of
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
