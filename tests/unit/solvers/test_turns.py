"""Test the second search: real schedules, stops, nothing left behind."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest

from checkmate.errors import SolverCrashedError
from checkmate.ir import Graph
from checkmate.memory.check import check
from checkmate.progress import Cancelled
from checkmate.solvers.portfolio.auto import AutoSolver
from checkmate.solvers.portfolio.turns import SecondCore, SecondSearch
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.solvers.sequence.kernel_arrays import build_model
from checkmate.solvers.sequence.local_search import SequenceSearch
from checkmate.solvers.sequence.restarts import CostedSteps
from tests.generated_graphs import random_layered
from tests.recorder import Recorder
from tests.unit.solvers.test_local_search import peak_of

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


FAR, COST = 100.0, 110.0  # a bound that lacks more than a hundredth of the cost


def turns(bounds: list[float | None], cost: float = COST) -> list[bool]:
    """Who has the core (True: the search), asked ten times a second, with one bound each."""
    core = SecondCore(begun=0.0)
    held = []
    for nth, bound in enumerate(bounds):
        before = core.searches
        assert core.changes(bound, cost, now=0.1 * nth) == (core.searches != before)
        held.append(core.searches)
    return held


def test_a_prover_that_has_no_bound_yet_is_left_alone() -> None:
    assert not any(turns([None] * 200))
    assert not any(turns([FAR] * 200, cost=math.inf))


def test_a_rising_bound_keeps_the_core_and_a_standing_one_gives_it_away() -> None:
    assert not any(turns([FAR + 0.05 * nth for nth in range(150)]))
    assert any(turns([FAR + 0.0001 * nth for nth in range(50)]))


def test_a_bound_that_is_near_keeps_the_core() -> None:
    assert not any(turns([COST * 0.995] * 200))


def test_the_prover_gets_it_back_after_twice_its_own_turn() -> None:
    held = turns([FAR] * 200)
    first = held.index(True)
    back = held.index(False, first)
    assert 15 <= first <= 17  # one and a half seconds of quiet
    assert abs((back - first) - 2 * first) <= 1
    again = held.index(True, back)
    assert 59 <= again - back <= 62  # four times as long: a program takes its time


def test_a_turn_that_raised_the_bound_comes_back_after_its_own_length() -> None:
    held = turns([FAR] + [FAR + 1.0] * 100)
    first = held.index(True)
    back = held.index(False, first)
    assert 16 <= first <= 18
    assert abs((back - first) - first) <= 1
