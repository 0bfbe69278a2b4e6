"""Test which solver makes the schedules that XLA compiles."""

from __future__ import annotations

from itertools import pairwise

import pytest

pytest.importorskip("jax")

from checkmate.ir.graph import Graph
from checkmate.jax.solve import solve_for_xla
from checkmate.memory.check import check
from checkmate.pipeline.counted import solve_counted
from checkmate.solvers.listeners import SilentListener
from checkmate.solvers.problem import SolveOptions
from tests.graphs_strategies import training_chain

QUICK = SolveOptions(time_limit_s=1)


def runs(steps: list[int]) -> int:
    """Count how often recomputations begin after a step that is none."""
    again = [step in steps[:place] for place, step in enumerate(steps)]
    return sum(later and not earlier for earlier, later in pairwise(again))


@pytest.fixture(scope="module")
def long_chain() -> Graph:
    return training_chain(24)


@pytest.mark.parametrize("budget", [120, 160, 200])
def test_on_a_gpu_whole_segments_are_recomputed_where_that_costs_as_little(
    long_chain: Graph, budget: int
) -> None:
    general = solve_counted(long_chain, budget, options=QUICK, listener=SilentListener())
    found = solve_for_xla(long_chain, budget, platform="gpu", solver="auto", options=QUICK)
    assert general.cost is not None and found.cost is not None
    assert found.cost <= 1.01 * general.cost
    assert found.lower_bound == general.lower_bound
    schedule = found.require_schedule()
    assert check(long_chain, schedule.steps.tolist()).peak_bytes <= budget
    if found.solver == "chain":
        assert runs(schedule.steps.tolist()) <= runs(general.require_schedule().steps.tolist())


def test_a_chain_is_recomputed_by_segments(long_chain: Graph) -> None:
    found = solve_for_xla(long_chain, 160, platform="gpu", solver="auto", options=QUICK)
    assert found.solver == "chain"


def test_elsewhere_and_where_one_is_asked_for_it_is_the_solver_itself(long_chain: Graph) -> None:
    here = solve_for_xla(long_chain, 160, platform="cpu", solver="auto", options=QUICK)
    assert here.solver == "local-search"
    asked = solve_for_xla(long_chain, 160, platform="gpu", solver="greedy", options=QUICK)
    assert asked.solver == "greedy"


def test_what_recomputes_nothing_needs_no_other_solver(long_chain: Graph) -> None:
    found = solve_for_xla(long_chain, 10_000, platform="gpu", solver="auto", options=QUICK)
    assert found.solver == "local-search" and not found.require_schedule().recomputations
