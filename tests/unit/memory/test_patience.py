"""Test that solves which find nothing leave less time to the next ones."""

from __future__ import annotations

import pytest

from checkmate.graphs.layers import training_chain
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.compiling import Patience
from checkmate.memory.simulate import simulate
from checkmate.planning.deterministic_solve import solve_counted
from checkmate.solvers.problem import Listener, SolveOptions


def _ended(status: SolveStatus) -> SolveResult:
    return SolveResult(status=status, solver="auto", budget_bytes=1, base_cost=1.0)


def test_each_solve_that_finds_nothing_halves_the_next_one_s_time() -> None:
    patience, taken = Patience(), 0.0
    for _ in range(11):
        taken += 20.0 * patience.share
        patience.note(_ended(SolveStatus.LIMIT))
    assert taken < 3 * 20.0
    assert 20.0 * patience.share == 1.25  # enough for what is found quickly


@pytest.mark.parametrize("status", [SolveStatus.INFEASIBLE, SolveStatus.CANCELLED])
def test_a_proof_leaves_the_time_as_it_is(status: SolveStatus) -> None:
    patience = Patience()
    patience.note(_ended(status))
    assert patience.share == 1.0


def test_a_schedule_leaves_the_time_as_it_is() -> None:
    graph, patience = training_chain(6), Patience()
    peak = simulate(graph, Schedule.plain(graph)).peak_bytes
    options = SolveOptions(time_limit_s=5)
    patience.note(solve_counted(graph, peak, options=options, listener=Listener()))
    assert patience.share == 1.0
