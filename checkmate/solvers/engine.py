"""Running a PuLP model: HiGHS with real statuses and cancellation, or any other program that PuLP drives, by name."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from checkmate.errors import SolverUnavailableError
from checkmate.ir.result import SolveStatus
from checkmate.solvers.problem import Listener, SolveOptions

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class EngineOutcome:
    """How the engine ended. ``bound``: its proved lower bound on the objective, None where it tells none."""

    status: SolveStatus
    bound: float | None


def run_engine(model: Any, options: SolveOptions, seconds: float, listener: Listener) -> EngineOutcome:
    """Solve the PuLP problem ``model``; its variables then hold the best solution found.

    Raises:
        SolverUnavailableError: the engine is unknown or not installed.
    """
    import pulp

    if options.engine.upper() == "HIGHS":
        return _run_highs(model, options, seconds, listener)
    known = pulp.listSolvers()
    if options.engine not in known:
        raise SolverUnavailableError(
            f"PuLP drives no solver called {options.engine!r}", hint=f"one of: {', '.join(sorted(known))}"
        )
    engine = pulp.getSolver(options.engine, msg=False, timeLimit=seconds)
    if not engine.available():
        raise SolverUnavailableError(
            f"{options.engine} is not installed or has no licence here", hint="use --engine HiGHS, which comes along"
        )
    started = time.perf_counter()
    model.solve(engine)
    stopped = time.perf_counter() - started > 0.95 * seconds
    if model.sol_status == pulp.LpSolutionOptimal and not stopped:
        return EngineOutcome(SolveStatus.OPTIMAL, pulp.value(model.objective))
    if model.status == pulp.LpStatusInfeasible and not stopped:
        return EngineOutcome(SolveStatus.INFEASIBLE, None)
    found = model.sol_status in (pulp.LpSolutionIntegerFeasible, pulp.LpSolutionOptimal)
    return EngineOutcome(SolveStatus.FEASIBLE if found else SolveStatus.LIMIT, None)


def _run_highs(model: Any, options: SolveOptions, seconds: float, listener: Listener) -> EngineOutcome:
    """PuLP reports a time limit as optimal (3.3.2), so status and bound are read from HiGHS itself."""
    import highspy
    import pulp

    class Interruptible(pulp.HiGHS):  # type: ignore[misc]
        def callSolver(self, lp: Any) -> None:  # noqa: N802
            highs = lp.solverModel
            highs.HandleUserInterrupt = True
            done = threading.Event()

            def watch() -> None:
                while not done.wait(_POLL_SECONDS):
                    if listener.cancelled():
                        highs.cancelSolve()
                        return

            watcher = threading.Thread(target=watch, daemon=True)
            watcher.start()
            try:
                highs.solve()
            finally:
                done.set()
                watcher.join()

    engine = Interruptible(msg=False, timeLimit=max(0.1, seconds), gapRel=options.gap or 1e-9, threads=options.workers)
    model.solve(engine)
    highs = model.solverModel
    status = highs.getModelStatus()
    info = highs.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    is_mip = any(variable.cat == pulp.LpInteger for variable in model.variables())
    bound = info.mip_dual_bound if is_mip else info.objective_function_value
    if status == highspy.HighsModelStatus.kOptimal:
        return EngineOutcome(SolveStatus.OPTIMAL, float(bound))
    if status == highspy.HighsModelStatus.kInfeasible:
        return EngineOutcome(SolveStatus.INFEASIBLE, None)
    limit = float(bound) if is_mip and bound > -1e300 else None
    if found and is_mip:
        return EngineOutcome(SolveStatus.FEASIBLE, limit)
    return EngineOutcome(SolveStatus.CANCELLED if listener.cancelled() else SolveStatus.LIMIT, limit)
