from __future__ import annotations

from random import Random

import numpy as np
import pytest

from checkmate.ir import CostUnit, Graph, GraphBuilder, Phase, Schedule
from checkmate.memory.check import check
from checkmate.memory.hotspot import moment
from checkmate.memory.simulate import simulate
from checkmate.memory.suggestions import Suggestion, SuggestionKind, find_suggestions, rank_suggestions
from tests.graphs_strategies import random_graph, random_steps


def found_at(
    graph: Graph, steps: list[int], at: int | None = None, once=None
) -> tuple[list[Suggestion], int]:
    schedule = Schedule.of(graph, steps)
    timeline = simulate(graph, schedule)
    at = timeline.peak_step if at is None else at
    once = ~graph.recomputable if once is None else once
    now = moment(graph, schedule, timeline, at)
    return list(find_suggestions(graph, schedule, timeline, now, once)), at


def test_recomputations_are_schedules_with_that_peak_and_that_cost() -> None:
    count = 0
    for seed in range(250):
        graph = random_graph(Random(seed))
        steps = random_steps(Random(seed), graph)
        plain = check(graph, steps)
        if not plain.valid:  # an op that must run once runs again
            continue
        for at in range(len(steps)):
            live = simulate(graph, Schedule.of(graph, steps)).live_bytes[at]
            found = found_at(graph, steps, at)[0]
            again = [each for each in found if each.kind is SuggestionKind.RECOMPUTE]
            assert len({each.steps.tobytes() for each in again}) == len(again)  # none is offered twice
            for suggestion in again:
                report = check(graph, suggestion.steps.tolist())
                assert report.valid and report.peak_bytes == suggestion.peak_bytes
                assert report.peak_bytes <= plain.peak_bytes
                assert report.cost == pytest.approx(plain.cost + suggestion.cost)
                new = simulate(graph, Schedule.of(graph, suggestion.steps))
                assert live - new.live_bytes[at] == suggestion.freed_bytes > 0
                assert suggestion.steps[: at + 1].tolist() == steps[: at + 1]
                count += 1
    assert count > 100


def training(batch: int, seconds: bool = True) -> Graph:
    """Build six layers whose weights' gradients do not grow with the batch."""
    builder = GraphBuilder("net")
    acts = [builder.value(f"a{i}", 4 * batch, shape=(batch, 4)) for i in range(6)]
    for i in range(6):
        builder.op(f"f{i}", acts[i - 1 : i] if i else [], [acts[i]], cost=1.0 + i, group=f"l{i}")
    gradient = None
    for i in reversed(range(6)):
        new = builder.value(f"g{i}", 4 * batch, shape=(batch, 4))
        weight = builder.value(f"w{i}", 3, shape=(3,), keep=True)
        read = [acts[i], *([gradient] if gradient is not None else [])]
        builder.op(f"b{i}", read, [new, weight], cost=2.0, phase=Phase.BACKWARD, group=f"l{i}")
        gradient = new
    unit = CostUnit.SECONDS if seconds else CostUnit.UNIT
    return builder.build(fixed_bytes=11, batch_size=batch, cost_unit=unit)


def test_smaller_batches_are_what_the_smaller_graph_needs() -> None:
    for suggestion in found_at(training(8), list(range(12)))[0]:
        if suggestion.kind is SuggestionKind.BATCH:
            graph = training(suggestion.batch_size)
            assert simulate(graph, Schedule.of(graph, np.arange(12))).peak_bytes == suggestion.peak_bytes
    sizes = [
        r.batch_size for r in found_at(training(8), list(range(12)))[0] if r.kind is SuggestionKind.BATCH
    ]
    assert sizes == [7, 6, 4]
    assert not [r for r in found_at(training(1), list(range(12)))[0] if r.kind is SuggestionKind.BATCH]


def test_rate_that_hides_a_transfer_and_no_rate_without_seconds() -> None:
    graph = training(8)
    moved = {r.op: r for r in found_at(graph, list(range(12)), at=6)[0] if r.kind is SuggestionKind.ELSEWHERE}
    # a1 is last read by f2, and by b1 next: f3 to f5 run before the step, b4 to b2 after it.
    assert moved[1].bytes_per_second == pytest.approx(32 / min(4.0 + 5.0 + 6.0, 2.0 * 3))
    assert moved[1].freed_bytes == 32 and moved[1].moved_bytes == 64
    assert 4 not in moved  # it is read by the very next step, so nothing runs meanwhile
    units = [
        r
        for r in found_at(training(8, seconds=False), list(range(12)), at=6)[0]
        if r.kind is SuggestionKind.ELSEWHERE
    ]
    assert units and all(r.bytes_per_second is None for r in units)


def test_ops_that_run_once_are_not_recomputed() -> None:
    graph = training(4)
    ops = {r.op for r in found_at(graph, list(range(12)))[0] if r.kind is SuggestionKind.RECOMPUTE}
    assert ops
    one = min(ops)
    once = np.zeros(graph.n, bool)
    once[one] = True
    left = {
        r.op for r in found_at(graph, list(range(12)), once=once)[0] if r.kind is SuggestionKind.RECOMPUTE
    }
    assert left < ops and one not in left


def test_ranking_puts_the_cheapest_byte_first() -> None:
    graph, steps = training(8), list(range(12))
    peak = simulate(graph, Schedule.of(graph, steps)).peak_bytes
    found = rank_suggestions(found_at(graph, steps)[0], peak)
    kinds = [suggestion.kind for suggestion in found]
    assert kinds == sorted(kinds, key=list(SuggestionKind).index) and set(kinds) == set(SuggestionKind)
    prices = [
        suggestion.cost / (peak - suggestion.peak_bytes)
        for suggestion in found
        if suggestion.kind is SuggestionKind.RECOMPUTE
    ]
    assert prices == sorted(prices) and len(prices) > 2
    rates = [
        suggestion.bytes_per_second for suggestion in found if suggestion.kind is SuggestionKind.ELSEWHERE
    ]
    assert rates == sorted(rates)  # all of one size
