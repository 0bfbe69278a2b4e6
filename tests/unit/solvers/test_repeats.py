"""Test steps of many equal blocks: a few are solved, and stand for all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checkmate import planning
from checkmate.ir import Graph, Phase, Schedule
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.progress import never
from checkmate.solvers.graph_sets import LazyClosure, closures
from checkmate.solvers.pathcut import cuts
from checkmate.solvers.pathcut.cuts import Reach, build_program
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.solvers.repeated_blocks import (
    RepeatedSection,
    blocks_of,
    dropped_ops,
    find_repeats,
    repeated_schedules,
    shrink,
    spread,
    steps_without,
)
from tests.generated_blocks import training_blocks
from tests.generated_graphs import random_layered, training_dag

pytestmark = pytest.mark.heavy  # large graphs

FORWARD, BACKWARD = 33, 55  # ops of a block


def peak(graph: Graph, steps: np.ndarray | None = None) -> int:
    schedule = Schedule.plain(graph) if steps is None else Schedule.of(graph, steps)
    return simulate(graph, schedule).peak_bytes


def schedules(graph: Graph, budget: int, **given: Any) -> list[np.ndarray]:
    blocks = blocks_of(graph)
    assert blocks is not None
    asked = {"until": math.inf, "cancelled": never, **given}
    return list(repeated_schedules(Problem(graph, budget), blocks, **asked))


@pytest.mark.parametrize("count", [4, 9, 30])
def test_the_blocks_are_found(count: int) -> None:
    found = find_repeats(training_blocks(count))
    assert found is not None and found.count == count
    assert found.forward == RepeatedSection(1, FORWARD, count)
    assert (found.backward.period, found.backward.count) == (BACKWARD, count)


def test_what_does_not_repeat_is_not_found() -> None:
    assert find_repeats(training_dag(3, 40)) is None
    assert find_repeats(training_blocks(3)) is None


def test_other_ops_at_either_end_do_not_hide_the_blocks() -> None:
    graph = training_blocks(12)
    first = replace(graph.ops[0], type="other")
    found = find_repeats(replace(graph, ops=(first, *graph.ops[1:])))
    assert found is not None and found.forward.count == 12


@pytest.mark.parametrize("left", [4, 5, 11])
def test_a_shrunk_step_is_the_step_of_fewer_blocks(left: int) -> None:
    graph, fewer = training_blocks(12), training_blocks(left)
    found = find_repeats(graph)
    assert found is not None
    small = shrink(graph, found, left)
    assert small is not None
    assert [op.type for op in small.graph.ops] == [op.type for op in fewer.ops]
    assert small.graph.value_bytes.tolist() == fewer.value_bytes.tolist()
    assert [op.inputs for op in small.graph.ops] == [op.inputs for op in fewer.ops]
    assert peak(small.graph) == peak(fewer)


def test_what_only_reads_a_block_that_went_goes_too() -> None:
    """An update of one block goes; a norm of all gradients stays."""
    graph = training_blocks(12)
    late = [op.outputs[0] for op in graph.ops if op.type == "up/back"]
    values = [*graph.values, *(replace(graph.values[0], name=f"u{k}") for k in range(13))]
    updates = [
        replace(graph.ops[0], name=f"update{k}", type="update", phase=Phase.UPDATE, inputs=(value,),
                outputs=(graph.m + k,))
        for k, value in enumerate(late)
    ]  # fmt: skip
    norm = replace(updates[0], name="norm", inputs=tuple(late), outputs=(graph.m + 12,))
    whole = replace(graph, ops=(*graph.ops, *updates, norm), values=tuple(values))
    found = find_repeats(whole)
    assert found is not None
    small = shrink(whole, found, 5)
    assert small is not None
    names = [op.name for op in small.graph.ops]
    assert sum(name.startswith("update") for name in names) == 5 and names[-1] == "norm"
    assert len(small.graph.ops[-1].inputs) == 5


def test_patterns_are_carried_over_and_decoded() -> None:
    graph = training_blocks(20)
    found = find_repeats(graph)
    assert found is not None
    small = shrink(graph, found, 6)
    assert small is not None
    wide = np.array([op.type in ("cube", "tanh", "gelu") for op in small.graph.ops])
    again = spread(small, graph, wide)
    assert [op.type in ("cube", "tanh", "gelu") for op in graph.ops] == again.tolist()
    steps = steps_without(graph, again)
    report = check(graph, steps.tolist(), budget_bytes=peak(graph))
    assert report.ok and report.peak_bytes < 0.8 * peak(graph)
    assert len(steps) == graph.n + again.sum()
    assert dropped_ops(graph, steps).tolist() == again.tolist()


@pytest.mark.parametrize("share", [0.7, 0.4, 0.2])
def test_schedules_of_many_blocks_fit_and_get_cheaper(share: float) -> None:
    graph = training_blocks(40)
    budget = int(share * peak(graph))
    costs: list[float] = []
    for steps in schedules(graph, budget):
        assert check(graph, steps.tolist(), budget_bytes=budget).ok
        costs.append(float(graph.cost[steps].sum()))
    assert costs and costs == sorted(costs, reverse=True) and len(set(costs)) == len(costs)


def test_the_same_seed_gives_the_same_schedules() -> None:
    graph = training_blocks(30)
    one, other = (
        [steps.tolist() for steps in schedules(graph, int(0.5 * peak(graph)), seed=3)] for _ in range(2)
    )
    assert one and one == other


def test_nothing_is_made_without_blocks_or_time() -> None:
    assert blocks_of(random_layered(1, 1600)) is None
    assert blocks_of(training_blocks(12)) is None  # small enough to be searched as it is
    graph = training_blocks(30)
    assert schedules(graph, int(0.5 * peak(graph)), until=0.0) == []
    assert schedules(graph, int(0.5 * peak(graph)), cancelled=lambda: True) == []


@pytest.mark.heavy
def test_ten_thousand_ops_are_solved_to_a_percent() -> None:
    """The blocks give the schedule, the cut through all of them the bound."""
    graph = training_blocks(115)
    budget = int(0.45 * peak(graph))
    result = planning.solve(graph, budget, options=SolveOptions(time_limit_s=120.0, gap=0.01))
    assert result.gap is not None and result.gap <= 0.01


@pytest.mark.parametrize("graph", [training_dag(5, 30), random_layered(2, 90)])
def test_closures_found_one_by_one_are_the_same(graph: Graph) -> None:
    up, down = closures(graph)
    lazy_up, lazy_down = LazyClosure(graph.predecessors), LazyClosure(graph.successors)
    for op in range(graph.n):
        assert lazy_up[op] == up[op] and lazy_down[op] == down[op]


def test_a_large_graphs_program_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = training_dag(5, 30)
    exact = Reach.of(graph)
    monkeypatch.setattr(cuts, "_EXACT", 10)
    lazy = Reach.of(graph)
    assert isinstance(lazy.ancestors, LazyClosure)
    for cut in (10, 30, 50):
        one, other = (build_program(graph, reach, peak(graph) // 2, [cut]) for reach in (exact, lazy))
        assert one.runs.tolist() == other.runs.tolist() and one.rows == other.rows


def _slow_forced(graph: Graph, up: list[int], down: list[int]) -> list[int]:
    """Return the bytes held while each op runs, told op by op."""
    total = [int(size) for size in graph.workspace_bytes]
    for op in range(graph.n):
        for owner in {int(graph.owner[v]) for v in range(graph.m) if graph.producer[v] >= 0}:
            if graph.producer[owner] < 0:
                continue
            maker = int(graph.producer[owner])
            views = [v for v in range(graph.m) if graph.owner[v] == owner and graph.producer[v] >= 0]
            made = op == maker or bool(down[maker] >> op & 1)
            readers = {int(reader) for v in views for reader in graph.value_readers[v]} | {maker}
            read = any(op == reader or up[reader] >> op & 1 for reader in readers)
            if made and (read or any(graph.keep[v] for v in views)):
                total[op] += int(graph.value_bytes[owner])
    return total


@pytest.mark.parametrize("seed", range(4))
def test_forced_bytes_are_those_of_a_slow_count(seed: int) -> None:
    graph = training_dag(seed, 12)
    up, down = closures(graph)
    assert Reach.of(graph).forced.tolist() == _slow_forced(graph, up, down)
