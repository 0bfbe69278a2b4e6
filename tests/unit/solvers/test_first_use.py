"""Test the first use: schedules come before the search is compiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from checkmate.formats import read_graph
from checkmate.ir import Graph, SolveStatus
from checkmate.memory.check import check
from checkmate.solvers.bounds import run_once_bound
from checkmate.solvers.chain import chain_solver
from checkmate.solvers.chain.chain_solver import ChainSolver
from checkmate.solvers.compile import compilation
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.portfolio import auto, interactive
from checkmate.solvers.portfolio.auto import AutoSolver
from checkmate.solvers.portfolio.interactive import FrontierListener, LiveSolver
from checkmate.solvers.portfolio.while_compiling import answer_while_compiling
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence import greedy_solver, local_search
from checkmate.solvers.sequence.greedy_solver import GreedySolver
from checkmate.solvers.sequence.local_search import LocalSearchSolver
from tests.generated_graphs import training_dag
from tests.graphs_strategies import training_chain
from tests.unit.solvers.test_local_search import peak_of
from tests.unit.solvers.test_prover_process import until

SAMPLE = Path(__file__).resolve().parents[3] / "resources" / "graphs" / "unet-b8.json.gz"
LIMIT_S = 2.0


class Compiling:
    """A compilation that ends when the test says so, or after some seconds."""

    def __init__(self, seconds: float = float("inf")) -> None:
        self.sentence, self.seconds = "compiling the search: 1 s", 0.0
        self._until = time.monotonic() + seconds

    @property
    def running(self) -> bool:
        return time.monotonic() < self._until

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)
        self.seconds += seconds

    def close(self) -> None: ...


class RecordingListener(Listener):
    """Keeps what is reported, in order; ``stop`` receives each kind of news and says whether to stop."""

    def __init__(self, graph: Graph, budget: int, stop: Callable[[str], bool] = lambda kind: False) -> None:
        self.graph, self.budget, self.kinds, self.costs = graph, budget, [], []
        self._stop, self._stopped = stop, False

    def _record(self, kind: str) -> None:
        self.kinds.append(kind)
        self._stopped |= self._stop(kind)

    def preparing(self, sentence: str) -> None:
        assert sentence.startswith("compiling the search")
        self._record("preparing")

    def incumbent(self, steps: Any, cost: float) -> None:
        report = check(self.graph, list(steps), budget_bytes=self.budget)
        assert report.ok and report.cost == pytest.approx(cost)
        self.costs.append(cost)
        self._record("incumbent")

    def cancelled(self) -> bool:
        return self._stopped


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Compile for real, so that only a test's own compilation is pending."""
    load_kernels()


@pytest.fixture(scope="module")
def sample() -> Graph:
    return read_graph(SAMPLE)


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Compiling:
    """Let the solvers believe that nothing is compiled yet."""
    compiling = Compiling()
    for module in (interactive, auto):
        monkeypatch.setattr(module, "is_compiled", lambda: False)
    monkeypatch.setattr(auto, "Compilation", lambda: compiling)
    return compiling


def test_schedules_come_while_the_search_is_compiled(sample: Graph) -> None:
    budget, compiling = peak_of(sample) // 2, Compiling()
    told = RecordingListener(sample, budget)
    told._stop = lambda kind: bool(told.costs)
    options = answer_while_compiling(compiling, Problem(sample, budget), SolveOptions(), told)
    assert compiling.running and told.kinds[0] == "preparing"
    assert told.costs == sorted(told.costs, reverse=True)
    assert options.start is not None
    assert sample.cost[options.start.steps].sum() == pytest.approx(told.costs[-1])


def test_the_time_limit_of_auto_ends_its_wait_for_the_compilation(sample: Graph, cold: Compiling) -> None:
    told = RecordingListener(sample, peak_of(sample) // 2)
    result = AutoSolver().solve(Problem(sample, told.budget), SolveOptions(time_limit_s=0.0), told)
    assert cold.running and result.status is SolveStatus.FEASIBLE
    assert result.cost == pytest.approx(told.costs[-1])
    assert "the search was still being compiled" in result.message


def test_without_a_schedule_the_time_limit_does_not(sample: Graph, cold: Compiling) -> None:
    budget = run_once_bound(sample).bytes  # where no strategy finds any
    cold._until = time.monotonic() + 1.5
    told = RecordingListener(sample, budget)
    AutoSolver().solve(Problem(sample, budget), SolveOptions(time_limit_s=0.0), told)
    assert not cold.running


def test_auto_cancelled_before_its_search_returns_the_found_schedule(sample: Graph, cold: Compiling) -> None:
    budget = peak_of(sample) // 2
    told = RecordingListener(sample, budget, stop=lambda kind: kind == "incumbent")
    result = AutoSolver().solve(Problem(sample, budget), SolveOptions(), told)
    assert cold.running and result.status is SolveStatus.FEASIBLE
    assert result.cost == pytest.approx(told.costs[-1])


def test_a_moving_slider_is_answered_before_the_search_is_compiled(sample: Graph, cold: Compiling) -> None:
    with LiveSolver(sample, FrontierListener(), compilation=cold) as explored:
        explored.begin()
        for share in (0.8, 0.6, 0.5):
            budget = int(share * peak_of(sample))
            told = RecordingListener(sample, budget, stop=lambda kind: kind == "incumbent")
            result = explored.solve(budget, SolveOptions(), told)
            assert result.status is SolveStatus.FEASIBLE and told.costs
            best = explored.frontier.best(budget)
            assert best is not None and best.cost <= told.costs[-1] * (1 + 1e-9)
        known = len(explored.frontier.points)
        assert until(lambda: explored.idle(lambda: False) and len(explored.frontier.points) > known)
        assert cold.running
        cold._until = 0.0
        found = explored.least(0.2, SolveOptions(time_limit_s=LIMIT_S), Listener())
        assert found.result.schedule is not None


def test_the_time_limit_of_auto_begins_when_it_can_search(sample: Graph, cold: Compiling) -> None:
    cold._until = time.monotonic() + 0.5 * LIMIT_S
    told = RecordingListener(sample, peak_of(sample) // 2)
    result = AutoSolver().solve(Problem(sample, told.budget), SolveOptions(time_limit_s=LIMIT_S), told)
    assert not cold.running and "preparing" in told.kinds
    assert result.statistics["moves"] > 0


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
    graph, clock = training_chain(30), Clock()
    heard: list[str] = []

    def compile_for_an_hour(cancelled: Callable[[], bool], say: Callable[[str], None]) -> bool:
        say("compiling the search: 1 s")
        clock.ahead += 3600.0
        return True

    class IgnoringListener(Listener):
        def preparing(self, sentence: str) -> None:
            heard.append(sentence)

    monkeypatch.setattr(home, "time", clock)
    monkeypatch.setattr(home, "load_kernels", compile_for_an_hour)
    problem = Problem(graph, int(0.6 * peak_of(graph)))
    result = solver().solve(problem, SolveOptions(time_limit_s=60.0, moves=1000), IgnoringListener())
    assert result.schedule is not None and heard
    assert result.statistics.get("moves", 1) > 0 and result.statistics.get("plans", 1) > 0
    assert result.solve_seconds < 3600.0


@pytest.mark.parametrize("solver", [GreedySolver, LocalSearchSolver, ChainSolver])
def test_cancelled_while_compiling(solver: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = training_dag(3, 20) if solver is not ChainSolver else training_chain(20)
    told = RecordingListener(graph, peak_of(graph) - 1, stop=lambda kind: kind == "preparing")
    monkeypatch.setattr(compilation, "compile_first", lambda say, cancelled: say("compiling the search: 1 s"))
    result = solver().solve(Problem(graph, told.budget), SolveOptions(), told)
    assert result.status is SolveStatus.CANCELLED and told.kinds == ["preparing"]
