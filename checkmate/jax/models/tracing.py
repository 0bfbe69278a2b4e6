"""The graph of a step that was loaded."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from checkmate.errors import CheckmateError, TraceError
from checkmate.ir.graph import Graph
from checkmate.jax.models.load import LoadedStep
from checkmate.jax.plan import JaxPlanner
from checkmate.jax.transform import request_of
from checkmate.models.error_text import first_line
from checkmate.progress import Cancelled, Report


def graph_of_step(loaded: LoadedStep, *, report: Report, cancelled: Cancelled) -> Graph:
    """Return the graph of a step; costs are counted.

    Raises:
        TraceError: the step cannot be traced. CancelledError: the user cancelled.
    """
    request = request_of("100%", donate_argnums=loaded.donated, report=report, cancelled=cancelled)
    try:
        with redirect_stdout(sys.stderr):  # what the user's code prints while it is traced
            return JaxPlanner(loaded.step, request).graph(loaded.shapes)
    except CheckmateError:
        raise
    except Exception as error:  # the step is the user's code, which may raise what it likes
        raise untraceable(loaded, error) from error


def untraceable(loaded: LoadedStep, error: Exception) -> TraceError:
    """Return the error for a step whose own code failed."""
    return TraceError(
        f"the training step of {loaded.name!r} could not be traced: {first_line(error)}",
        hint="run one step without checkmate first",
    )
