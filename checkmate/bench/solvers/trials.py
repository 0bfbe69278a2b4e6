"""Measure graphs × budgets × solvers: cost, gap, and seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from checkmate import planning
from checkmate.bench.common.convergence import Convergence, Recorder, TimedIncumbent
from checkmate.bench.common.trial_progress import TrialProgress
from checkmate.bench.solvers.published import Figure, figures_for
from checkmate.catalog.bundled import find_graph
from checkmate.errors import SolverCrashedError
from checkmate.formats import read_any_graph
from checkmate.graphs.generate import random_layered, training_chain, training_dag
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget

MARKS = (
    0.3,
    1.0,
    3.0,
    10.0,
    30.0,
    100.0,
    300.0,
)  # seconds after which the cost is shown, up to the time limit
_WARM_UP = SolveOptions(time_limit_s=0.2)
_PROBE = SolveOptions(
    time_limit_s=1.0
)  # per budget tried for the least reachable peak; without it, 1,000 ops take minutes


@dataclass(frozen=True)
class Wanted:
    """Hold a budget as the user gave it.

    It is a ``budget``, or a fraction f of the way from the least reachable peak to the plain one.
    """

    label: str
    budget: Budget | float


@dataclass(frozen=True, eq=False)
class Case:
    """Hold a graph at a budget.

    ``budget_bytes`` and ``plain_bytes`` (the peak of the given order) include ``fixed_bytes``.
    """

    graph: Graph
    label: str
    budget_bytes: int
    plain_bytes: int

    @property
    def share(self) -> float:
        """Return the budget as a share of the plain peak."""
        return self.budget_bytes / self.plain_bytes if self.plain_bytes else math.inf

    @property
    def published(self) -> tuple[Figure, ...]:
        """Return the published results for this case, the best first."""
        return figures_for(self.graph, self.share)


@dataclass(frozen=True, eq=False)
class Trial:
    """Hold the result of one solver on one case.

    ``seconds``: wall time of the whole call, the final check included. ``at_once``: trials that may have run
    at the same time, itself included, sharing cores. ``host``: the machine, and ``ended``: what ended the
    solve (``checkmate.frontiers.tasks.ended``), where an engine ran it.
    """

    case: Case
    result: SolveResult
    convergence: Convergence
    seconds: float
    at_once: int = 1
    host: str = ""
    ended: str = ""

    @property
    def solver(self) -> str:
        return self.result.solver

    def overhead(self, cost: float | None) -> float | None:
        """Return ``cost`` as extra over computing everything once.

        It is a fraction; None where it is unknown or where computing everything once costs nothing.
        """
        base = self.case.graph.base_cost
        return None if cost is None or base <= 0 else cost / base - 1


def generated_graphs() -> list[Graph]:
    """Return graphs that need no files of the user's.

    They are always the same. The bundled U-Net is one of them.
    """
    graphs = [random_layered(0, ops) for ops in (100, 500, 1000)]
    graphs.append(training_chain(64, seed=0))
    bundled = find_graph("unet-b8.graph")
    return graphs if bundled is None else [*graphs, read_any_graph(bundled)]


def smoke_graphs() -> list[Graph]:
    """Return three tiny graphs, enough to see that all works."""
    return [random_layered(0, 30), training_chain(8), training_dag(0, 8)]


def make_cases(
    graphs: Iterable[Graph],
    wanted: Sequence[Wanted],
    *,
    least: Callable[[Graph], int] | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[Case]:
    """Return every graph at every budget.

    A budget is as given, or Bmin + f (Bmax - Bmin), with Bmin the least peak known to be reachable. ``least``
    gives Bmin in bytes, where it has been found before.

    Raises:
        CancelledError: the user cancelled.
    """
    cases = []
    for graph in graphs:
        stop_if(cancelled)
        report(Progress("budgets", message=graph.name))
        plain = planning.keep_everything_peak(graph)
        minimum = 0
        if any(needs_least_peak(want) for want in wanted):
            minimum = _least_peak(graph, cancelled) if least is None else least(graph)
        stop_if(cancelled)
        for want in wanted:
            if isinstance(want.budget, float):
                budget = minimum + math.floor(want.budget * (plain - minimum))
            elif want.budget == Budget():
                budget = minimum
            else:
                budget = planning.resolve_budget(graph, want.budget)
            cases.append(Case(graph, want.label, budget, plain))
    return cases


def needs_least_peak(want: Wanted) -> bool:
    """Return whether resolving ``want`` takes solves."""
    return isinstance(want.budget, float) or want.budget == Budget()


def _least_peak(graph: Graph, cancelled: Cancelled) -> int:
    """Return the least peak in bytes that greedy reaches.

    Each try has a second. It is an upper estimate of the least possible.
    """
    return planning.known_minimum(graph, options=_PROBE, listener=Recorder(cancelled=cancelled)).bytes


def warm_up(solvers: Iterable[str], *, report: Report = silent, cancelled: Cancelled = never) -> None:
    """Solve something tiny with each solver before measuring.

    So loading libraries and compiling kernels is not measured.

    Raises:
        SolverUnavailableError: a solver is unknown or not installed. CancelledError: the user cancelled.
    """
    graph = training_chain(4)
    budget = planning.keep_everything_peak(graph) - 1
    for name in solvers:
        report(Progress("warm up", message=f"{name}: libraries and compiled code, not measured"))
        recorder = Recorder(cancelled=cancelled)
        planning.solve(graph, budget, solver=name, options=_WARM_UP, listener=recorder)
        stop_if(cancelled)


def run(
    cases: Sequence[Case],
    solvers: Sequence[str],
    options: SolveOptions,
    *,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[Trial]:
    """Run every solver on every case, one after the other.

    Raises:
        CancelledError: the user cancelled.
    """
    progress = TrialProgress(len(cases) * len(solvers), options.time_limit_s, report, cancelled)
    trials = []
    for case in cases:
        for solver in solvers:
            progress.begin(f"{case.graph.name} at {case.label}, {solver}", case.graph.base_cost)
            trials.append(measure(case, solver, options, told=progress.told, cancelled=progress.cancelled))
            stop_if(cancelled)
    return trials


def measure(
    case: Case,
    solver: str,
    options: SolveOptions,
    *,
    told: Callable[[float], None] = lambda cost: None,
    cancelled: Cancelled = never,
) -> Trial:
    """Run one solver on one case; pass every cost to ``told``.

    A wrong schedule makes the trial FAILED. The schedule returned has passed the independent check in
    ``planning.solve``; those in force at the first moment and at the marks are checked here, after the clock
    has stopped.
    """
    recorder = Recorder(cancelled=cancelled, told=told)
    try:
        result = planning.solve(
            case.graph, case.budget_bytes, solver=solver, options=options, listener=recorder
        )
    except SolverCrashedError as error:
        result = failed(case, solver, str(error))
    seconds = recorder.seconds
    convergence = recorder.convergence(final_cost=result.cost, seconds=seconds)
    wrong = _first_wrong(case, convergence, recorder.incumbents)
    if wrong:
        result, convergence = failed(case, solver, wrong), Convergence()
    return Trial(case, result, convergence, seconds)


def failed(case: Case, solver: str, message: str) -> SolveResult:
    """Return the result of a solve that went wrong."""
    return SolveResult(
        status=SolveStatus.FAILED,
        solver=solver,
        budget_bytes=case.budget_bytes,
        base_cost=case.graph.base_cost,
        message=message,
    )


def _first_wrong(case: Case, convergence: Convergence, incumbents: Sequence[TimedIncumbent]) -> str:
    """Return what is wrong with a schedule that the solver reported.

    Only those that the table shows are checked; the first wrong one counts. Empty if none is wrong.
    """
    shown = {convergence.seconds_to_first} | {_last_before(convergence, mark) for mark in MARKS}
    for found in incumbents:
        if found.seconds not in shown:
            continue
        report = check(case.graph, found.steps.tolist(), budget_bytes=case.budget_bytes)
        if not report.ok or not math.isclose(report.cost, found.cost, rel_tol=1e-6, abs_tol=1e-6):
            what = (
                report.violations[0].message
                if report.violations
                else f"peak {report.peak_bytes}, cost {report.cost:g}"
            )
            return f"a schedule that it reported after {found.seconds:.3g} s does not hold: {what}"
    return ""


def _last_before(convergence: Convergence, mark: float) -> float | None:
    return next((when for when, _ in reversed(convergence.costs) if when <= mark), None)


def relative_costs(trials: Sequence[Trial]) -> list[float | None]:
    """Return each trial's cost over the least on the same case.

    The least is over all solvers. None without a schedule or where everything is free.
    """
    best: dict[Case, float] = {}
    for trial in trials:
        if trial.result.cost is not None:
            best[trial.case] = min(trial.result.cost, best.get(trial.case, math.inf))
    return [
        trial.result.cost / best[trial.case]
        if trial.result.cost is not None and best[trial.case] > 0
        else None
        for trial in trials
    ]


@dataclass(frozen=True)
class SolverStanding:
    """Compare a solver with the others over all cases.

    ``ratio``: the geometric mean of its relative costs over the ``solved`` of ``cases``.
    """

    solver: str
    ratio: float | None
    solved: int
    cases: int


def standings(trials: Sequence[Trial]) -> list[SolverStanding]:
    """Return how the solvers compare, in the order given."""
    ratios: dict[str, list[float | None]] = {}
    for trial, ratio in zip(trials, relative_costs(trials), strict=True):
        ratios.setdefault(trial.solver, []).append(ratio)
    return [_standing(solver, row) for solver, row in ratios.items()]


def _standing(solver: str, ratios: Sequence[float | None]) -> SolverStanding:
    known = [ratio for ratio in ratios if ratio is not None]
    mean = math.exp(math.fsum(map(math.log, known)) / len(known)) if known else None
    return SolverStanding(solver, mean, len(known), len(ratios))
