"""Profile a training step of JAX."""

from __future__ import annotations

import dataclasses
from typing import Any

from checkmate.backends.jax.device import device_here
from checkmate.backends.jax.models.load import LoadedStep, load_step
from checkmate.backends.jax.models.plan_step import graph_of_step
from checkmate.errors import OtherStepError, UsageError
from checkmate.ir.graph import Graph
from checkmate.machine.cost_origin import file_facts
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.request import ModelRequest

_COUNTED = "costs are counted: XLA fuses ops, so none is timed by itself"


def profile(request: ModelRequest, *, refresh: bool, report: Report, cancelled: Cancelled) -> Graph:
    """Return the graph of a JAX step, with counted costs.

    Raises:
        LoadError, TraceError, UsageError: with the reason. CancelledError: the user cancelled.
    """
    refuse_refresh(refresh)
    loaded = loaded_step(request, report, cancelled)
    return described(request, loaded, graph_of_step(loaded, report=report, cancelled=cancelled))


def refuse_refresh(refresh: bool) -> None:
    """Refuse to measure costs again.

    Raises:
        UsageError: it was asked for.
    """
    if refresh:
        raise UsageError(
            "--refresh measures costs again, and the costs of a JAX step are counted",
            hint="leave --refresh out",
        )


def loaded_step(request: ModelRequest, report: Report, cancelled: Cancelled) -> LoadedStep:
    """Load the step that ``request`` names.

    Raises:
        As ``profile``.
    """
    report(Progress("load", message=f"loading {request.shown}"))
    loaded = load_step(request)
    stop_if(cancelled)
    return loaded


def described(request: ModelRequest, loaded: LoadedStep, graph: Graph) -> Graph:
    """Return ``graph`` with what was requested, and with its device."""
    batch = loaded.batch_size
    plain = dataclasses.replace(request, batch_size=batch or request.batch_size, batch_chosen=False)
    metadata: dict[str, Any] = {
        **graph.metadata,
        "request": plain.to_json(),
        "notes": [*loaded.notes, _COUNTED],
    }
    if (facts := file_facts(request.model)) is not None:
        metadata["model_file"] = facts
    return dataclasses.replace(graph, batch_size=batch, device=device_here(), metadata=metadata)


def require_same(traced: Graph, graph: Graph, request: ModelRequest, budget_bytes: int) -> None:
    """Require that a graph of a file is that of the step traced here.

    Raises:
        OtherStepError: it is of another step.
    """
    if traced.fingerprint != graph.fingerprint:
        raise OtherStepError(
            found=graph.fingerprint,
            expected=traced.fingerprint,
            graph_name=graph.name,
            model=request.model,
            batch_size=graph.batch_size,
            budget_bytes=budget_bytes,
        )
