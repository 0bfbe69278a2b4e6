"""Test that the least memory known is lowered by solving for less."""

from __future__ import annotations

from checkmate.graphs.layers import training_chain
from checkmate.ir.schedule import Schedule
from checkmate.memory.compiling import lowered
from checkmate.memory.simulate import simulate
from checkmate.planning.deterministic_solve import solve_counted
from checkmate.planning.solving import known_minimum
from checkmate.solvers.bounds import run_once_bound
from checkmate.solvers.problem import Listener, SolveOptions


def test_solving_lowers_what_a_heuristic_found() -> None:
    graph = training_chain(12)
    plain, bound = Schedule.plain(graph), run_once_bound(graph).bytes
    asked: list[int] = []

    def solve(budget: int) -> Schedule | None:
        asked.append(budget)
        options = SolveOptions(time_limit_s=5)
        return solve_counted(graph, budget, options=options, listener=Listener()).schedule

    found = simulate(graph, lowered(graph, plain, bound, solve)).peak_bytes
    assert 1 <= len(asked) <= 5 and all(bound <= each < simulate(graph, plain).peak_bytes for each in asked)
    assert found < 0.8 * simulate(graph, plain).peak_bytes
    least = known_minimum(graph)
    assert simulate(graph, lowered(graph, least.schedule, least.bound.bytes, solve)).peak_bytes <= least.bytes


def test_what_cannot_be_lowered_stays() -> None:
    graph = training_chain(6)
    plain, asked = Schedule.plain(graph), list[int]()

    def nothing(budget: int) -> Schedule | None:
        asked.append(budget)
        return None

    assert lowered(graph, plain, run_once_bound(graph).bytes, nothing) is plain
    assert asked == sorted(set(asked))  # each is for more than the one before, in which there was none
    peak = simulate(graph, plain).peak_bytes
    assert lowered(graph, plain, peak, nothing) is plain and len(asked) <= 5
