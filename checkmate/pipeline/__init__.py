"""Composes the stages: what the command line, the window's workers and the public API call.

``profile`` → graph with costs; ``solve`` → schedule, checked; ``verify``, ``export``, ``run`` → measured reports. TensorFlow and
solver libraries are imported only by the stage that needs them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkmate.errors import SolverCrashedError
from checkmate.formats import write_graph, write_report, write_schedule
from checkmate.formats.files import require_output_folder
from checkmate.ir.graph import Graph
from checkmate.ir.report import CheckReport, VerificationReport
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Progress, Report, never, silent
from checkmate.request import ModelRequest
from checkmate.solvers.bounds import WorkingSet, below_minimum, working_set_bound
from checkmate.solvers.constraints import (
    ConstrainedListener,
    ConstrainedMemoryListener,
    Constraints,
    constrained,
    result_for_original,
    start_for_constrained,
)
from checkmate.solvers.listeners import SilentListener, SilentMemoryListener
from checkmate.solvers.once_bound import explain_below_bound, run_once_bound
from checkmate.solvers.portfolio.least_memory import LeastMemory, require_overhead
from checkmate.solvers.portfolio.least_memory import least_memory as find_least_memory
from checkmate.solvers.problem import Listener, MemoryListener, Problem, SolveOptions
from checkmate.solvers.registry import find_solver
from checkmate.units import Budget, format_bytes, format_overhead

_ATTEMPT_S = 20.0  # of each solve on the way to a measured peak
_MINIMUM_PRECISION = 0.002  # of the span between the working-set bound and keep-everything


@dataclass(frozen=True)
class Minimum:
    """The least peak known to be reachable, in bytes; ``proved`` where no schedule of any order can be below it."""

    bytes: int
    bound: WorkingSet

    @property
    def proved(self) -> bool:
        """The reachable peak equals the bound."""
        return self.bytes <= self.bound.bytes


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

    Costs that were measured on this machine before are taken from the user's cache folder, unless ``refresh``;
    ``metadata["profile"]["cache"]`` says how many, and when they were measured. ``estimated``: told the graph with estimated
    costs (operation counts) as soon as there is one, where measuring comes next.

    Raises:
        LoadError, TraceError, ProfileError: with the reason. CancelledError: the user cancelled.
    """
    from checkmate.catalog.model_names import require_named
    from checkmate.machine.cost_store import CostStore, default_path

    require_named(request)  # before TensorFlow is imported, which takes seconds
    from checkmate.pipeline import measured

    store = CostStore(default_path())
    return measured.profile(
        request,
        costs=costs,
        store=store,
        refresh=refresh,
        estimated=estimated,
        report=report,
        cancelled=cancelled,
    )


def keep_everything_peak(graph: Graph) -> int:
    """Peak bytes of the plain step, everything computed once in the given order."""
    return simulate(graph, Schedule.plain(graph)).peak_bytes


def solve(
    graph: Graph,
    budget_bytes: int,
    *,
    solver: str = "auto",
    options: SolveOptions | None = None,
    listener: Listener | None = None,
    constraints: Constraints | None = None,
) -> SolveResult:
    """The best schedule that ``solver`` finds with a peak of at most ``budget_bytes``, and that keeps the constraints.

    A budget below some op's own need is INFEASIBLE at once, with that op and its values named. Every schedule has passed
    the independent check. What is proved under constraints is so said: they are in the result's assumptions.

    Raises:
        SolverUnavailableError: the solver is unknown or not installed. SolverCrashedError: its schedule is wrong.
        UnknownNameError: a constraint names what the graph does not have.
    """
    entry = find_solver(solver)
    started = time.perf_counter()
    asked, heard = options or SolveOptions(), listener or SilentListener()
    limits = _all_constraints(constraints, asked)
    limited = constrained(graph, limits)
    own = working_set_bound(graph)
    if budget_bytes < own.bytes:
        return _infeasible(graph, budget_bytes, solver, own, str(below_minimum(graph, budget_bytes)), started)
    held = run_once_bound(limited)
    if budget_bytes < held.bytes:
        sentence = explain_below_bound(limited, budget_bytes, held)
        result = _infeasible(graph, budget_bytes, solver, held, sentence, started)
        return result_for_original(graph, limited, limits, result)
    if not limits.is_empty:
        asked = replace(asked, start=start_for_constrained(graph, limited, asked.start))
        heard = ConstrainedListener(heard, limits)
    result = entry.load().solve(Problem(limited, budget_bytes), asked, heard)
    result = result_for_original(graph, limited, limits, result)
    _require_true(graph, result)
    return result


def _all_constraints(constraints: Constraints | None, options: SolveOptions) -> Constraints:
    """The constraints, and what the options say of gradients."""
    given = constraints or Constraints()
    return replace(given, recompute_gradients=given.recompute_gradients and options.recompute_gradients)


def least_memory(
    graph: Graph,
    *,
    max_overhead: float | None = None,
    options: SolveOptions | None = None,
    listener: MemoryListener | None = None,
    constraints: Constraints | None = None,
) -> LeastMemory:
    """The least memory in which ``graph`` runs at a cost of at most ``1 + max_overhead`` times computing everything once.

    ``max_overhead``: a fraction (0.05 is 5 %); None: any cost. Both the schedule and the proof improve until the options' time limit, or
    until they meet; ``gap`` is that of the memory. Constraints as for ``solve``.

    Raises:
        UsageError: ``max_overhead`` is below 0, so no schedule could cost as little. UnknownNameError: as for ``solve``.
    """
    asked, heard = options or SolveOptions(), listener or SilentMemoryListener()
    require_overhead(max_overhead)
    if max_overhead is not None and math.isinf(max_overhead):
        max_overhead = None
    limits = _all_constraints(constraints, asked)
    limited = constrained(graph, limits)
    if not limits.is_empty:
        asked = replace(asked, start=start_for_constrained(graph, limited, asked.start))
        heard = ConstrainedMemoryListener(heard, limits)
    found = find_least_memory(limited, max_overhead, asked, heard)
    result = result_for_original(graph, limited, limits, found.result)
    _require_true(graph, result)
    return replace(found, result=result)


def _infeasible(
    graph: Graph, budget_bytes: int, solver: str, need: WorkingSet, message: str, started: float
) -> SolveResult:
    return SolveResult(
        status=SolveStatus.INFEASIBLE,
        solver=solver,
        budget_bytes=budget_bytes,
        base_cost=graph.base_cost,
        solve_seconds=time.perf_counter() - started,
        message=message,
        statistics={"needed_bytes": need.bytes, "op": need.op, "values": list(need.values)},
    )


def _require_true(graph: Graph, result: SolveResult) -> None:
    """Raise unless the result's schedule, peak and cost are what the independent replay finds."""
    if result.schedule is None:
        return
    found = check(graph, result.schedule.steps.tolist(), budget_bytes=result.budget_bytes)
    cost_differs = abs(found.cost - (result.cost or 0.0)) > 1e-6 * max(1.0, abs(found.cost))
    if not found.ok or cost_differs or found.peak_bytes != result.peak_bytes:
        what = (
            found.violations[0].message if found.violations else f"peak {found.peak_bytes}, cost {found.cost}"
        )
        raise SolverCrashedError(
            f"solver {result.solver!r} returned a schedule that the independent check rejects: {what}",
            hint="choose another solver, and please report the graph",
        )


def resolve_budget(graph: Graph, budget: Budget, *, constraints: Constraints | None = None) -> int:
    """``budget`` in bytes for ``graph``: a share of the keep-everything peak, the known minimum, or as given."""
    if budget.bytes_ is not None:
        return budget.bytes_
    if budget.share is not None:
        return budget.resolve(keep_everything_peak=keep_everything_peak(graph), minimum=0)
    return known_minimum(graph, constraints=constraints).bytes


def known_minimum(
    graph: Graph,
    *,
    constraints: Constraints | None = None,
    options: SolveOptions | None = None,
    listener: Listener | None = None,
) -> Minimum:
    """The least peak that the fast heuristic reaches, by bisection between the lower bound and keep-everything.

    It is an upper estimate of the true minimum unless it equals the bound; ``least_memory`` takes longer and knows more.
    ``options`` and ``listener`` are those of each of about ten solves.
    """
    graph = constrained(graph, constraints or Constraints())
    bound = run_once_bound(graph)
    reachable = keep_everything_peak(graph)
    low = bound.bytes
    step = max(1, int((reachable - low) * _MINIMUM_PRECISION))
    first = solve(graph, low, solver="greedy", options=options, listener=listener)
    if first.peak_bytes is not None:
        return Minimum(first.peak_bytes, bound)
    while reachable - low > step:
        middle = (reachable + low) // 2
        found = solve(graph, middle, solver="greedy", options=options, listener=listener)
        if found.peak_bytes is not None:
            reachable = found.peak_bytes
        else:
            low = middle
    return Minimum(reachable, bound)


def check_schedule(graph: Graph, steps: Sequence[int], *, budget_bytes: int | None = None) -> CheckReport:
    """Independent replay of ``steps``."""
    return check(graph, steps, budget_bytes=budget_bytes)


def verify(
    request: ModelRequest,
    graph: Graph,
    result: SolveResult,
    *,
    budget_bytes: int | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> VerificationReport:
    """Loss, gradients, measured peak and time of the scheduled step beside the plain one.

    ``budget_bytes``: what the device's allocator may show; None: the equivalent of the schedule's own budget.
    """
    from checkmate.catalog.model_names import require_named

    require_named(request)
    from checkmate.pipeline import measured

    return measured.verify(
        request, graph, result, budget_bytes=budget_bytes, report=report, cancelled=cancelled
    )


def export(
    request: ModelRequest,
    graph: Graph,
    result: SolveResult,
    directory: Path,
    *,
    budget_bytes: int | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> VerificationReport:
    """Write the export folder, verified and measured after reloading; whole or not at all."""
    from checkmate.catalog.model_names import require_named

    require_named(request)
    require_output_folder(directory)
    from checkmate.pipeline import measured

    return measured.export(
        request,
        graph,
        result,
        directory,
        budget_bytes=budget_bytes,
        write=_write_records,
        report=report,
        cancelled=cancelled,
    )


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """What ``run`` found: the measured report, the schedule, the graph."""

    report: VerificationReport
    result: SolveResult
    graph: Graph


def export_within(
    request: ModelRequest,
    graph: Graph,
    first: SolveResult,
    budget: Budget,
    directory: Path,
    *,
    constraints: Constraints | None = None,
    options: SolveOptions | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> RunOutcome:
    """Export ``first`` where its measured peak is within ``budget``; else, as ``run`` does, what is solved for less until one is.

    ``budget``: what the device's allocator may show; a share is of the plain step's peak. Constraints bind what is solved here.

    Raises:
        As ``run``. FingerprintMismatchError: ``graph`` is not this model's.
    """
    from checkmate.pipeline import measured

    require_output_folder(directory)
    outcome = measured.export_within(
        request,
        graph,
        first,
        budget,
        directory,
        solve=_solving("auto", options, report, cancelled, constraints),
        minimum=lambda graph: known_minimum(graph, constraints=constraints).bytes,
        write=_write_records,
        report=report,
        cancelled=cancelled,
    )
    return RunOutcome(outcome.report, outcome.result, outcome.graph)


def _solving(
    solver: str,
    options: SolveOptions | None,
    report: Report,
    cancelled: Cancelled,
    constraints: Constraints | None = None,
) -> Callable[[Graph, int], SolveResult]:
    """Solves for a budget in requested bytes; raises where one op needs more."""
    chosen = options or SolveOptions(time_limit_s=_ATTEMPT_S)

    def solve_here(graph: Graph, budget_bytes: int) -> SolveResult:
        error = below_minimum(graph, budget_bytes)
        if error is not None:
            raise error
        listener = Following(graph, report, cancelled)
        return solve(
            graph, budget_bytes, solver=solver, options=chosen, listener=listener, constraints=constraints
        )

    return solve_here


def run(
    request: ModelRequest,
    budget: Budget,
    directory: Path,
    *,
    costs: str = "measured",
    refresh: bool = False,
    solver: str = "auto",
    options: SolveOptions | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> RunOutcome:
    """All of it: profile, solve, measure, correct until the measured peak is within the budget, verify, export.

    A share is of the plain step's *measured* peak. Op costs that were measured on this machine before are taken from the
    user's cache folder, unless ``refresh``; peaks, seconds and gradients in the report are always measured now.

    Raises:
        NoScheduleError: none fits (exit code 3 if that is proved, 4 if a limit was reached). VerificationError and those
        of ``profile`` and ``export``.
    """
    from checkmate.catalog.model_names import require_named
    from checkmate.machine.cost_store import CostStore, default_path

    require_named(request)
    require_output_folder(directory)
    from checkmate.pipeline import measured

    outcome = measured.run(
        request,
        budget,
        directory,
        costs=costs,
        solve=_solving(solver, options, report, cancelled),
        minimum=lambda graph: known_minimum(graph).bytes,
        write=_write_records,
        store=CostStore(default_path()),
        refresh=refresh,
        report=report,
        cancelled=cancelled,
    )
    return RunOutcome(outcome.report, outcome.result, outcome.graph)


def fidelity(
    request: ModelRequest,
    shares: Sequence[float],
    *,
    solver: str = "auto",
    options: SolveOptions | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda row: None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[dict[str, Any]]:
    """Predictions beside measurements for each share of the plain step's measured peak; see ``checkmate.pipeline.fidelity``.

    ``keep`` is called with each row as soon as its memory is known; the rows returned have times and gradients too.
    """
    from checkmate.pipeline.fidelity import measure_model

    chosen = options or SolveOptions(time_limit_s=10.0)

    def solve_here(graph: Graph, budget_bytes: int) -> SolveResult:
        return solve(
            graph, budget_bytes, solver=solver, options=chosen, listener=Following(graph, report, cancelled)
        )

    return measure_model(request, shares, solve=solve_here, keep=keep, report=report, cancelled=cancelled)


def peers(
    request: ModelRequest,
    *,
    ours: bool = True,
    options: SolveOptions | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda row: None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[dict[str, Any]]:
    """What Keras and TensorFlow offer for training in less memory, measured beside our schedules; see ``checkmate.pipeline.peers``.

    ``keep`` is called with each row as soon as its memory is known; the rows returned have times and gradients too.
    """
    from checkmate.pipeline.peers import measure_model

    chosen = options or SolveOptions(time_limit_s=10.0)

    def solve_by(graph: Graph, budget_bytes: int, solver: str) -> SolveResult:
        return solve(
            graph, budget_bytes, solver=solver, options=chosen, listener=Following(graph, report, cancelled)
        )

    def solve_here(graph: Graph, budget_bytes: int) -> SolveResult:
        return solve_by(graph, budget_bytes, "auto")

    return measure_model(
        request, ours=ours, solve=solve_here, solve_by=solve_by, keep=keep, report=report, cancelled=cancelled
    )


def _write_records(folder: Path, graph: Graph, result: SolveResult, report: VerificationReport) -> None:
    write_graph(folder / "graph.json", graph)
    write_schedule(folder / "schedule.json", graph, result)
    write_report(folder / "report.json", report)


class Following(SilentListener):
    """Turns a solve's news into progress, and the user's wish to cancel into the solver's."""

    def __init__(self, graph: Graph, report: Report, cancelled: Cancelled) -> None:
        self._base_cost, self._ops = graph.base_cost, graph.n
        self._report, self._cancelled = report, cancelled

    def preparing(self, sentence: str) -> None:
        """What is done before the search begins."""
        self._report(Progress("prepare", message=sentence))

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """A better schedule was found."""
        extra = format_overhead(cost, self._base_cost)
        self._report(
            Progress("solve", message=f"best so far {extra}, {len(steps) - self._ops} recomputations")
        )

    def cancelled(self) -> bool:
        """Whether the user wants to stop."""
        return self._cancelled()


class FollowingMemory(SilentMemoryListener):
    """The same for the search for the least memory."""

    def __init__(self, graph: Graph, report: Report, cancelled: Cancelled) -> None:
        self._base_cost, self._report, self._cancelled = graph.base_cost, report, cancelled
        self._peak, self._bound = 0, 0

    def preparing(self, sentence: str) -> None:
        """What is done before the search begins."""
        self._report(Progress("prepare", message=sentence))

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        """A smaller schedule was found."""
        self._peak = peak_bytes
        self._tell(f", {format_overhead(cost, self._base_cost)}")

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        """More was proved."""
        self._bound = lower_bound_bytes
        self._tell()

    def cancelled(self) -> bool:
        """Whether the user wants to stop."""
        return self._cancelled()

    def _tell(self, cost: str = "") -> None:
        sentence = f"least so far {format_bytes(self._peak)}{cost}; none below {format_bytes(self._bound)}"
        self._report(Progress("solve", message=sentence))
