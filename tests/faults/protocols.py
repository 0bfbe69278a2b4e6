"""Conversations of the solvers with their children, judged by their end.

Each asks several questions, so that an answer can come to the wrong one. ``talk(patience)`` returns what
broke, or an empty text; it may end in a typed error, which is right. ``patience``: the seconds after which a
parent that still waits counts as one that waits for ever.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from checkmate import planning
from checkmate.errors import CheckmateError, WorkerDiedError
from checkmate.ir import Graph, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.solvers.pathcut.in_process import ProverProcess
from checkmate.solvers.problem import SolveOptions
from tests.generated_graphs import training_dag
from tests.graphs_strategies import training_chain

LARGE = 130  # ops: more than the prover takes in a thread
ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Protocol:
    """A conversation with ``module``, which ``starter`` starts.

    ``waits`` (``module:name``) says how long a silence may last; ``silent_s`` takes its place, so that a lost
    message does not take a minute.
    """

    module: str
    starter: str
    waits: str
    talk: Callable[[float], str]
    silent_s: float = 8.0


@cache
def small() -> Graph:
    return training_chain(8)


@cache
def large() -> tuple[Graph, dict[int, float]]:
    """A graph of many ops, and the least known costs of two budgets."""
    graph = training_dag(1, LARGE)
    peak, options = planning.keep_everything_peak(graph), SolveOptions(time_limit_s=10.0, workers=2)
    budgets = (int(0.6 * peak), int(0.45 * peak))
    costs = (planning.solve(graph, budget, options=options).cost for budget in budgets)
    return graph, {budget: cost or math.inf for budget, cost in zip(budgets, costs, strict=True)}


@cache
def truth(layers: int, budget: int) -> SolveResult:
    """An answer made without any fault: proved, or the best known."""
    found = planning.solve(training_chain(layers), budget, options=SolveOptions(time_limit_s=20.0))
    assert found.schedule is not None or found.status is SolveStatus.INFEASIBLE, found
    return found


def least_cost(layers: int, budget: int) -> float:
    """The least known cost, infinite where no schedule fits; a bound above it is false, proved or not."""
    cost = truth(layers, budget).cost
    return math.inf if cost is None else cost


def until(condition: Callable[[], bool], patience: float, turn: Callable[[], object] | None = None) -> bool:
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            return False
        if turn is None:
            time.sleep(0.005)
        else:
            turn()
    return True


def prove(patience: float) -> str:
    with ProverProcess(training_chain(4)) as prover:
        for budget in (40, 30, 50):
            least_cost(4, budget)
            prover.prove(budget, seconds=1.0)
            prover.offer(np.arange(8, dtype=np.int32))
            try:
                if not until(lambda: prover.state().over, patience):
                    return f"the proof for {budget} never ended"
                state = prover.state()
            except WorkerDiedError:
                continue
            if state.bound > least_cost(4, budget) * ROUNDING:
                return f"a bound of {state.bound} for {budget}"
    return ""


def judged(graph: Graph, found: SolveResult, cost: float) -> str:
    """What is false of a result; ``cost``: the least of all."""
    if found.schedule is not None:
        report = check(graph, found.schedule.steps.tolist(), budget_bytes=found.budget_bytes)
        if not report.ok or report.cost != found.cost or report.peak_bytes != found.peak_bytes:
            return "the schedule is not what is said of it"
    bound = found.lower_bound or 0.0
    if bound > cost * ROUNDING:
        return f"a bound of {bound} above {cost}"
    if found.status is SolveStatus.OPTIMAL and (found.cost or 0.0) > cost * ROUNDING:
        return f"{found.cost} is called optimal, and {cost} is known"
    if found.status is SolveStatus.INFEASIBLE and cost < math.inf:
        return "it is called infeasible"
    return ""


def auto(patience: float) -> str:
    graph, known, said = *large(), list[str]()

    def solve(budget: int) -> None:
        try:
            found = planning.solve(graph, budget, options=SolveOptions(time_limit_s=2.0, workers=2))
            said.append(judged(graph, found, known[budget]))
        except CheckmateError:
            said.append("")
        except Exception as error:
            said.append(f"untyped: {error!r}")

    for budget in known:
        thread = threading.Thread(target=solve, args=(budget,), daemon=True)
        thread.start()
        thread.join(patience)
        if thread.is_alive():
            return f"the solve for {budget} never ended"
    return "".join(said)
