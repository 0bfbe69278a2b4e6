"""The frontier only improves, and answers as if it looked at everything that it was given."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkmate.errors import ScheduleError
from checkmate.ir import Graph, GraphBuilder, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.solvers.known_frontier import Frontier
from tests.generated_graphs import training_dag
from tests.graphs_strategies import random_graph, random_steps, training_chain
from tests.recorder import require_checked

seeds = st.integers(0, 2**32)


def some_graph(random: Random) -> Graph:
    match random.randrange(3):
        case 0:
            return random_graph(random)
        case 1:
            return training_chain(random.randint(2, 7))
    return training_dag(random.randrange(99), random.randint(2, 6))


def recomputing_steps(random: Random, graph: Graph) -> list[int]:
    """Before some ops, some of what they read is made again, so that it need not be held."""
    share, steps = random.random(), []
    for op in range(graph.n):
        steps += [int(p) for p in graph.predecessors[op] if random.random() < share and graph.recomputable[p]]
        steps.append(op)
    return steps


def some_steps(random: Random, graph: Graph) -> list[int]:
    return random.choice((recomputing_steps, recomputing_steps, random_steps))(random, graph)


def plain_result(graph: Graph, budget: int, **given: object) -> SolveResult:
    report = check(graph, range(graph.n))
    facts: dict[str, object] = {
        "status": SolveStatus.FEASIBLE,
        "solver": "test",
        "budget_bytes": budget,
        "base_cost": graph.base_cost,
        "schedule": Schedule.plain(graph),
        "cost": report.cost,
        "peak_bytes": report.peak_bytes,
        **given,
    }
    return SolveResult(**facts)  # type: ignore[arg-type]


def require_order(frontier: Frontier) -> None:
    """Points strictly rise in peak and fall in cost; bounds strictly rise in budget and fall."""
    peaks, costs = [p.peak_bytes for p in frontier], [p.cost for p in frontier]
    assert peaks == sorted(set(peaks)) and costs == sorted(set(costs), reverse=True)
    budgets, lows = [b for b, _ in frontier.bounds], [low for _, low in frontier.bounds]
    assert budgets == sorted(set(budgets)) and lows == sorted(set(lows), reverse=True)
    for point in frontier:
        require_checked(frontier.graph, point)


def cheapest(schedules: Sequence[tuple[int, float]], budget: int) -> float:
    return min((cost for peak, cost in schedules if peak <= budget), default=math.inf)


def cost_at(frontier: Frontier, budget: int) -> float:
    best = frontier.best(budget)
    return math.inf if best is None else best.cost


@settings(max_examples=90, deadline=None)
@given(seed=seeds)
def test_schedules_in_any_order_answer_like_brute_force_and_never_get_worse(seed: int) -> None:
    random = Random(seed)
    graph = some_graph(random)
    frontier, taken = Frontier(graph), list[tuple[int, float]]()
    highest = check(graph, range(graph.n)).peak_bytes + 3
    budgets = sorted({0, highest, *(random.randint(0, highest) for _ in range(12))})
    before = [math.inf] * len(budgets)
    for _ in range(random.randint(1, 14)):
        steps = some_steps(random, graph)
        budget = random.choice([None, None, *budgets])
        report = check(graph, steps, budget_bytes=budget)
        known = frontier.points
        if not report.ok:
            with pytest.raises(ScheduleError, match=r"the schedule does not hold: .+"):
                frontier.add(steps, solver="test", budget_bytes=budget)
            assert frontier.points == known
            continue
        beaten = any(peak <= report.peak_bytes and cost <= report.cost for peak, cost in taken)
        point = frontier.add(steps, solver="test", budget_bytes=budget, seconds=1.5)
        assert (point is None) == beaten
        if point is None:
            assert frontier.points == known
        else:
            assert point in frontier.points and (point.solver, point.seconds) == ("test", 1.5)
            assert point.schedule.steps.tolist() == steps
            assert point.budget_bytes == (report.peak_bytes if budget is None else budget)
        taken.append((report.peak_bytes, report.cost))
        require_order(frontier)
        now = [cost_at(frontier, b) for b in budgets]
        assert now == [cheapest(taken, b) for b in budgets]
        assert all(new <= old for new, old in zip(now, before, strict=True))
        assert now == sorted(now, reverse=True)  # what fits a small budget answers a larger one
        before = now


@settings(max_examples=100, deadline=None)
@given(
    given_bounds=st.lists(
        st.tuples(
            st.integers(0, 40), st.one_of(st.floats(0, 60), st.integers(0, 12).map(float), st.just(math.inf))
        )
    )
)
def test_bounds_hold_for_smaller_budgets_and_never_for_larger(given_bounds: list[tuple[int, float]]) -> None:
    frontier = Frontier(training_chain(3))
    base = frontier.graph.base_cost
    before = [base] * 44
    for i, (budget, low) in enumerate(given_bounds):
        new = frontier.add_bound(budget, low)
        assert new == (low > before[budget])
        require_order(frontier)
        now = [frontier.bound(b) for b in range(44)]
        assert now == [max([base, *(low for at, low in given_bounds[: i + 1] if at >= b)]) for b in range(44)]
        assert all(b >= a for a, b in zip(before, now, strict=True))
        assert [frontier.answer(b).infeasible for b in range(44)] == [math.isinf(low) for low in now]
        assert frontier.infeasible_below == max(
            (at for at, low in given_bounds[: i + 1] if math.isinf(low)), default=0
        )
        before = now


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_the_order_of_adding_does_not_matter(seed: int) -> None:
    random = Random(seed)
    graph = some_graph(random)
    plans = [steps for steps in (some_steps(random, graph) for _ in range(10)) if check(graph, steps).ok]
    bounds = [(random.randint(0, 30), random.choice([math.inf, random.uniform(0, 60)])) for _ in range(5)]
    made = []
    for _ in range(3):
        random.shuffle(plans)
        random.shuffle(bounds)
        frontier = Frontier(graph)
        for steps in plans:
            frontier.add(steps, solver="test")
        for bound in bounds:
            frontier.add_bound(*bound)
        made.append(([(p.peak_bytes, p.cost) for p in frontier], frontier.bounds))
    assert made[0] == made[1] == made[2]


def test_an_empty_frontier_answers_with_the_cost_of_computing_everything_once(chain: Graph) -> None:
    answer = Frontier(chain).answer(50)
    assert (answer.budget_bytes, answer.point, answer.lower_bound) == (50, None, chain.base_cost)
    assert answer.gap is None and not answer.infeasible
    assert Frontier(chain).infeasible_below == 0 and len(Frontier(chain)) == 0


def test_an_answer_says_how_far_cost_and_bound_are_apart(chain: Graph) -> None:
    frontier = Frontier(chain)
    steps = [*range(chain.n)]
    steps.insert(8, 7)  # one op again: 17 instead of 16
    frontier.add(steps, solver="test")
    assert frontier.answer(90).gap == pytest.approx(1 / 17)
    frontier.add_bound(90, 17.0)
    assert frontier.answer(90).gap == 0
    assert frontier.answer(91).gap == pytest.approx(1 / 17)


@pytest.mark.parametrize(
    ("steps", "budget", "says"),
    [
        ([], None, "never runs"),
        ([0, 1, 2], None, "never runs"),
        ([*range(15), 99], None, "names op 99"),
        ([*range(15), -1], None, "names op -1"),
        ([1, 0, *range(2, 16)], None, "without being produced"),
        ([*range(16)], 89, "its peak is 90 bytes"),
        ([*range(16)], 0, "its peak is 90 bytes"),
    ],
)
def test_invalid_schedules_and_those_that_do_not_fit_are_refused(
    chain: Graph, steps: list[int], budget: int | None, says: str
) -> None:
    frontier = Frontier(chain)
    with pytest.raises(ScheduleError, match=says) as caught:
        frontier.add(steps, solver="test", budget_bytes=budget)
    assert "\n" not in str(caught.value)
    assert len(frontier) == 0


def test_a_schedule_of_another_graph_is_refused(chain: Graph) -> None:
    other = training_chain(5)
    with pytest.raises(ScheduleError, match="op 10 'b5' never runs"):
        Frontier(chain).add_result(plain_result(other, 90))
    with pytest.raises(ScheduleError, match="names op 10; there are 10"):
        Frontier(other).add_result(plain_result(chain, 90))


def test_a_result_brings_its_schedule_and_its_bound(chain: Graph) -> None:
    frontier = Frontier(chain)
    point = frontier.add_result(plain_result(chain, 120, lower_bound=20.0, solve_seconds=2.5))
    assert point is not None and frontier.points == (point,)
    assert (point.peak_bytes, point.budget_bytes, point.solver, point.seconds) == (90, 120, "test", 2.5)
    assert frontier.bounds == ()  # the schedule itself shows that nothing has to cost 20
    assert frontier.add_result(plain_result(chain, 120, lower_bound=20.0)) is None


def test_results_under_assumptions_bring_schedules_but_no_bounds(chain: Graph) -> None:
    frontier = Frontier(chain)
    given_order = {"assumptions": ("given order",)}
    assert frontier.add_result(plain_result(chain, 90, lower_bound=99.0, **given_order)) is not None
    none = SolveResult(SolveStatus.INFEASIBLE, "test", 80, chain.base_cost, assumptions=("given order",))
    limit = SolveResult(
        SolveStatus.LIMIT, "test", 80, chain.base_cost, lower_bound=50.0, assumptions=("given order",)
    )
    assert frontier.add_result(none) is None and frontier.add_result(limit) is None
    assert frontier.bounds == () and frontier.bound(10) == chain.base_cost


def test_results_without_a_schedule_bring_bounds(chain: Graph) -> None:
    frontier = Frontier(chain)
    frontier.add_result(SolveResult(SolveStatus.INFEASIBLE, "test", 30, chain.base_cost))
    frontier.add_result(SolveResult(SolveStatus.LIMIT, "test", 50, chain.base_cost, lower_bound=20.0))
    frontier.add_result(SolveResult(SolveStatus.CANCELLED, "test", 70, chain.base_cost, lower_bound=None))
    assert frontier.bounds == ((30, math.inf), (50, 20.0))
    assert frontier.infeasible_below == 30
    bounds = [frontier.bound(budget) for budget in (29, 30, 31, 50, 51)]
    assert bounds == [math.inf, math.inf, 20.0, 20.0, chain.base_cost]


def test_a_value_that_is_not_a_number_is_no_bound(chain: Graph) -> None:
    frontier = Frontier(chain)
    assert not frontier.add_bound(50, math.nan)
    assert frontier.bounds == () and frontier.bound(50) == chain.base_cost


def test_a_graph_whose_ops_cost_nothing() -> None:
    graph = training_chain(4, cost=0.0)
    frontier = Frontier(graph)
    assert frontier.add(range(graph.n), solver="test") is not None
    assert frontier.add([*range(graph.n)], solver="again") is None
    assert frontier.answer(90).gap == 0.0


def test_costs_that_differ_by_rounding_only_are_one_cost() -> None:
    """The same ops in another order are not new, though their sum of costs rounds differently."""
    builder = GraphBuilder()
    for i, cost in enumerate((0.1, 0.2, 0.3, 0.7, 1.1)):
        builder.op(f"op{i}", (), (builder.value(f"v{i}", 5 - i),), cost=cost)
    graph = builder.build()
    plans = [list(plan) for plan in itertools.permutations(range(graph.n))]
    if sys.version_info < (3, 12):  # later versions sum without such rounding
        assert len({check(graph, plan).cost for plan in plans}) > 1
    for plan in plans:
        frontier = Frontier(graph)
        for other in (plan, *plans[::20]):
            frontier.add(other, solver="test")
            require_order(frontier)
        assert len(frontier) == 1


def test_a_replayed_schedule_overrides_a_bound_that_contradicts_it() -> None:
    graph = training_chain(6)
    frontier = Frontier(graph)
    peak = simulate(graph, Schedule.plain(graph)).peak_bytes
    assert frontier.add_bound(peak, 2 * graph.base_cost)
    assert frontier.add(list(range(graph.n)), solver="plain") is not None
    assert frontier.bound(peak) == graph.base_cost
    assert not frontier.add_bound(peak, 2 * graph.base_cost)
    assert not frontier.add_bound(peak, math.inf)
    assert frontier.add_bound(peak - 1, math.inf) and frontier.infeasible_below == peak - 1
