"""The largest batch of a graph or a model: how its step scales, the search, and the measurement."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checkmate import planning
from checkmate.errors import UsageError
from checkmate.formats import read_any_graph
from checkmate.graphs.by_name import build_paper_graph, graph_path, is_graph_file, names_graph
from checkmate.ir import Graph, SolveResult
from checkmate.ir.shown import Shown
from checkmate.largest.batch import MaxBatch, max_batch
from checkmate.largest.measured import MeasuredSize, SizeSteps, measure_largest
from checkmate.largest.scaling import BatchScaling, traced_at_two, with_fixed_bytes
from checkmate.progress import Cancelled, Report, never, silent
from checkmate.request import ModelRequest
from checkmate.runner import TORCH
from checkmate.solvers.problem import SolveOptions

MEASURE_LIMIT_S = 120.0


@dataclass(frozen=True, eq=False, repr=False)
class LargestBatch(Shown):
    """The largest batch found by extrapolation, and what measuring it showed.

    ``measured.fitting`` is the largest batch that was run within the budget, or None.
    """

    found: MaxBatch
    measured: MeasuredSize

    def __repr__(self) -> str:
        how = "extrapolated" if self.measured.fitting is None else "measured"
        return f"LargestBatch({self.batch}, {how}; none above {self.found.upper_batch} fits, {self.result!r})"

    @property
    def batch(self) -> int:
        """Return the measured batch, else the extrapolated one, in examples."""
        best = self.measured.fitting
        return self.found.batch if best is None else best.size

    @property
    def graph(self) -> Graph:
        """Return the graph at ``batch``: traced if that batch was measured, else extrapolated."""
        best = self.measured.fitting
        return self.found.graph if best is None or best.graph is None else best.graph

    @property
    def result(self) -> SolveResult:
        best = self.measured.fitting
        return self.found.result if best is None or best.result is None else best.result


def graph_or_request(model: str | Path, batch_size: int | None = None) -> Graph | ModelRequest:
    """Return the graph that ``model`` names, or the request for a Keras model.

    ``batch_size`` is that of a network of the paper (``paper.unet``).

    Raises:
        FormatError: the file is missing or broken. UsageError: there is no such network.
    """
    name = str(model)
    if not names_graph(name):
        return ModelRequest(name)
    return read_any_graph(graph_path(name)) if is_graph_file(name) else build_paper_graph(name, batch_size)


def scaling_of(
    model: Graph | ModelRequest,
    *,
    batch_size: int | None = None,
    fixed_bytes: int | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> BatchScaling:
    """Return how the step scales: of a graph by extrapolation, of a model by tracing it at two batches.

    ``batch_size`` is what a graph's sizes are for, where it does not say; for a model it is the first of the
    two to trace. ``fixed_bytes`` take the place of the graph's own.

    Raises:
        UsageError: no batch size is known, or nothing grows with it. LoadError, TraceError: from tracing a
        model.
    """
    if isinstance(model, Graph):
        return BatchScaling(with_fixed_bytes(model, fixed_bytes), batch_size or 0)

    def trace(batch: int) -> Graph:
        request = model.at_batch(batch)
        graph = planning.profile(request, costs="analytic", report=report, cancelled=cancelled)
        return with_fixed_bytes(graph, fixed_bytes)

    return traced_at_two(trace, batch_size)


def why_not_measured(name: str, *, a_model: bool, measure: str, fixed_bytes: int | None) -> str:
    """Return why nothing is to be measured, or an empty string.

    Raises:
        UsageError: ``measure`` is ``always`` and there is nothing to run.
    """
    if measure == "never":
        return "turned off"
    why = "" if fixed_bytes is None else "its fixed bytes are not its own, but given"
    if not a_model:
        why = "a graph has no step to run; give the model itself"
    if measure == "always" and why:
        raise UsageError(f"{name} cannot be measured: {why}", hint="leave measure= out")
    return why


def largest_batch(
    model: Graph | ModelRequest,
    budget_bytes: int,
    *,
    max_overhead: float | None = None,
    batch_size: int | None = None,
    fixed_bytes: int | None = None,
    options: SolveOptions | None = None,
    measure: str = "auto",
    measure_limit_s: float = MEASURE_LIMIT_S,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> LargestBatch:
    """Search for the largest batch within ``budget_bytes``; measure it where ``model`` is a Keras model.

    ``max_overhead`` and ``options`` are as for ``checkmate.largest.batch.max_batch``, ``batch_size`` and
    ``fixed_bytes`` as for ``scaling_of``. ``measure`` is ``auto`` (where the device has the memory free and
    it should not take longer than ``measure_limit_s``), ``always`` or ``never``.

    Raises:
        UsageError: ``measure`` is ``always`` and there is nothing to run. Others as ``scaling_of`` and
        ``max_batch``.
    """
    name = model.name if isinstance(model, Graph) else model.shown
    a_model = isinstance(model, ModelRequest)
    why = why_not_measured(name, a_model=a_model, measure=measure, fixed_bytes=fixed_bytes)
    scaling = scaling_of(
        model, batch_size=batch_size, fixed_bytes=fixed_bytes, report=report, cancelled=cancelled
    )
    if scaling.graph.runner.backend == TORCH:
        why = why or "a PyTorch step is measured by checkmate run, with this batch"
    asked = options or SolveOptions()
    found = max_batch(
        scaling, budget_bytes, max_overhead=max_overhead, options=asked, report=report, cancelled=cancelled
    )
    if isinstance(model, Graph) or why or found.cancelled:
        return LargestBatch(found, MeasuredSize(note=why or "interrupted"))
    measured = measure_largest(
        SizeSteps.below(found.batch, model.at_batch(scaling.batch), scaling.graph, found.result),
        budget_bytes,
        found.result.require_schedule().steps.tolist(),
        max_overhead=max_overhead,
        always=measure == "always",
        limit_s=measure_limit_s,
        options=asked,
        report=report,
        cancelled=cancelled,
    )
    return LargestBatch(found, measured)
