"""Test the search of counted moves: the same question has the same answer."""

from __future__ import annotations

import threading

import pytest

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveStatus
from checkmate.planning import keep_everything_peak, solve
from checkmate.planning.deterministic_solve import solve_counted
from checkmate.solvers.problem import Listener, SolveOptions
from tests.graphs_strategies import training_chain

OPTIONS = SolveOptions(time_limit_s=1.0)


def steps_of(graph: Graph, budget: int) -> list[int]:
    found = solve_counted(graph, budget, options=OPTIONS, listener=Listener())
    assert found.peak_bytes is not None and found.peak_bytes <= budget
    return [int(step) for step in found.require_schedule().steps]


@pytest.mark.parametrize("share", [0.75, 0.55])
def test_a_busy_machine_gives_the_same_schedule(share: float) -> None:
    graph = training_chain(60)
    budget = int(share * keep_everything_peak(graph))
    quiet = steps_of(graph, budget)
    stop = threading.Event()

    def be_busy() -> None:
        while not stop.is_set():
            sum(number * number for number in range(1000))

    others = [threading.Thread(target=be_busy, daemon=True) for _ in range(3)]
    for other in others:
        other.start()
    try:
        assert steps_of(graph, budget) == quiet
    finally:
        stop.set()
        for other in others:
            other.join()
    # It is about as good as what the clock's search finds.
    by_clock = solve(graph, budget, options=OPTIONS).cost
    own = sum(graph.ops[step].cost for step in quiet)
    assert by_clock is not None and own <= 1.02 * by_clock


def test_what_is_impossible_is_proved(chain: Graph) -> None:
    found = solve_counted(chain, 35, options=OPTIONS, listener=Listener())
    assert found.status is SolveStatus.INFEASIBLE and not found.assumptions


def test_where_the_search_finds_nothing_the_default_solver_is_asked(chain: Graph) -> None:
    """Check the least budget of all: one byte less is proved impossible."""
    least = next(
        budget
        for budget in range(36, 90)
        if solve_counted(chain, budget, options=OPTIONS, listener=Listener()).schedule is not None
    )
    assert least == 40
