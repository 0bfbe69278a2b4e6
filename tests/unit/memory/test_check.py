from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from checkmate.formats import read_any_graph
from checkmate.formats.files import read_json
from checkmate.ir import Graph, GraphBuilder, Schedule
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.planning import keep_everything_peak, solve
from tests.graphs_strategies import (
    as_file,
    published_graphs,
    random_graph,
    random_steps,
    replay_tool,
    training_chain,
)

REPLAY = replay_tool()
needs_replay = pytest.mark.skipif(
    REPLAY is None, reason="the plain replay program is not beside the repository"
)


def assert_agrees(graph: Graph, steps: list[int], data: object = None) -> bool:
    """Assert that ``check`` agrees with the replay; return its verdict.

    The verdict is whether the schedule is valid.
    """
    assert REPLAY is not None
    wanted = REPLAY.replay(as_file(graph) if data is None else data, steps)
    found = check(graph, steps)
    assert found.valid == wanted["valid"], (steps, wanted, found)
    assert (found.peak_bytes, found.peak_step) == (wanted["peak_bytes"], wanted["peak_step"]), (
        steps,
        wanted,
        found,
    )
    assert found.cost == pytest.approx(wanted["cost"])
    assert found.base_cost == pytest.approx(wanted["base_cost"])
    assert found.recomputations == wanted["recomputations"]
    return found.valid


@needs_replay
@pytest.mark.parametrize("seed", range(8))
def test_agrees_with_the_replay_on_random_graphs_and_schedules(seed: int) -> None:
    random, valid = Random(seed), 0
    for _ in range(500):
        graph = random_graph(random)
        valid += assert_agrees(graph, random_steps(random, graph))
        anything = [random.randrange(graph.n) for _ in range(random.randint(1, 2 * graph.n))]
        assert_agrees(graph, anything)
    assert valid > 50, "too few valid schedules among the random ones to say anything"


@needs_replay
@pytest.mark.parametrize("path", published_graphs(), ids=lambda path: path.stem[:24])
def test_agrees_with_the_replay_on_published_graphs(path: Path) -> None:
    graph = read_any_graph(path)
    native = read_json(path) if "paper" in path.parts else None
    assert assert_agrees(graph, list(range(graph.n)), native)
    peak = keep_everything_peak(graph)
    assert check(graph, range(graph.n)).peak_bytes == peak
    solved = 0
    for share in (0.9, 0.8):
        result = solve(graph, int(share * peak), solver="greedy")
        if result.schedule is not None:
            solved += 1
            assert assert_agrees(graph, result.schedule.steps.tolist(), native)
            assert check(graph, result.schedule.steps.tolist(), budget_bytes=result.budget_bytes).ok
    assert solved, "the greedy solver fits neither 90 % nor 80 %"


def test_a_chain_counted_by_hand() -> None:
    """Test f0 f1 b1 b0.

    At b1 both activations and its gradient live; at b0 the first activation and two gradients.
    """
    graph = training_chain(2)
    report = check(graph, [0, 1, 2, 3])
    assert report.valid and report.ok
    assert (report.peak_bytes, report.peak_step) == (30, 2)
    assert (report.cost, report.base_cost, report.recomputations) == (4.0, 4.0, 0)


def test_a_budget_is_a_separate_question() -> None:
    report = check(training_chain(2), [0, 1, 2, 3], budget_bytes=29)
    assert report.valid and not report.within_budget and not report.ok
    assert check(training_chain(2), [0, 1, 2, 3], budget_bytes=30).ok


def test_a_dropped_step_is_rejected() -> None:
    graph = training_chain(4)
    for position in range(graph.n):
        steps = list(range(graph.n))
        del steps[position]
        report = check(graph, steps)
        assert not report.valid
        assert f"op {position} {graph.ops[position].name!r} never runs" in [
            v.message for v in report.violations
        ]


def test_a_doubled_step_of_an_op_that_runs_once_is_rejected() -> None:
    builder = GraphBuilder()
    out = builder.value("state", 1, keep=True)
    builder.op("update", (), [out], recomputable=False)
    report = check(builder.build(), [0, 0])
    assert [v.message for v in report.violations] == ["op 0 'update' must run once and runs 2 times"]


def test_a_step_moved_before_what_it_reads_is_rejected() -> None:
    graph = training_chain(4)
    for position in range(1, graph.n):
        steps = list(range(graph.n))
        steps.insert(0, steps.pop(position))
        report = check(graph, steps)
        assert not report.valid
        assert any(v.step == 0 and "which is not live" in v.message for v in report.violations)


def test_a_recomputation_keeps_what_it_reads_alive() -> None:
    """Test that a0 lives to the end, where f1 runs once more."""
    graph = training_chain(2)
    report = check(graph, [0, 1, 2, 3, 1])
    assert report.valid
    assert (report.recomputations, report.cost, report.peak_bytes) == (1, 5.0, 30)


def test_an_op_that_is_not_there_is_named() -> None:
    report = check(training_chain(2), [0, 1, 7, 3])
    assert [(v.message, v.step) for v in report.violations] == [("names op 7; there are 4", 2)]
    assert not check(training_chain(2), [-1]).valid


def test_a_kept_value_must_be_made() -> None:
    graph = training_chain(2)
    messages = " ".join(v.message for v in check(graph, [0, 1, 2]).violations)
    assert "read or kept without being produced: values 3 'g0'" in messages


def test_at_most_twenty_violations_are_listed() -> None:
    assert len(check(training_chain(40), [0]).violations) == 20


def test_ten_thousand_ops_in_thirty_thousand_steps_are_checked_quickly() -> None:
    """Test the time, a fifth of a second on a quiet machine.

    A check that is quadratic in the steps needs half a minute.
    """
    random, graph = Random(0), training_chain(5000)
    steps = [*range(5000)]
    for op in range(5000, 10000):
        steps += [random.randrange(5000) for _ in range(4)] + [op]
    started = time.perf_counter()
    report = check(graph, steps)
    assert time.perf_counter() - started < 4.5
    assert report.valid and len(steps) == 30_000
    assert report.peak_bytes == simulate(graph, Schedule.of(graph, steps)).peak_bytes
