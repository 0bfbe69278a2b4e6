"""The stages that run TensorFlow.

Names are checked before TensorFlow is imported, since the import takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from checkmate.arguments import BudgetLike, step_budget_of
from checkmate.catalog.model_names import require_named
from checkmate.errors import UsageError
from checkmate.formats.files import require_output_folder
from checkmate.ir.graph import Graph
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult
from checkmate.machine.keras_backend import JAX, is_of_jax, require_backend
from checkmate.machine.stores.cost_store import CostStore, default_path
from checkmate.pipeline.report.records import RunOutcome
from checkmate.pipeline.solving import StepSolver
from checkmate.progress import Cancelled, Report, never, silent
from checkmate.request import ModelRequest, Target
from checkmate.solvers.constraints import Constraints
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget

_ATTEMPT_S = 20.0  # of each solve on the way to a measured peak
_BENCH_ATTEMPT_S = 10.0  # the same where many schedules are compared

Row = dict[str, Any]


def _given(budget: BudgetLike | None) -> int | Budget | None:
    return budget if budget is None or isinstance(budget, int) else step_budget_of(budget)


def _on_jax(graph: Graph) -> bool:
    """Return whether a graph's step is to be run by JAX.

    Raises:
        UsageError: it is of a JAX step, and Keras is set up for another backend; or as ``require_backend``.
    """
    backend = require_backend()
    if backend != JAX and is_of_jax(graph):
        raise UsageError(
            f"the graph {graph.name!r} is of a JAX step, and Keras is set up for {backend!r} here",
            hint="set KERAS_BACKEND=jax",
        )
    return backend == JAX


def profile(
    request: ModelRequest,
    *,
    costs: str = "measured",
    refresh: bool = False,
    estimated: Callable[[Graph], object] | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> Graph:
    """Load the model, trace its training step and cost every op.

    ``costs`` is ``measured`` or ``analytic``. Costs that were measured on this machine before are taken from
    the user's cache folder, unless ``refresh``; ``metadata["profile"]["cache"]`` says how many, and when they
    were measured. ``estimated`` is called with the graph at estimated costs (operation counts) before
    measuring begins. With Keras on JAX the step is JAX's, and costs are counted.

    Raises:
        LoadError, TraceError, ProfileError: with the reason. CancelledError: the user cancelled.
    """
    require_named(request)
    if require_backend() == JAX:
        from checkmate.pipeline.on_jax import profile as on_jax

        return on_jax.profile(request, refresh=refresh, report=report, cancelled=cancelled)
    from checkmate.pipeline import measured
    from checkmate.tf.costs.options import CostOptions

    found_by = CostOptions(costs, CostStore(default_path()), refresh=refresh, estimated=estimated)
    return measured.profile(request, costs=found_by, report=report, cancelled=cancelled)


def verify(
    request: ModelRequest,
    graph: Graph,
    result: SolveResult,
    *,
    budget_bytes: BudgetLike | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> VerificationReport:
    """Measure the scheduled step beside the plain one.

    Loss, gradients, peak and time are compared. ``budget_bytes`` is what the device's allocator may show;
    a share is of the plain step's peak. None means the equivalent of the schedule's own budget.

    Raises:
        OtherStepError: ``graph`` is not this model's. StepTooLargeError: the scheduled step does not fit.
    """
    require_named(request)
    budget = _given(budget_bytes)
    if _on_jax(graph):
        from checkmate.pipeline.on_jax import run as on_jax

        given = on_jax.Given(graph, result, as_given=True)
        return on_jax.verified(request, budget, given, None, report, cancelled)
    from checkmate.pipeline import measured

    return measured.verify(request, graph, result, budget_bytes=budget, report=report, cancelled=cancelled)


def export(
    request: ModelRequest,
    graph: Graph,
    result: SolveResult,
    directory: Path,
    *,
    budget_bytes: BudgetLike | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> VerificationReport:
    """Write the export folder, verified and measured after reloading.

    The folder appears whole or not at all. ``budget_bytes`` is as for ``verify``.

    Raises:
        VerificationError: the gradients are not the plain step's. ExportError: the folder cannot be written.
        OtherStepError, StepTooLargeError: as ``verify``.
    """
    require_named(request)
    require_output_folder(directory)
    budget = _given(budget_bytes)
    if _on_jax(graph):
        from checkmate.pipeline.on_jax import run as on_jax

        given = on_jax.Given(graph, result, as_given=True)
        return on_jax.verified(request, budget, given, directory, report, cancelled)
    from checkmate.pipeline import measured

    return measured.export(
        request,
        graph,
        result,
        directory,
        budget_bytes=budget,
        report=report,
        cancelled=cancelled,
    )


def export_within(
    request: ModelRequest,
    graph: Graph,
    first: SolveResult,
    budget: BudgetLike,
    directory: Path,
    *,
    constraints: Constraints | None = None,
    options: SolveOptions | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> RunOutcome:
    """Export ``first`` if its measured peak is within ``budget``.

    Otherwise solve for less. It then goes on as ``run`` does, until a measured peak fits. ``budget`` is what
    the device's allocator may show; a share is of the plain step's peak. Constraints bind what is solved
    here.

    Raises:
        OtherStepError: ``graph`` is not this model's. Others as ``run``.
    """
    budget = step_budget_of(budget)
    require_output_folder(directory)
    if _on_jax(graph):
        from checkmate.pipeline.on_jax import run as on_jax

        bound = constraints is not None and not constraints.is_empty
        return on_jax.run(
            request,
            budget,
            directory,
            given=on_jax.Given(graph, first, as_given=bound),
            options=options,
            report=report,
            cancelled=cancelled,
        )
    from checkmate.pipeline import measured

    chosen = options or SolveOptions(time_limit_s=_ATTEMPT_S)
    solver = StepSolver("auto", chosen, report, cancelled, constraints)
    return measured.export_within(
        request,
        graph,
        first,
        budget,
        directory,
        solver=solver,
        report=report,
        cancelled=cancelled,
    )


def run(
    request: ModelRequest,
    budget: BudgetLike,
    directory: Path,
    *,
    costs: str = "measured",
    refresh: bool = False,
    solver: str = "auto",
    options: SolveOptions | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> RunOutcome:
    """Profile and solve until the peak fits; then verify and export.

    The step is measured, and the budget to solve for is corrected, until the peak fits. A share is of the
    plain step's *measured* peak. Op costs that were measured on this machine before are taken from the user's
    cache folder, unless ``refresh``; peaks, seconds and gradients in the report are always measured now.

    Raises:
        NoScheduleError: none fits (exit code 3 if that is proved, 4 if a limit was reached).
        VerificationError and those of ``profile`` and ``export``.
    """
    require_named(request)
    budget = step_budget_of(budget)
    require_output_folder(directory)
    if require_backend() == JAX:
        from checkmate.pipeline.on_jax import run as on_jax

        return on_jax.run(
            request,
            budget,
            directory,
            refresh=refresh,
            solver=solver,
            options=options,
            report=report,
            cancelled=cancelled,
        )
    from checkmate.pipeline import measured
    from checkmate.tf.costs.options import CostOptions

    chosen = options or SolveOptions(time_limit_s=_ATTEMPT_S)
    return measured.run(
        request,
        budget,
        directory,
        costs=CostOptions(costs, CostStore(default_path()), refresh=refresh),
        solver=StepSolver(solver, chosen, report, cancelled),
        report=report,
        cancelled=cancelled,
    )


def fidelity(
    request: ModelRequest,
    shares: Sequence[float],
    *,
    solver: str = "auto",
    options: SolveOptions | None = None,
    keep: Callable[[Row], None] = lambda row: None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[Row]:
    """Return predictions beside measurements for each budget.

    The budgets are shares of the plain step's peak. ``keep`` is called with each row as soon as its memory is
    known; the rows returned have times and gradients too. See ``checkmate.pipeline.report.fidelity_rows``.
    """
    from checkmate.pipeline.report.fidelity_rows import measure_model

    chosen = options or SolveOptions(time_limit_s=_BENCH_ATTEMPT_S)
    step_solver = StepSolver(solver, chosen, report, cancelled)
    return measure_model(request, shares, solver=step_solver, keep=keep, report=report, cancelled=cancelled)


def peers(
    request: ModelRequest,
    *,
    ours: bool = True,
    options: SolveOptions | None = None,
    keep: Callable[[Row], None] = lambda row: None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[Row]:
    """Return what Keras and TensorFlow offer for less memory.

    It stands beside our schedules. ``keep`` is called with each row as soon as its memory is known; the rows
    returned have times and gradients too. All run on TensorFlow's executor, unless the target of ``request``
    is XLA. See ``checkmate.pipeline.report.peer_rows`` and, for XLA, ``compiled_peer_rows`` beside it.
    """
    from checkmate.pipeline.report.compiled_peer_rows import measure_compiled_model
    from checkmate.pipeline.report.peer_rows import measure_model

    chosen = options or SolveOptions(time_limit_s=_BENCH_ATTEMPT_S)
    solver = StepSolver("auto", chosen, report, cancelled)
    measure = measure_compiled_model if request.target == Target.XLA else measure_model
    return measure(request, ours=ours, solver=solver, keep=keep, report=report, cancelled=cancelled)
