"""Test the first use on a machine: the search is compiled before a solve's time begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from checkmate.ir import SolveStatus
from checkmate.progress import Cancelled, never
from checkmate.solvers.chain import chain_solver
from checkmate.solvers.chain.chain_solver import ChainSolver
from checkmate.solvers.compile import compilation
from checkmate.solvers.compile.compilation import Say, load_kernels, say_nothing
from checkmate.solvers.portfolio import auto
from checkmate.solvers.portfolio.auto import AutoSolver
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence import greedy_solver, local_search
from checkmate.solvers.sequence.greedy_solver import GreedySolver
from checkmate.solvers.sequence.local_search import LocalSearchSolver
from tests.generated_graphs import training_dag
from tests.graphs_strategies import training_chain
from tests.unit.solvers.test_local_search import peak_of

SENTENCE = "compiling the search: 1 s"
LIMIT_S = 1.0


class Preparing(Listener):
    """Keeps what is said of the preparation; ``impatient`` cancels then."""

    def __init__(self, *, impatient: bool = False) -> None:
        self.heard: list[str] = []
        self._impatient = impatient

    def preparing(self, sentence: str) -> None:
        self.heard.append(sentence)

    def cancelled(self) -> bool:
        return self._impatient and bool(self.heard)


class Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def perf_counter(self) -> float:
        return time.perf_counter() + self.ahead


@pytest.mark.parametrize(
    ("solver", "home"),
    [(GreedySolver, greedy_solver), (LocalSearchSolver, local_search), (ChainSolver, chain_solver)],
    ids=["greedy", "local-search", "chain"],
)
def test_the_time_limit_of_other_solvers_begins_after_compiling(
    solver: Callable[[], Any], home: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, clock, told = training_chain(30), Clock(), Preparing()

    def compile_for_an_hour(cancelled: Cancelled, say: Say) -> bool:
        say(SENTENCE)
        clock.ahead += 3600.0
        return True

    monkeypatch.setattr(home, "time", clock)
    monkeypatch.setattr(home, "load_kernels", compile_for_an_hour)
    problem = Problem(graph, int(0.6 * peak_of(graph)))
    result = solver().solve(problem, SolveOptions(time_limit_s=60.0, moves=1000), told)
    assert result.schedule is not None and told.heard
    assert result.statistics.get("moves", 1) > 0 and result.statistics.get("plans", 1) > 0
    assert result.solve_seconds < 3600.0


def test_the_time_limit_of_auto_begins_when_it_can_search(monkeypatch: pytest.MonkeyPatch) -> None:
    load_kernels()
    graph, told = training_dag(3, 40), Preparing()

    def compile_for_long(cancelled: Cancelled = never, say: Say = say_nothing) -> bool:
        if say is not say_nothing:
            say(SENTENCE)
            time.sleep(1.5 * LIMIT_S)
        return True

    monkeypatch.setattr(auto, "is_compiled", lambda: False)
    monkeypatch.setattr(auto, "load_kernels", compile_for_long)
    problem = Problem(graph, int(0.7 * peak_of(graph)))
    result = AutoSolver().solve(problem, SolveOptions(time_limit_s=LIMIT_S), told)
    assert told.heard == [SENTENCE] and result.statistics["moves"] > 0


@pytest.mark.parametrize("solver", [GreedySolver, LocalSearchSolver, ChainSolver, AutoSolver])
def test_cancelled_while_compiling(solver: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    graph, told = training_chain(20), Preparing(impatient=True)
    monkeypatch.setattr(auto, "is_compiled", lambda: False)
    monkeypatch.setattr(compilation, "compile_first", lambda say, cancelled: say(SENTENCE))
    result = solver().solve(Problem(graph, peak_of(graph) - 1), SolveOptions(), told)
    assert result.status is SolveStatus.CANCELLED and told.heard == [SENTENCE]
