"""Solve for a budget or for the least memory, check the result, and say what a budget means in bytes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from checkmate.arguments import (
    BudgetLike,
    GraphLike,
    ResultLike,
    graph_of,
    overhead_of,
    result_of,
    step_budget_of,
)
from checkmate.errors import SolverCrashedError
from checkmate.ir import CheckReport, Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.planning.progress_listener import FollowingMemory
from checkmate.progress import Cancelled, Report, never
from checkmate.solvers.bounds import (
    WorkingSet,
    below_minimum,
    explain_below_bound,
    run_once_bound,
    working_set_bound,
)
from checkmate.solvers.certify import require_true_bound, shows_optimal, without_schedule
from checkmate.solvers.constraints import (
    ConstrainedListener,
    Constraints,
    constrained,
    result_for_original,
    start_for_constrained,
)
from checkmate.solvers.portfolio.least_memory import LeastMemory, require_overhead
from checkmate.solvers.portfolio.least_memory import least_memory as find_least_memory
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.registry import find_solver
from checkmate.terminal import progress_line
from checkmate.units import Budget

_REPORT = "choose another solver, and please report the graph"
_MINIMUM_PRECISION = 0.002  # of the span between the working-set bound and keep-everything


@dataclass(frozen=True, eq=False)
class Minimum:
    """The least peak known to be reachable, by ``schedule``, and the proved bound, in bytes."""

    bytes: int
    bound: WorkingSet
    schedule: Schedule

    @property
    def proved(self) -> bool:
        """Whether no order of ops has a smaller peak."""
        return self.bytes <= self.bound.bytes


def keep_everything_peak(graph: GraphLike) -> int:
    """Return the plain step's peak in bytes.

    The plain step computes everything once, in order. ``graph`` is a graph, its file or name.
    """
    graph = graph_of(graph)
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
    """Return the best schedule that ``solver`` finds for a budget of bytes; as ``checkmate.solve``, without
    progress.

    Raises:
        SolverUnavailableError: the solver is unknown or not installed. SolverCrashedError: its schedule is
        wrong. UnknownNameError: a constraint names something that the graph does not have.
    """
    entry = find_solver(solver)
    started = time.perf_counter()
    asked, heard = options or SolveOptions(), listener or Listener()
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
    require_true(graph, result, budget_bytes)
    return result


def least_memory(
    graph: GraphLike,
    *,
    max_overhead: str | float | None = None,
    options: SolveOptions | None = None,
    listener: Listener | None = None,
    constraints: Constraints | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
) -> LeastMemory:
    """Return the least memory in which ``graph`` runs at a limited cost.

    It works like the command ``checkmate solve --max-overhead``. The cost is at most ``1 + max_overhead``
    times that of computing everything once. ``max_overhead`` is a fraction (0.05) or a text (``"5%"``); None
    allows any cost. Both the schedule and the proof improve until the options' time limit, or until they
    meet; ``gap`` is that of the memory. Other arguments are as for ``solve``.

    Raises:
        UsageError: ``max_overhead`` is below 0, so no schedule could cost as little. UnknownNameError: as for
        ``solve``.
    """
    graph, asked = graph_of(graph), options or SolveOptions()
    max_overhead = overhead_of(max_overhead)
    require_overhead(max_overhead)
    if max_overhead is not None and math.isinf(max_overhead):
        max_overhead = None
    limits = _all_constraints(constraints, asked)
    limited = constrained(graph, limits)
    if not limits.is_empty:
        asked = replace(asked, start=start_for_constrained(graph, limited, asked.start))
    with progress_line(quiet=quiet or listener is not None, report=report) as told:
        heard = listener or FollowingMemory(graph, told, cancelled)
        if not limits.is_empty:
            heard = ConstrainedListener(heard, limits)
        found = find_least_memory(limited, max_overhead, asked, heard)
    result = result_for_original(graph, limited, limits, found.result)
    require_true(graph, result, result.budget_bytes)
    return replace(found, result=replace(result, graph=graph))


def known_minimum(
    graph: GraphLike,
    *,
    constraints: Constraints | None = None,
    options: SolveOptions | None = None,
    listener: Listener | None = None,
) -> Minimum:
    """Return the least peak that the fast heuristic reaches.

    It bisects between the lower bound and keep-everything. The result is an upper estimate of the true
    minimum unless it equals the bound; ``least_memory`` takes longer and knows more. ``options`` and
    ``listener`` are those of each of about ten solves. ``graph`` is as for ``solve``.
    """
    graph = constrained(graph_of(graph), constraints or Constraints())
    bound = run_once_bound(graph)
    least = Minimum(keep_everything_peak(graph), bound, Schedule.plain(graph))
    asked = low = bound.bytes
    step = max(1, int((least.bytes - low) * _MINIMUM_PRECISION))
    while asked < least.bytes:
        found = solve(graph, asked, solver="greedy", options=options, listener=listener)
        if found.schedule is not None and found.peak_bytes is not None:
            least = Minimum(found.peak_bytes, bound, found.schedule)
        else:
            low = asked
        if least.bytes - low <= step:
            break
        asked = (least.bytes + low) // 2
    return least


def resolve_budget(graph: GraphLike, budget: BudgetLike, *, constraints: Constraints | None = None) -> int:
    """Return ``budget`` in bytes for ``graph``.

    A share is of the keep-everything peak; an open budget is the known minimum; bytes are as given. Arguments
    are as for ``solve``.

    Raises:
        UsageError: the budget cannot be read, or is so few bytes that another unit was meant.
    """
    graph = graph_of(graph)
    peak = keep_everything_peak(graph)
    budget = step_budget_of(budget, peak)
    if budget != Budget():
        return budget.resolve(keep_everything_peak=peak, minimum=0)
    return known_minimum(graph, constraints=constraints).bytes


def check_schedule(
    graph: GraphLike,
    steps: Sequence[int] | Schedule | ResultLike,
    *,
    budget: BudgetLike | None = None,
) -> CheckReport:
    """Replay a schedule by the independent check.

    It works like the command ``checkmate check``. ``steps`` are ops in the order of execution, a schedule,
    what ``solve`` returned, or a schedule file. ``graph`` and ``budget`` are as for ``solve``; no budget: the
    peak may be any.

    Raises:
        FormatError: a file is missing or broken. FingerprintMismatchError: the schedule file is for another
        graph. NoScheduleError: the solve found none. UsageError: the budget cannot be read.
    """
    graph = graph_of(graph)
    if isinstance(steps, SolveResult | str | Path):
        steps = result_of(steps, graph).require_schedule()
    order = steps.steps.tolist() if isinstance(steps, Schedule) else steps
    allowed = budget if budget is None or isinstance(budget, int) else resolve_budget(graph, budget)
    return check(graph, order, budget_bytes=allowed)


def _all_constraints(constraints: Constraints | None, options: SolveOptions) -> Constraints:
    given = constraints or Constraints()
    return replace(given, recompute_gradients=given.recompute_gradients and options.recompute_gradients)


def _infeasible(
    graph: Graph, budget_bytes: int, solver: str, need: WorkingSet, message: str, started: float
) -> SolveResult:
    return without_schedule(
        Problem(graph, budget_bytes),
        solver,
        SolveStatus.INFEASIBLE,
        message,
        seconds=time.perf_counter() - started,
        statistics={"needed_bytes": need.bytes, "op": need.op, "values": list(need.values)},
    )


def require_true(graph: Graph, result: SolveResult, budget_bytes: int) -> None:
    """Require that nothing in a result contradicts the replay of its schedule, or raise SolverCrashedError. A
    bound that no known schedule contradicts is believed; only a certificate proves it.
    """
    asked = (budget_bytes, graph.base_cost)
    if not all(map(_is_same, (result.budget_bytes, result.base_cost), asked)):
        raise _wrong(result, f"is for {result.budget_bytes} bytes and a cost of {result.base_cost:g} once")
    if result.lower_bound is not None and math.isnan(result.lower_bound):
        raise _wrong(result, "has a bound that is no number")
    if result.schedule is None:
        return
    found = check(graph, result.schedule.steps.tolist(), budget_bytes=budget_bytes)
    if not found.ok or not _is_same(result.cost, found.cost) or found.peak_bytes != result.peak_bytes:
        what = (
            found.violations[0].message if found.violations else f"peak {found.peak_bytes}, cost {found.cost}"
        )
        raise SolverCrashedError(
            f"solver {result.solver!r} returned a schedule that the independent check rejects: {what}",
            hint=_REPORT,
        )
    if not result.assumptions:
        require_true_bound(result.solver, result.lower_bound, found.cost)
    if result.status is SolveStatus.OPTIMAL and not shows_optimal(result.lower_bound, found.cost):
        raise _wrong(result, f"is called optimal at {found.cost:g} with a bound of {result.lower_bound}")


def _is_same(told: float | None, found: float) -> bool:
    """Whether two figures differ by rounding at most; NaN does not."""
    return told is not None and abs(told - found) <= 1e-6 * max(1.0, abs(found))


def _wrong(result: SolveResult, what: str) -> SolverCrashedError:
    return SolverCrashedError(f"the answer of solver {result.solver!r} {what}", hint=_REPORT)
