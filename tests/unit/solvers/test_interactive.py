"""Live solves: idle work fills the frontier and yields at once; nothing ever becomes worse."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random

import pytest

from checkmate.catalog.bundled import find_graph
from checkmate.formats import read_graph
from checkmate.ir import Graph, GraphBuilder, SolveStatus
from checkmate.solvers.bounds import run_once_bound
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.solvers.pathcut.in_process import ProverProcess
from checkmate.solvers.portfolio import interactive as live
from checkmate.solvers.portfolio.interactive import FrontierListener, LiveSolver
from checkmate.solvers.problem import Listener, SolveOptions
from checkmate.units import FIRST_SHARE
from tests.generated_graphs import training_dag
from tests.graphs_strategies import random_graph, training_chain
from tests.oracles import optimum
from tests.recorder import Recorder, cancelled_recorder, require_checked
from tests.unit.solvers.test_local_search import peak_of, two_that_meet

LARGE = find_graph("unet-b8.graph")
STALL_S = 40.0  # idle work of a tiny graph is done long before
QUICK = SolveOptions(time_limit_s=1.0)


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Compile before anything is timed."""
    load_kernels()


class FrontierRecorder(FrontierListener):
    """Check at once what the frontier reports: it may only improve."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.points: list[FrontierPoint] = []
        self.bounds: list[tuple[int, float]] = []
        self.baselines: list[FrontierPoint] = []

    def baseline(self, point: FrontierPoint) -> None:
        require_checked(self.graph, point)
        self.baselines.append(point)

    def point(self, point: FrontierPoint) -> None:
        require_checked(self.graph, point)
        assert not any(p.peak_bytes <= point.peak_bytes and p.cost <= point.cost for p in self.points), (
            "beaten before"
        )
        self.points.append(point)

    def bound(self, budget_bytes: int, lower_bound: float) -> None:
        assert not math.isnan(lower_bound)
        self.bounds.append((budget_bytes, lower_bound))


def opened(graph: Graph, workers: int = 1) -> LiveSolver:
    live = LiveSolver(graph, FrontierRecorder(graph), workers=workers)
    live.begin()
    return live


def recorder_of(live: LiveSolver) -> FrontierRecorder:
    recorder = live._listener
    assert isinstance(recorder, FrontierRecorder)
    return recorder


def work(live: LiveSolver, done: Callable[[], bool] = lambda: False) -> bool:
    """Work while idle until ``done``; return True if nothing remains."""
    end = time.monotonic() + STALL_S
    while time.monotonic() < end and not done():
        if not live.idle(lambda: time.monotonic() > end):
            return True
    return False


def assert_sound(live: LiveSolver) -> None:
    frontier = live.frontier
    points = frontier.points
    assert [p.peak_bytes for p in points] == sorted({p.peak_bytes for p in points})
    assert [p.cost for p in points] == sorted({p.cost for p in points}, reverse=True)
    for point in points:
        require_checked(live.graph, point)
        assert frontier.bound(point.peak_bytes) <= point.cost * (1 + 1e-9)
    budgets = range(0, peak_of(live.graph) + 2)
    costs = [math.inf if best is None else best.cost for best in map(frontier.best, budgets)]
    assert costs == sorted(costs, reverse=True)
    bounds = [frontier.bound(b) for b in budgets]
    assert bounds == sorted(bounds, reverse=True)


def test_the_first_budget_is_a_share_of_keeping_everything() -> None:
    graph = training_chain(30)
    budget = int(FIRST_SHARE * peak_of(graph))
    with LiveSolver(graph, FrontierRecorder(graph)) as solver:
        solver.begin(fill=False)
        assert solver.frontier.best(budget) is None
        assert solver.idle(lambda: False)
        assert solver.frontier.best(budget) is not None


TINY = [training_chain(3), training_dag(1, 3), training_dag(2, 3)]


@pytest.mark.parametrize("graph", TINY, ids=lambda graph: graph.name)
def test_idle_work_ends_at_the_optimum_of_tiny_graphs(graph: Graph) -> None:
    with opened(graph) as live:
        assert work(live) and not live.idle(lambda: False)
        assert_sound(live)
        # The reported points make up the frontier, and nothing else does.
        recorder = recorder_of(live)
        assert set(live.frontier.points) <= set(recorder.points)
        assert set(live.frontier.bounds) <= set(recorder.bounds)
        least, most = run_once_bound(graph).bytes, peak_of(graph)
        for budget in {least - 1, least, (least + most) // 2, most - 1, most}:
            exact, answer = optimum(graph, budget), live.frontier.answer(budget)
            assert answer.lower_bound <= (math.inf if exact is None else exact.cost * (1 + 1e-9))
            assert (answer.point is None) == (exact is None)
            if exact is not None and answer.point is not None:
                assert answer.point.cost >= exact.cost * (1 - 1e-9)
        assert live.frontier.best(most) is not None


@pytest.mark.parametrize("seed", range(4))
def test_bounds_are_never_above_the_optimum_of_graphs_with_everything(seed: int) -> None:
    graph = random_graph(Random(40 + seed), most_ops=4)
    with opened(graph) as live:
        work(live)
        assert_sound(live)
        for budget in range(0, peak_of(graph) + 2):
            exact, answer = optimum(graph, budget), live.frontier.answer(budget)
            assert answer.lower_bound <= (math.inf if exact is None else exact.cost * (1 + 1e-9))


@pytest.fixture(scope="module")
def large() -> Iterator[LiveSolver]:
    graph = read_graph(LARGE)
    assert graph.n > 250
    with opened(graph) as live:
        yield live


def test_idle_returns_once_something_else_is_to_do(large: LiveSolver) -> None:
    """Test it in the middle of greedy, of a cut, or of any first use."""
    random = Random(2)
    for _ in range(8):
        wanted, since = threading.Event(), []

        def want(wanted: threading.Event = wanted, since: list[float] = since) -> None:
            since.append(time.monotonic())
            wanted.set()

        timer = threading.Timer(random.uniform(0.0, 0.25), want)
        timer.start()
        while not wanted.is_set():
            assert large.idle(wanted.is_set)
        over = time.monotonic()
        timer.join()
        assert over - since[0] < 0.5


@pytest.mark.parametrize("workers", [1, 2])
def test_a_long_solve_in_idle_time_is_interrupted_too(workers: int) -> None:
    graph = read_graph(LARGE)
    with LiveSolver(graph, FrontierRecorder(graph), workers=workers) as live:
        live._add(range(graph.n), "keep-all", peak_of(graph))
        live._todo = iter(live._until_done(live._refine, peak_of(graph) * 2 // 3, 20.0))
        for wait in (0.02, 0.3):
            end = time.monotonic() + wait
            assert live.idle(lambda end=end: time.monotonic() > end)
            assert time.monotonic() - end < 0.5


def assert_points(live: LiveSolver) -> None:
    costs = [p.cost for p in live.frontier]
    assert costs == sorted(set(costs), reverse=True)
    assert all(live.frontier.bound(p.peak_bytes) <= p.cost * (1 + 1e-9) for p in live.frontier)


def test_a_request_for_a_large_graph_starts_from_known_schedules(large: LiveSolver) -> None:
    budget = int(0.8 * peak_of(large.graph))
    before = large.frontier.answer(budget)
    listener = Recorder()
    result = large.solve(budget, SolveOptions(time_limit_s=0.5), listener)
    if before.point is not None:
        assert (
            listener.plans[0] == before.point.schedule.steps.tolist()
            and listener.costs[0] == before.point.cost
        )
        assert result.cost is not None and result.cost <= before.point.cost
    assert result.status.has_schedule and result.peak_bytes is not None and result.peak_bytes <= budget
    assert large.frontier.best(budget).cost <= result.cost  # type: ignore[union-attr, operator]
    assert large.frontier.bound(budget) >= before.lower_bound
    assert_points(large)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_known_budget_has_an_answer_at_least_as_good(workers: int) -> None:
    graph = training_chain(10)
    budget = peak_of(graph) * 2 // 3
    with opened(graph, workers) as live:
        first = live.solve(budget, QUICK, Recorder())
        assert first.cost is not None and first.peak_bytes is not None
        for asked in (budget, budget + 1, first.peak_bytes):
            known = live.frontier.answer(asked)
            assert known.point is not None and known.point.cost <= first.cost
            listener = Recorder()
            again = live.solve(asked, QUICK, listener)
            assert (listener.costs[0], listener.plans[0]) == (
                known.point.cost,
                known.point.schedule.steps.tolist(),
            )
            assert listener.costs == sorted(listener.costs, reverse=True)
            assert listener.bounds == sorted(listener.bounds)
            assert listener.bounds[0] == known.lower_bound or known.lower_bound == graph.base_cost
            assert again.cost is not None and again.cost <= known.point.cost
            assert again.lower_bound is not None and again.lower_bound >= min(known.lower_bound, again.cost)
        assert_sound(live)


@pytest.mark.parametrize(("layers", "budget"), [(10, 73), (6, 40)])
def test_a_request_cancelled_at_once_still_has_the_known_schedule_and_proof(layers: int, budget: int) -> None:
    with opened(training_chain(layers)) as live:
        known = live.solve(budget, SolveOptions(time_limit_s=4.0), Recorder())
        assert known.status is (SolveStatus.OPTIMAL if layers < 10 else known.status)
        listener = cancelled_recorder()
        again = live.solve(budget, QUICK, listener)
        assert listener.costs[0] == again.cost == known.cost
        assert (again.status, again.lower_bound) == (known.status, known.lower_bound)
        assert_sound(live)


def test_a_budget_below_the_least_possible_is_infeasible_and_names_the_op() -> None:
    graph = training_chain(6)
    with opened(graph) as live:
        least = run_once_bound(graph)
        for budget in (0, least.bytes - 1):
            listener = Recorder()
            result = live.solve(budget, QUICK, listener)
            assert result.status is SolveStatus.INFEASIBLE and not listener.costs
            assert f"'{graph.ops[least.op].name}'" in result.message and "\n" not in result.message
            assert live.frontier.answer(budget).infeasible
        assert not live.frontier.answer(least.bytes).infeasible


def test_a_value_held_across_an_op_makes_a_budget_infeasible() -> None:
    graph = two_that_meet()
    with opened(graph) as live:
        result = live.solve(12, QUICK, Recorder())
        assert result.status is SolveStatus.INFEASIBLE
        assert "'c'" in result.message and "first" in result.message


def test_nothing_needs_any_memory() -> None:
    builder = GraphBuilder()
    value = builder.value("v", 0)
    builder.op("a", [], [value], cost=1.0)
    builder.op("b", [value], [], cost=1.0)
    with opened(builder.build()) as live:
        assert work(live)
        assert live.frontier.best(0) is not None
        assert live.frontier.bounds == () and live.frontier.infeasible_below == 0
        assert recorder_of(live).bounds == []


def test_close_leaves_no_process() -> None:
    graph = training_chain(70)
    live = LiveSolver(graph, FrontierRecorder(graph))
    prover = live._prover
    assert isinstance(prover, ProverProcess)
    prover.start()
    assert prover._talk is not None
    child = prover._talk.child
    live.close()
    assert child.poll() is not None


@pytest.fixture
def medium() -> Iterator[LiveSolver]:
    """A graph large enough for a prover's process."""
    graph = training_chain(70)
    with opened(graph) as live:
        assert isinstance(live._prover, ProverProcess)
        yield live


def kill_prover(live: LiveSolver) -> None:
    assert isinstance(live._prover, ProverProcess) and live._prover._talk is not None
    os.kill(live._prover._talk.child.pid, signal.SIGKILL)


def test_a_prover_that_is_killed_between_requests_costs_nothing(medium: LiveSolver) -> None:
    kill_prover(medium)
    end = time.monotonic() + STALL_S
    while (medium._prover._hear() or medium._prover._talk) is not None and time.monotonic() < end:  # type: ignore[attr-defined]
        time.sleep(0.002)
    result = medium.solve(peak_of(medium.graph) * 2 // 3, SolveOptions(time_limit_s=0.5), Recorder())
    assert result.status.has_schedule


def test_a_prover_that_is_killed_during_idle_work_does_not_end_it(medium: LiveSolver) -> None:
    budget = peak_of(medium.graph) * 2 // 3
    medium._todo = (None for _ in range(2) if medium._refine(budget, 3.0) is None)
    timer = threading.Timer(1.0, kill_prover, [medium])
    timer.start()
    assert medium.idle(lambda: False)
    timer.join()
    end = time.monotonic() + 0.2
    assert medium.idle(lambda: time.monotonic() > end)
    assert_points(medium)


def test_least_memory_starts_from_the_frontier_and_feeds_it() -> None:
    graph, heard = training_chain(6), Listener()
    with opened(graph) as live:
        found = live.least(0.15, SolveOptions(time_limit_s=10.0), heard)
        assert found.proved
        point = live.frontier.best(found.peak_bytes)
        assert point is not None and point.cost <= found.cost_cap * (1 + 1e-9)
        assert live.frontier.bound(found.peak_bytes - 1) >= found.cost_cap
        least = live.least(None, SolveOptions(time_limit_s=10.0), heard)
        assert least.proved and live.frontier.infeasible_below == least.peak_bytes - 1
        assert live.least(None, SolveOptions(time_limit_s=10.0), heard).probes <= 1  # to make it cheaper


def test_a_large_graph_is_solved_from_budget_to_budget_despite_interruptions(
    monkeypatch,
) -> None:
    graph = training_dag(4, 60)
    monkeypatch.setattr(live, "_LARGE", 100)
    monkeypatch.setattr(live, "_DESCENT_S", 1.0)
    monkeypatch.setattr(live, "_OPEN_S", 0.0)  # all of it is left to the idle work
    greedy, asked, looks = live.greedy_steps, [], [0]

    def noted(scaled, budget, **how):
        end = greedy(scaled, budget, **how)
        asked.append((budget, how["start"], end))
        return end

    def busy() -> bool:
        looks[0] += 1
        return looks[0] % 7 == 0  # another request comes between, again and again

    monkeypatch.setattr(live, "greedy_steps", noted)
    with opened(graph) as explored:
        end = time.monotonic() + STALL_S
        while len(explored.frontier) < 8 and time.monotonic() < end:
            explored.idle(busy)
        peaks = [point.peak_bytes for point in explored.frontier]
    assert len(peaks) >= 8 and peaks[0] < 0.7 * max(peaks)
    budgets = [budget for budget, _, _ in asked]
    coarse = budgets[: next((k + 1 for k, (a, b) in enumerate(pairwise(budgets)) if b > a), len(budgets))]
    assert len(set(coarse)) >= 8 and coarse == sorted(coarse, reverse=True)
    assert any(not end.fits for _, _, end in asked)  # it was interrupted
    for (budget, _, end), (again, start, _) in pairwise(asked):
        if not end.fits and again == budget:  # it goes on where it was
            assert start.tolist() == end.steps.tolist()
    first = next(k for k, (_, _, end) in enumerate(asked) if end.fits)
    assert all(start is not None for _, start, _ in asked[first + 1 :])  # never from the plain step again
