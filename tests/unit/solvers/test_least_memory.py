"""The least memory within a cost against exact search over all orders."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from random import Random

import pytest

from checkmate import planning
from checkmate.errors import UsageError
from checkmate.ir import Graph, Schedule, SolveStatus
from checkmate.memory.check import check
from checkmate.solvers.constraints import Constraints
from checkmate.solvers.known_frontier import Frontier
from checkmate.solvers.portfolio.least_memory import LeastMemory, least_memory
from checkmate.solvers.problem import Listener, SolveOptions
from tests.generated_graphs import random_layered, training_dag
from tests.graphs_strategies import random_constraints, random_graph, tiny_graphs, training_chain
from tests.oracles import least_budget
from tests.recorder import Recorder, cancelled_recorder

BRIEF = SolveOptions(time_limit_s=0.4)


def sound(graph: Graph, found: LeastMemory, truth: int) -> bool:
    """Assert that exact search contradicts nothing. Return whether the memory is minimal."""
    assert found.lower_bound_bytes <= truth <= found.peak_bytes
    assert found.proved == (found.lower_bound_bytes == found.peak_bytes)
    report = check(graph, found.schedule.steps.tolist(), budget_bytes=found.peak_bytes)
    assert report.ok and report.peak_bytes == found.peak_bytes
    assert report.cost <= found.cost_cap * (1 + 1e-9)
    assert found.result.lower_bound is not None and found.result.lower_bound <= report.cost
    return found.peak_bytes == truth


def test_held_against_exact_search() -> None:
    minima, proofs, asked = 0, 0, 0
    for graph in tiny_graphs(3):
        for overhead in (None, 0.0, 0.3):
            truth = least_budget(
                graph, cost_cap=math.inf if overhead is None else graph.base_cost * (1 + overhead)
            )
            found = planning.least_memory(graph, max_overhead=overhead, options=BRIEF)
            minima += sound(graph, found, truth)
            proofs += found.proved
            asked += 1
            assert found.assumptions == ()
    assert minima >= 0.9 * asked and proofs >= 0.8 * asked


def test_with_constraints_held_against_exact_search() -> None:
    proofs = 0
    for seed, graph in enumerate(tiny_graphs(3)):
        constraints, once = random_constraints(Random(seed), graph)
        heard = Recorder()
        found = planning.least_memory(
            graph, max_overhead=0.5, options=BRIEF, constraints=constraints, listener=heard
        )
        sound(graph, found, least_budget(graph, once=once, cost_cap=1.5 * graph.base_cost))
        proofs += found.proved
        assert found.assumptions == constraints.assumptions
        assert heard.assumptions == {constraints.assumptions}
        assert found.schedule.graph_fingerprint == graph.fingerprint
    assert proofs >= 8


@pytest.mark.no_cover  # its lines are those of the test with few graphs
@pytest.mark.parametrize(
    "seeds",
    [pytest.param(24, marks=pytest.mark.heavy), pytest.param(60, marks=pytest.mark.long)],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_held_against_exact_search_on_more_graphs(workers: int, seeds: int) -> None:
    for seed in range(1000, 1000 + seeds):
        random = Random(seed)
        graph = training_dag(seed, 3) if seed % 3 else random_graph(random, most_ops=4)
        constraints, once = random_constraints(random, graph)
        overhead = random.choice([0.0, 0.1, 0.25, 0.5, 1.0])
        truth = least_budget(graph, once=once, cost_cap=graph.base_cost * (1 + overhead))
        options = replace(BRIEF, workers=workers)
        sound(
            graph,
            planning.least_memory(graph, max_overhead=overhead, options=options, constraints=constraints),
            truth,
        )


def test_a_chain_with_more_and_more_to_spend() -> None:
    graph = training_chain(8)
    peaks = []
    for overhead in (0.0, 0.1, 0.3, None):
        found = planning.least_memory(graph, max_overhead=overhead, options=replace(BRIEF, time_limit_s=30.0))
        assert found.proved
        peaks.append(found.peak_bytes)
    assert peaks == sorted(peaks, reverse=True) and (peaks[0], peaks[-1]) == (90, 40)
    assert found.max_overhead is None and math.isinf(found.cost_cap)
    assert planning.least_memory(graph, max_overhead=math.inf, options=BRIEF).max_overhead is None


def test_reported_schedules_only_improve() -> None:
    heard = Recorder()
    graph = training_chain(8)
    found = planning.least_memory(graph, max_overhead=0.3, options=BRIEF, listener=heard)
    assert heard.peaks[0] == (90, 16.0) and heard.peaks[-1] == (found.peak_bytes, found.result.cost)
    assert heard.peaks == sorted(set(heard.peaks), reverse=True)  # a smaller peak, or the same and cheaper
    assert heard.bounds == sorted(set(heard.bounds)) and heard.bounds[-1] == found.lower_bound_bytes


def test_a_start_is_taken() -> None:
    graph = training_chain(8)
    start = planning.solve(graph, 50, options=BRIEF).require_schedule()
    heard = Recorder()
    planning.least_memory(graph, options=replace(BRIEF, start=start), listener=heard)
    assert heard.peaks[1][0] == 50
    for wrong in (Schedule.of(graph, [5, 4]), Schedule.of(graph, [0, 1])):  # an invalid schedule is ignored
        assert planning.least_memory(graph, options=replace(BRIEF, start=wrong)).peak_bytes <= 50


@pytest.mark.parametrize("overhead", [-0.05, -math.inf, math.nan])
def test_a_cost_below_computing_everything_once(overhead: float) -> None:
    with pytest.raises(UsageError, match="less than computing everything once"):
        planning.least_memory(training_chain(3), max_overhead=overhead)


def test_cancelled_at_once_it_returns_the_plain_step() -> None:
    found = planning.least_memory(training_chain(8), listener=cancelled_recorder())
    assert found.cancelled and (found.peak_bytes, found.lower_bound_bytes, found.probes) == (90, 40, 0)
    assert not found.proved and found.result.status is SolveStatus.OPTIMAL  # the cheapest for its own peak


def test_cancelled_soon() -> None:
    graph, listener = random_layered(3, 120), Recorder(after_s=1.0)
    planning.least_memory(graph, max_overhead=0.05, options=SolveOptions(time_limit_s=30), listener=listener)
    assert time.perf_counter() < listener.until + 0.5


def test_the_gap_is_of_the_memory() -> None:
    found = planning.least_memory(training_chain(8), options=replace(BRIEF, gap=0.9))
    assert found.probes == 0 and found.gap <= 0.9 and not found.proved


def test_the_least_memory_is_not_below_the_values_that_constraints_hold() -> None:
    graph = training_chain(8)
    kept = Constraints(keep=tuple(f"a{i}" for i in range(8)))
    found = planning.least_memory(graph, options=BRIEF, constraints=kept)
    assert found.proved and found.peak_bytes == 90 and found.assumptions == kept.assumptions
    assert planning.known_minimum(graph, constraints=kept).bytes == 90


@pytest.mark.parametrize("graph", [training_chain(8), *(random_layered(seed, 60) for seed in range(4))])
def test_the_known_minimum_comes_with_its_schedule(graph: Graph) -> None:
    least = planning.known_minimum(graph)
    report = check(graph, least.schedule.steps.tolist(), budget_bytes=least.bytes)
    assert report.ok and report.peak_bytes == least.bytes
    assert least.bound.bytes <= least.bytes < planning.keep_everything_peak(graph)


def test_a_result_that_contradicts_itself_is_refused() -> None:
    found = planning.least_memory(training_chain(8), options=BRIEF)
    with pytest.raises(ValueError, match="both must hold"):
        replace(found, max_overhead=0.0)
    with pytest.raises(ValueError, match="both must hold"):
        replace(found, lower_bound_bytes=found.peak_bytes + 1)


def test_the_search_starts_from_known_schedules() -> None:
    graph = training_chain(6)
    first = planning.least_memory(graph, max_overhead=0.15, options=SolveOptions(time_limit_s=10.0))
    assert first.proved
    known = Frontier(graph)
    known.add(first.schedule.steps.tolist(), solver="x")
    known.add_bound(first.lower_bound_bytes - 1, first.cost_cap * (1 + 1e-8))
    bounds, heard = known.bounds, Recorder()
    again = least_memory(graph, 0.15, SolveOptions(time_limit_s=10.0), heard, known)
    assert again.proved and again.peak_bytes == first.peak_bytes and again.probes <= 1
    assert heard.bounds[-1] == first.peak_bytes and known.bounds == bounds
    # At a higher cost the bound says nothing.
    more = least_memory(graph, 0.5, BRIEF, Listener(), known)
    assert more.lower_bound_bytes <= more.peak_bytes <= first.peak_bytes
