from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from checkmate.errors import BudgetBelowMinimumError, NoScheduleError, UsageError
from checkmate.ir import Graph, GraphBuilder, Phase, SolveStatus
from checkmate.largest.batch import MaxBatch, cost_limit, max_batch
from checkmate.memory.check import check
from checkmate.progress import Progress
from checkmate.solvers.problem import SolveOptions
from tests.graphs_strategies import tiny_graphs, training_chain
from tests.oracles import optimum

BRIEF = SolveOptions(time_limit_s=0.6)


def times(graph: Graph, batch: int) -> Graph:
    """Return the graph of one example ``batch`` times. It is written apart from what is tested."""
    values = tuple(replace(value, bytes=value.bytes * batch) for value in graph.values)
    ops = tuple(
        replace(op, cost=op.cost * batch, workspace_bytes=op.workspace_bytes * batch) for op in graph.ops
    )
    return replace(graph, values=values, ops=ops)


def truth(graph: Graph, budget: int, limit: float) -> int:
    """Return the largest batch by trying one after another. ``limit`` is that of one example."""
    for batch in itertools.count(1):
        best = optimum(times(graph, batch), budget)
        if best is None or best.cost > limit * batch + 1e-6:
            return batch - 1
    raise AssertionError("unreachable")


def sound(graph: Graph, found: MaxBatch, budget: int, true: int) -> None:
    assert 1 <= found.batch <= true <= found.upper_batch
    report = check(
        times(graph, found.batch), found.result.require_schedule().steps.tolist(), budget_bytes=budget
    )
    assert report.ok and report.peak_bytes == found.result.peak_bytes
    assert report.cost == pytest.approx(found.result.cost) and report.cost <= found.cost_limit * (1 + 1e-9)
    assert found.plain_batch <= found.batch
    assert all(batch is None or batch <= found.batch for batch in found.baselines.values())


@pytest.mark.parametrize("overhead", [None, 0.0, 0.4, math.inf])
def test_held_against_exact_search(overhead: float | None) -> None:
    reached, proved, asked = 0, 0, 0
    for seed, graph in enumerate(tiny_graphs(3)):
        if graph.value_bytes.max() == 0:
            continue
        plain = check(graph, range(graph.n)).peak_bytes - graph.fixed_bytes
        budget = graph.fixed_bytes + (2 + seed % 3) * plain + 1
        true = truth(graph, budget, cost_limit(graph, overhead))
        found = max_batch(graph, budget, batch_size=1, max_overhead=overhead, options=BRIEF)
        sound(graph, found, budget, true)
        asked += 1
        reached += found.batch == true
        proved += found.proved
    assert asked >= 8 and reached >= 0.9 * asked and proved >= 0.6 * asked


def test_the_papers_rule_is_one_more_forward_pass() -> None:
    graph = training_chain(4)
    assert cost_limit(graph, None) == graph.base_cost + 4
    assert cost_limit(graph, 0.25) == 1.25 * graph.base_cost
    assert math.isinf(cost_limit(graph, math.inf))


def test_with_recomputation_the_batch_is_larger_and_no_claim_exceeds_the_proof() -> None:
    graph = training_chain(8, bytes_=12)
    told: list[str] = []

    def note(progress: Progress) -> None:
        told.append(progress.message)

    found = max_batch(graph, 1000, batch_size=4, options=SolveOptions(time_limit_s=3.0), report=note)
    assert found.plain_batch < found.batch <= found.upper_batch
    assert found.graph.batch_size == found.batch and found.result.budget_bytes == 1000
    assert "extrapolated from batch 4" in found.scaling.note()
    assert any(f"largest batch so far {found.batch}" in line for line in told)
    best = max(batch for batch in found.baselines.values() if batch is not None)
    assert found.plain_batch <= best <= found.batch


def test_fixed_bytes_do_not_grow() -> None:
    graph = replace(training_chain(4), fixed_bytes=500, batch_size=1)
    without = max_batch(replace(graph, fixed_bytes=0), 1000, options=BRIEF)
    assert max_batch(graph, 1500, options=BRIEF).batch == without.batch


def test_what_an_update_reads_does_not_grow() -> None:
    builder = GraphBuilder("step")
    a, g = builder.value("a", 10), builder.value("g", 100)
    builder.op("f", [], [a])
    builder.op("b", [a], [g], phase=Phase.BACKWARD)
    builder.op("u", [g], [], phase=Phase.UPDATE)
    found = max_batch(builder.build(batch_size=1), 200, options=BRIEF)
    assert (found.batch, found.proved, found.result.status) == (10, True, SolveStatus.OPTIMAL)


def test_when_cancelled_the_best_so_far_is_kept() -> None:
    found = max_batch(training_chain(6), 500, batch_size=1, options=BRIEF, cancelled=lambda: True)
    assert found.cancelled and found.batch == found.plain_batch >= 1 and not found.proved


def test_not_even_one_example() -> None:
    with pytest.raises(BudgetBelowMinimumError) as proved:
        max_batch(training_chain(4), 15, batch_size=1, options=BRIEF)
    assert proved.value.exit_code == 3 and "needs by itself" in str(proved.value)
    with pytest.raises(NoScheduleError) as cancelled:
        max_batch(
            training_chain(9), 45, batch_size=1, max_overhead=0.0, options=BRIEF, cancelled=lambda: True
        )
    assert cancelled.value.exit_code == 130
    with pytest.raises(NoScheduleError) as none:
        max_batch(training_chain(9), 45, batch_size=1, max_overhead=0.0, options=BRIEF)
    assert none.value.exit_code in (3, 4) and "at this extra cost" in str(none.value)


def test_bad_input_ends_in_one_sentence() -> None:
    with pytest.raises(UsageError, match="less than computing everything once"):
        max_batch(training_chain(3), 100, batch_size=1, max_overhead=-0.1)
    with pytest.raises(UsageError, match="has room for more examples than can be counted"):
        max_batch(training_chain(3), 2**61, batch_size=1)
