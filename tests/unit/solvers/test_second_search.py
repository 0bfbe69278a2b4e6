"""Test the second search: real schedules, stops, nothing left behind."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from checkmate.errors import SolverCrashedError
from checkmate.ir.graph import Graph
from checkmate.memory.check import check
from checkmate.progress import Cancelled
from checkmate.solvers.portfolio.auto import AutoSolver
from checkmate.solvers.portfolio.turns import SecondSearch
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.solvers.sequence.kernel_arrays import build_model
from checkmate.solvers.sequence.local_search import SequenceSearch
from checkmate.solvers.sequence.restarts import CostedSteps
from tests.generated_graphs import random_layered
from tests.unit.solvers.test_local_search import Recorder, peak_of

STALL_S = 20.0


def graph_and_budget(share: float = 0.8) -> tuple[Graph, int]:
    graph = random_layered(4, 150)
    return graph, int(share * peak_of(graph))


def searching(graph: Graph, budget: int) -> SecondSearch:
    start = np.arange(graph.n, dtype=np.int32)

    class Owner:
        def begin_second(self, cancelled: Cancelled) -> SequenceSearch:
            return SequenceSearch(graph, build_model(graph), budget, start, seed=5)

    return SecondSearch(Owner())


def wait_for_news(second: SecondSearch) -> CostedSteps:
    until = time.monotonic() + STALL_S
    while not second.has_news():
        assert time.monotonic() < until, "no news came in time"
        time.sleep(0.005)
    found = second.take()
    assert found is not None
    return found


def test_finds_valid_schedules_and_continues_where_it_stopped() -> None:
    graph, budget = graph_and_budget()
    second = searching(graph, budget)
    second.start()
    found = wait_for_news(second)
    report = check(graph, found.steps.tolist(), budget_bytes=budget)
    assert report.ok
    assert report.cost == pytest.approx(found.cost)
    second.stop()
    made = second.moves
    assert made > 0
    time.sleep(0.05)
    assert second.moves == made  # stopped
    second.start()
    until = time.monotonic() + STALL_S
    while second.moves <= made:
        assert time.monotonic() < until
        time.sleep(0.005)
    second.stop()


def test_its_error_is_raised_to_the_caller_of_take() -> None:
    class Broken:
        def begin_second(self, cancelled: Cancelled) -> SequenceSearch:
            raise SolverCrashedError("counted wrongly")

    second = SecondSearch(Broken())
    second.start()
    second.stop()
    assert second.has_news()
    with pytest.raises(SolverCrashedError, match="counted wrongly"):
        second.take()
    assert second.take() is None


@pytest.mark.parametrize("workers", [2, 3])
def test_auto_leaves_no_search_behind(workers: int) -> None:
    graph, budget = graph_and_budget(0.7)
    recorder = Recorder(graph, budget)
    result = AutoSolver().solve(
        Problem(graph, budget), SolveOptions(time_limit_s=1.0, workers=workers), recorder
    )
    assert result.schedule is not None
    assert check(graph, result.schedule.steps.tolist(), budget_bytes=budget).ok
    assert result.cost == pytest.approx(min(recorder.costs))
    assert not [thread for thread in threading.enumerate() if thread.name == "second search"]
