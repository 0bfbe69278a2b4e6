"""Test the solver of one plan: counted moves, and a preference for whole segments."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from checkmate.errors import BudgetBelowMinimumError
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.planning import keep_everything_peak, known_minimum, solve
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.solvers.baselines import whole_segments
from checkmate.solvers.constraints import Constraints
from checkmate.solvers.problem import SolveOptions
from tests.generated_graphs import random_layered
from tests.graphs_strategies import random_graph, training_chain

QUICK = SolveOptions(time_limit_s=1)
SOLVER = ScheduleSolver("auto", QUICK, counted=True)
BUDGETS = (120, 160, 200)


@pytest.fixture(scope="module")
def long_chain() -> Graph:
    return training_chain(24)


def general(graph: Graph, budget: int) -> SolveResult:
    return SOLVER.solve(graph, budget)


def runs(result: SolveResult) -> int:
    """Count how often recomputations begin after a step that is none."""
    steps = result.require_schedule().steps.tolist()
    again = [step in steps[:place] for place, step in enumerate(steps)]
    return sum(later and not earlier for earlier, later in pairwise(again))


@pytest.mark.parametrize("budget", BUDGETS)
def test_it_costs_hardly_more_and_keeps_the_budget_and_the_bound(long_chain: Graph, budget: int) -> None:
    before = general(long_chain, budget)
    found = SOLVER.in_segments(long_chain, before)
    assert before.cost is not None and found.cost is not None
    assert found.cost <= 1.02 * before.cost
    assert (found.lower_bound, found.assumptions) == (before.lower_bound, before.assumptions)
    assert check(long_chain, found.require_schedule().steps.tolist()).peak_bytes <= budget


def test_a_bound_under_other_assumptions_is_not_taken_over(long_chain: Graph) -> None:
    before = general(long_chain, 160)
    assert before.cost is not None
    ordered = replace(before, assumptions=("given order",), lower_bound=before.cost)
    found = SOLVER.in_segments(long_chain, ordered)
    assert found.solver == "chain" and found.assumptions == ()
    assert found.lower_bound == long_chain.base_cost


def test_a_chain_is_recomputed_in_fewer_runs(long_chain: Graph) -> None:
    before = [general(long_chain, budget) for budget in BUDGETS]
    found = [SOLVER.in_segments(long_chain, each) for each in before]
    assert "chain" in {each.solver for each in found}
    assert sum(map(runs, found)) <= sum(map(runs, before))


def test_constraints_are_kept(long_chain: Graph) -> None:
    op = long_chain.ops[3].name
    kept = Constraints(never_recompute=(op,))
    before = solve(long_chain, 220, solver="local-search", options=QUICK, constraints=kept)
    found = replace(SOLVER, constraints=kept).in_segments(long_chain, before)
    assert found.require_schedule().recomputations
    assert found.require_schedule().steps.tolist().count(3) == 1


def test_what_recomputes_nothing_or_has_no_schedule_stays(long_chain: Graph) -> None:
    plain = general(long_chain, 10_000)
    assert SOLVER.in_segments(long_chain, plain) is plain
    none = solve(long_chain, 1, options=QUICK)
    assert none.status is SolveStatus.INFEASIBLE and SOLVER.in_segments(long_chain, none) is none


def test_whole_segments_are_recomputed_at_once_within_the_budget(long_chain: Graph) -> None:
    budget = 200
    found = whole_segments(long_chain, budget)
    assert found
    costs = [each.cost or 0.0 for each in found]
    assert costs == sorted(costs) and all(cost > long_chain.base_cost for cost in costs)
    for each in found:
        assert check(long_chain, each.require_schedule().steps.tolist()).peak_bytes <= budget
    assert whole_segments(long_chain, 1) == []


@pytest.mark.parametrize("seed", range(60))
def test_any_graph_is_left_valid(seed: int) -> None:
    graph = random_graph(Random(seed), most_ops=12)
    most = keep_everything_peak(graph)
    for budget in (most, (most + known_minimum(graph).bytes) // 2):
        for each in whole_segments(graph, budget):
            report = check(graph, each.require_schedule().steps.tolist(), budget_bytes=budget)
            assert report.ok and report.cost == pytest.approx(each.cost)


def steps_of(graph: Graph, budget: int) -> list[int]:
    found = general(graph, budget)
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
    by_clock = solve(graph, budget, options=QUICK).cost
    own = sum(graph.ops[step].cost for step in quiet)
    assert by_clock is not None and own <= 1.02 * by_clock


def test_what_is_impossible_is_proved(chain: Graph) -> None:
    found = general(chain, 35)
    assert found.status is SolveStatus.INFEASIBLE and not found.assumptions


def test_where_the_search_finds_nothing_the_default_solver_is_asked(chain: Graph) -> None:
    """Check the least budget of all: one byte less is proved impossible."""
    least = next(budget for budget in range(36, 90) if general(chain, budget).schedule is not None)
    assert least == 40


@pytest.mark.parametrize(
    ("name", "options", "counted", "taken"),
    [
        ("auto", QUICK, True, "local-search"),
        ("auto", replace(QUICK, moves=100), True, "auto"),  # moves that a user gave are taken
        ("auto", QUICK, False, "auto"),
        ("greedy", QUICK, True, "greedy"),
    ],
)
def test_only_the_default_solver_counts_moves_or_prefers_segments(
    long_chain: Graph, name: str, options: SolveOptions, counted: bool, taken: str
) -> None:
    solver, asked = ScheduleSolver(name, options, counted=counted), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "checkmate.planning.schedule_solver.solve",
            lambda *given, solver, **rest: (asked.append(solver), solve(*given, solver=solver, **rest))[1],
        )
        found = solver.solve(long_chain, 160)
        assert asked == [taken]
        segments = solver.in_segments(long_chain, found)
    assert (segments is found) is (name != "auto")
    assert bool(solver.whole_segments(long_chain, 160)) is (name == "auto")
    constrained = replace(solver, constraints=Constraints(never_recompute=(long_chain.ops[3].name,)))
    assert not constrained.whole_segments(long_chain, 160)


def test_a_solve_ends_at_the_shorter_of_two_limits_and_keeps_its_start(long_chain: Graph) -> None:
    seen: list[SolveOptions] = []

    def note(graph: Graph, budget: int, *, options: SolveOptions, **_: object) -> SolveResult:
        seen.append(options)
        return solve(graph, keep_everything_peak(graph), solver="keep-all")

    start = Schedule.plain(long_chain)
    solver = ScheduleSolver("greedy", SolveOptions(time_limit_s=5, start=start), counted=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("checkmate.planning.schedule_solver.solve", note)
        for seconds in (None, 2.0, 9.0):
            solver.solve(long_chain, 200, seconds=seconds)
        other = Schedule.of(long_chain, [0, *range(long_chain.n)])
        solver.solve(long_chain, 200, start=other)
    assert [each.time_limit_s for each in seen] == [5, 2.0, 5, 5]
    assert [each.start for each in seen] == [start, start, start, other]


def test_no_less_than_one_op_needs_is_solved_for(chain: Graph) -> None:
    solver = ScheduleSolver("greedy", QUICK)
    with pytest.raises(BudgetBelowMinimumError):
        solver.solve_above_minimum(chain, 1)
    assert solver.solve(chain, 1).status is SolveStatus.INFEASIBLE


def test_the_least_memory_is_known_without_time_to_solve() -> None:
    """Check that a busy machine does not take the plain order for it."""
    graph = random_layered(3, 60)
    solver = ScheduleSolver("greedy", SolveOptions(time_limit_s=1e-6), counted=True)
    peak = simulate(graph, solver.minimum(graph).schedule).peak_bytes
    assert peak == known_minimum(graph).bytes < keep_everything_peak(graph)
    assert solver.bound_bytes(graph) <= peak
