"""Test schedules and their matrices R and S.

They are compared with figures by hand and with their definition."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from checkmate.errors import FingerprintMismatchError, NoScheduleError, ScheduleError
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from tests.graphs_strategies import random_graph, random_steps, training_chain


def bits(matrix: np.ndarray) -> list[str]:
    """Return the rows as texts of 0 and 1."""
    return ["".join("1" if cell else "0" for cell in row) for row in matrix]


def test_the_plain_schedule_runs_every_op_once() -> None:
    graph = training_chain(2)
    plain = Schedule.plain(graph)
    assert plain.steps.tolist() == [0, 1, 2, 3] and plain.recomputations == 0
    plain.require_graph(graph)


def test_keeping_everything_by_hand() -> None:
    """Test f0 f1 b1 b0. Each stage computes its own op; S holds what later stages read."""
    graph = training_chain(2)
    matrices = Schedule.of(graph, [0, 1, 2, 3]).matrices(graph)
    assert bits(matrices.R) == ["1000", "0100", "0010", "0001"]
    assert bits(matrices.S) == ["0000", "1000", "1100", "1010"]
    assert matrices.order.tolist() == [0, 1, 2, 3]
    assert matrices.stage_of_step.tolist() == [0, 1, 2, 3]


def test_a_recomputation_by_hand() -> None:
    """Test f0 f1 f2 f3 b3 [f0 f1] b2 b1 b0: f0 and f1 run twice. They are dropped after their first use and
    made again for b2."""
    graph = training_chain(4)
    steps = [0, 1, 2, 3, 4, 0, 1, 5, 6, 7]
    matrices = Schedule.of(graph, steps).matrices(graph)
    assert bits(matrices.R) == [
        "10000000",
        "01000000",
        "00100000",
        "00010000",
        "00001000",
        "11000100",
        "00000010",
        "00000001",
    ]
    assert bits(matrices.S) == [
        "00000000",
        "10000000",
        "01000000",
        "00100000",
        "00110000",
        "00101000",
        "11000100",
        "10000010",
    ]
    assert matrices.stage_of_step.tolist() == [0, 1, 2, 3, 4, 5, 5, 5, 6, 7]
    assert Schedule.of(graph, steps).recomputations == 2


def test_trailing_recomputations_belong_to_the_last_stage() -> None:
    graph = training_chain(2)
    matrices = Schedule.of(graph, [0, 1, 2, 3, 1, 0]).matrices(graph)
    assert matrices.stage_of_step.tolist() == [0, 1, 2, 3, 3, 3]
    assert bits(matrices.R)[3] == "1101"
    assert bits(matrices.S)[3] == "1010", (
        "a0 is held at the start of the last stage, a1 is made again before it is read"
    )


def test_another_order_permutes_the_columns() -> None:
    """Test two independent ops the other way round. Column i is the op that ends stage i."""
    random = Random(3)
    graphs = (random_graph(random) for _ in range(1000))
    graph = next(g for g in graphs if g.n > 2 and check(g, _swapped(g)).valid)
    matrices = Schedule.of(graph, _swapped(graph)).matrices(graph)
    assert matrices.order.tolist() == _swapped(graph)
    assert np.array_equal(matrices.R, np.eye(graph.n, dtype=bool))


def _swapped(graph: Graph) -> list[int]:
    return [1, 0, *range(2, graph.n)]


def held_by_definition(graph: Graph, steps: list[int]) -> np.ndarray:
    """Return S from its definition, one stage and one value at a time."""
    order = list(dict.fromkeys(steps))
    held = np.zeros((graph.n, graph.n), bool)
    start = 0
    for stage, op in enumerate(order):
        for value in range(graph.m):
            source = int(graph.producer[value])
            if source < 0 or source not in steps[:start]:
                continue
            for later in steps[start:]:
                if value in graph.ops[later].inputs:
                    held[stage, order.index(source)] = True
                    break
                if later == source:
                    break
            else:
                held[stage, order.index(source)] |= bool(graph.keep[value])
        start = steps.index(op) + 1
    return held


@pytest.mark.parametrize("seed", range(4))
def test_r_and_s_by_their_definition_on_random_schedules(seed: int) -> None:
    random, seen = Random(seed), 0
    while seen < 150:
        graph = random_graph(random)
        steps = random_steps(random, graph)
        if not check(graph, steps).valid:
            continue
        seen += 1
        matrices = Schedule.of(graph, steps).matrices(graph)
        assert np.array_equal(matrices.S, held_by_definition(graph, steps)), (graph.ops, steps)
        for stage in range(graph.n):
            computed = {s for s, at in zip(steps, matrices.stage_of_step, strict=True) if at == stage}
            assert set(matrices.order[matrices.R[stage]].tolist()) == computed
        assert matrices.R.diagonal().all(), "each stage computes its own op"
        assert not np.triu(matrices.R, 1).any(), "and none of a later stage"


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ([], "a schedule needs at least one step"),
        ([0.5], "steps must be whole numbers"),
        ([0, -3], "steps names op -3; there is no such op"),
        ([0, 2**40], f"steps names op {2**40}; there is no such op"),
    ],
)
def test_invalid_schedules_are_refused(steps: list[float], sentence: str) -> None:
    with pytest.raises(ScheduleError, match=sentence):
        Schedule(np.array(steps), "sha256:0")


def test_matrices_need_every_op() -> None:
    graph = training_chain(2)
    with pytest.raises(ScheduleError, match="op 3 'b0' never runs"):
        Schedule.of(graph, [0, 1, 2]).matrices(graph)


def test_a_schedule_stays_with_its_graph() -> None:
    with pytest.raises(FingerprintMismatchError, match="not for 'chain'"):
        Schedule.of(training_chain(2), [0, 1, 2, 3]).matrices(training_chain(3))
    graph = training_chain(2)
    with pytest.raises(ScheduleError, match="names op 9; the graph has 4"):
        Schedule.of(graph, [0, 9]).require_graph(graph)


def test_steps_cannot_be_changed() -> None:
    schedule = Schedule.of(training_chain(2), [0, 1, 2, 3])
    with pytest.raises(ValueError, match="read-only"):
        schedule.steps[0] = 1


def test_a_result_has_a_schedule_exactly_when_its_status_has_one() -> None:
    with pytest.raises(ValueError, match="status optimal"):
        SolveResult(SolveStatus.OPTIMAL, "greedy", 10, 1.0)
    with pytest.raises(ValueError, match="status limit"):
        SolveResult(SolveStatus.LIMIT, "greedy", 10, 1.0, cost=1.0)


@pytest.mark.parametrize(
    ("status", "code"), [("infeasible", 3), ("limit", 4), ("cancelled", 130), ("failed", 1)]
)
def test_requiring_a_schedule_that_is_missing(status: str, code: int) -> None:
    result = SolveResult(SolveStatus(status), "greedy", 10, 1.0)
    with pytest.raises(NoScheduleError, match=f"greedy ended without a schedule \\({status}\\)") as caught:
        result.require_schedule()
    assert caught.value.exit_code == code


def test_gap_and_overhead() -> None:
    graph = training_chain(2)
    result = SolveResult(
        SolveStatus.FEASIBLE,
        "greedy",
        100,
        4.0,
        schedule=Schedule.of(graph, [0, 1, 2, 3, 0]),
        cost=5.0,
        peak_bytes=30,
        lower_bound=4.0,
    )
    assert result.gap == pytest.approx(0.2) and result.above_best == pytest.approx(0.25)
    assert replace(result, lower_bound=None).above_best is None
    assert result.overhead == pytest.approx(0.25)
