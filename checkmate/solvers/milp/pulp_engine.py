"""Run a PuLP model in HiGHS, or in any other program that PuLP drives.

With HiGHS, statuses are exact, solutions and bounds are streamed, and a solve can be cancelled.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from checkmate.errors import SolveFailedError, SolverUnavailableError
from checkmate.ir import SolveStatus
from checkmate.progress import Cancelled
from checkmate.solvers.highs import HighsListener, run_highs, silent_highs
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.tolerances import HIGHS_INFINITY

_POLL_SECONDS = 0.02
_LEAST_SECONDS = 0.05


@dataclass(frozen=True)
class EngineOutcome:
    """How the engine ended; ``engine_status`` is its own word for it.

    ``status``: OPTIMAL and INFEASIBLE are the engine's proofs, within its tolerances; OPTIMAL is up to the
    gap asked for. ``bound``: its proved lower bound on the objective, None if it reports none.
    """

    status: SolveStatus
    bound: float | None
    engine_status: str


def run_engine(
    model: Any,
    options: SolveOptions,
    *,
    seconds: float,
    relaxed: bool,
    cancelled: Cancelled,
    listener: HighsListener | None = None,
    start: dict[Any, float] | None = None,
) -> EngineOutcome:
    """Solve the PuLP problem ``model`` within ``seconds``. Its variables then hold the best solution found.

    ``listener``: hears solutions and bounds, from HiGHS only. ``start``: values of some variables in a known
    solution, for engines that take one.

    Raises:
        SolverUnavailableError: the engine is unknown or not installed.
    """
    seconds = max(_LEAST_SECONDS, seconds)
    if options.engine.upper() != "HIGHS":
        return _run_other(model, options, seconds, cancelled)
    settings: dict[str, Any] = {
        "time_limit": float(seconds),
        "mip_rel_gap": options.gap,
        "mip_abs_gap": 0.0,
        "threads": max(1, options.workers),
    }
    if relaxed:
        settings["solver"] = "ipm"  # simplex takes several times longer on these relaxations
    model.solve(_interruptible_highs(settings, cancelled, listener, start or {}))
    return _highs_outcome(model.solverModel, relaxed=relaxed, cancelled=cancelled)


def _interruptible_highs(
    settings: dict[str, Any], cancelled: Cancelled, listener: HighsListener | None, start: dict[Any, float]
) -> Any:
    import pulp

    class InterruptibleHighs(pulp.HiGHS):  # type: ignore[misc]
        def createAndConfigureSolver(self, lp: Any) -> None:  # noqa: N802 (PuLP's name)
            """PuLP's own makes one that may print."""
            lp.solverModel = silent_highs()
            for name, value in settings.items():
                lp.solverModel.setOptionValue(name, value)

        def callSolver(self, lp: Any) -> None:  # noqa: N802 (PuLP's name)
            highs = lp.solverModel
            if listener is not None:
                listener.subscribe(highs)
            if start:
                columns = {
                    variable.index: value for variable, value in start.items() if hasattr(variable, "index")
                }
                highs.setSolution(len(columns), list(columns), list(columns.values()))
            highs.HandleUserInterrupt = True
            # HiGHS keeps the count of workers of a thread's first solve, and a new thread may have another.
            run_highs(highs, "milp", until=math.inf, cancelled=cancelled, daemon=False)

    return InterruptibleHighs(msg=False)


def _highs_outcome(highs: Any, *, relaxed: bool, cancelled: Cancelled) -> EngineOutcome:
    """Return how HiGHS ended, from HiGHS itself: PuLP 3.3 reports a time limit as optimal.

    Raises SolveFailedError if it did not solve for another reason than a limit or a cancel.
    """
    import highspy

    status, info = highs.getModelStatus(), highs.getInfo()
    engine_status = highs.modelStatusToString(status)
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    bound = float(info.objective_function_value if relaxed else info.mip_dual_bound)
    known = bound if abs(bound) < HIGHS_INFINITY else None
    if status == highspy.HighsModelStatus.kOptimal:
        return EngineOutcome(SolveStatus.OPTIMAL, known, engine_status)
    if status == highspy.HighsModelStatus.kInfeasible:
        return EngineOutcome(SolveStatus.INFEASIBLE, None, engine_status)
    if relaxed:  # a simplex that is stopped has neither a solution nor a bound
        known, found = None, False
    if found:
        return EngineOutcome(SolveStatus.FEASIBLE, known, engine_status)
    kinds = highspy.HighsModelStatus
    broken = (kinds.kNotset, kinds.kLoadError, kinds.kModelError, kinds.kPresolveError, kinds.kSolveError)
    if status in (*broken, kinds.kPostsolveError) and not cancelled():
        raise SolveFailedError(f"HiGHS ended with {engine_status!r}", hint="try another solver, such as auto")
    return EngineOutcome(SolveStatus.LIMIT, known, engine_status)


def _run_other(model: Any, options: SolveOptions, seconds: float, cancelled: Cancelled) -> EngineOutcome:
    import pulp

    names = {name.upper(): name for name in pulp.listSolvers()}
    name = names.get(options.engine.upper())
    if name is None:
        raise SolverUnavailableError(
            f"PuLP knows no solver called {options.engine!r}",
            hint=f"one of: {', '.join(sorted(names.values()))}",
        )
    engine = pulp.getSolver(name, msg=False, timeLimit=seconds, gapRel=options.gap)
    if not engine.available():
        raise SolverUnavailableError(
            f"{name} is not installed or has no licence here",
            hint="leave the engine out to use HiGHS, which is installed",
        )
    began = time.perf_counter()
    try:
        with _ended_if(cancelled, str(getattr(engine, "path", ""))):
            model.solve(engine)
    except pulp.PulpSolverError as error:
        if cancelled():
            return EngineOutcome(SolveStatus.LIMIT, None, "ended")
        raise SolverUnavailableError(
            f"{name} could not be run: {error}", hint="leave the engine out to use HiGHS, which is installed"
        ) from error
    engine_status = f"{pulp.LpStatus[model.status]}, {pulp.LpSolution[model.sol_status]}"
    # Some drivers call a run that hit its limit optimal. So a proof counts only if time was left.
    in_time = time.perf_counter() - began < 0.95 * seconds and not cancelled()
    if model.sol_status == pulp.LpSolutionOptimal and in_time:
        return EngineOutcome(
            SolveStatus.OPTIMAL, (1 - options.gap) * float(pulp.value(model.objective)), engine_status
        )
    if model.sol_status == pulp.LpSolutionInfeasible and in_time:
        return EngineOutcome(SolveStatus.INFEASIBLE, None, engine_status)
    if model.sol_status in (pulp.LpSolutionIntegerFeasible, pulp.LpSolutionOptimal):
        return EngineOutcome(SolveStatus.FEASIBLE, None, engine_status)
    return EngineOutcome(SolveStatus.LIMIT, None, engine_status)


@contextmanager
def _ended_if(cancelled: Cancelled, program: str) -> Iterator[None]:
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_POLL_SECONDS):
            if cancelled():
                _end_children(program)
                return

    thread = threading.Thread(target=watch, daemon=True, name="cancel-watch")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _end_children(program: str) -> None:
    import psutil

    for child in psutil.Process().children():
        try:
            if program and child.exe() == program:
                child.terminate()
        except psutil.Error:
            continue  # it has just ended, or belongs to another user
