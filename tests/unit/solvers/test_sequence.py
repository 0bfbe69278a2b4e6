"""A sequence's memory equals the simulation's after every change."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from checkmate.ir import Graph, GraphBuilder, Schedule
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.solvers.graph_sets import closures, members
from checkmate.solvers.sequence import edit
from checkmate.solvers.sequence import kernel_arrays as at
from checkmate.solvers.sequence.anneal import _first_read as first_read
from checkmate.solvers.sequence.edit import insert, movable, move, remove, undo
from checkmate.solvers.sequence.edit import source as find_source
from checkmate.solvers.sequence.kernel_arrays import IN, ScaledModel, build_model
from tests.graphs_strategies import random_graph


def assert_exact(graph: Graph, scaled: ScaledModel, state: at.State) -> None:
    steps = at.steps_of(state)
    assert check(graph, steps.tolist()).valid
    timeline = simulate(graph, Schedule.of(graph, steps))
    live = state.mem[at.LIVE, : len(steps)] * scaled.unit + graph.fixed_bytes
    np.testing.assert_array_equal(live, timeline.live_bytes)
    over = np.maximum(state.mem[at.LIVE, : len(steps) + 1] - state.real[at.BUDGET], 0).sum()
    assert state.real[at.EXCESS] == pytest.approx(over)
    assert state.real[at.COST] == pytest.approx(timeline.cost)


def removable(graph: Graph, state: at.State, x: int) -> bool:
    if state.ops[at.COUNT, state.occ[at.OP, x]] < 2:
        return False
    steps = at.steps_of(state).tolist()
    del steps[int(state.occ[at.POS, x])]
    return check(graph, steps).valid


def change(random: Random, graph: Graph, scaled: ScaledModel, state: at.State) -> None:
    """Make one random valid insertion, removal or move, if there is one."""
    model, steps = scaled.model, at.steps_of(state).tolist()
    kind = random.random()
    x = int(state.occ[at.SEQ, random.randrange(len(steps))])
    op, place = int(state.occ[at.OP, x]), int(state.occ[at.POS, x])
    if kind < 0.4 and graph.ops[op].recomputable:
        low = max((steps.index(int(p)) for p in graph.predecessors[op]), default=-1) + 1
        insert(model, state, op, random.randint(low, len(steps)))
    elif kind < 0.65 and removable(graph, state, x):
        remove(model, state, x)
    elif movable(model, state, op):
        reads = model.lists[model.op[IN, op] : model.op[IN, op + 1]].tolist()
        low = (
            max((int(state.occ[at.POS, find_source(model, state, v, place)]) for v in reads), default=-1) + 1
        )
        if state.occ[at.PREV, x] >= 0:
            low = max(low, int(state.occ[at.POS, state.occ[at.PREV, x]]) + 1)
        high = int(first_read(model, state, x))
        move(model, state, x, random.randint(low, high - 1))


@pytest.mark.parametrize("seed", range(40))
def test_live_bytes_are_exact_after_every_change(seed: int) -> None:
    random = Random(seed)
    for _ in range(10):
        graph = random_graph(random, most_ops=12)
        scaled = build_model(graph)
        state = at.new_state(scaled.model, steps=200, seed=seed)
        assert edit.load(scaled.model, state, np.arange(graph.n), float(random.randint(0, 20)))
        assert_exact(graph, scaled, state)
        for _ in range(15):
            state.num[at.JOURNAL] = 0
            change(random, graph, scaled, state)
            assert_exact(graph, scaled, state)


@pytest.mark.parametrize("seed", range(20))
def test_undo_takes_every_change_back(seed: int) -> None:
    random = Random(1000 + seed)
    graph = random_graph(random, most_ops=12)
    scaled = build_model(graph)
    state = at.new_state(scaled.model, steps=200, seed=seed)
    edit.load(scaled.model, state, np.arange(graph.n), 5.0)
    before = (at.steps_of(state).tolist(), state.mem[at.LIVE].copy())
    for _ in range(12):
        change(random, graph, scaled, state)
    undo(scaled.model, state)
    assert at.steps_of(state).tolist() == before[0]
    np.testing.assert_array_equal(state.mem[at.LIVE, : graph.n], before[1][: graph.n])
    assert_exact(graph, scaled, state)


def test_a_sequence_that_does_not_fit_the_arrays_is_refused() -> None:
    graph = random_graph(Random(3))
    scaled = build_model(graph)
    state = at.new_state(scaled.model, steps=graph.n + 1, seed=0)
    assert not edit.load(scaled.model, state, np.arange(graph.n).repeat(5), 5.0)


def test_sizes_beyond_exact_floats_are_rounded_up_and_budgets_down() -> None:
    builder = GraphBuilder()
    values = [builder.value(f"v{i}", 2**60 + i) for i in range(3)]
    for i, value in enumerate(values):
        builder.op(f"op{i}", values[:i], [value])
    scaled = build_model(builder.build())
    assert scaled.unit > 1
    assert (scaled.model.size * scaled.unit >= [2**60, 2**60 + 1, 2**60 + 2]).all()
    assert scaled.budget(2**60) * scaled.unit <= 2**60


def needed(graph: Graph, op: int) -> set[int]:
    found: set[int] = set()
    todo = [op]
    while todo:
        for before in graph.predecessors[todo.pop()].tolist():
            if before not in found:
                found.add(before)
                todo.append(before)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_sets_hold_what_a_walk_reaches(seed: int) -> None:
    graph = random_graph(Random(seed))
    up, down = closures(graph)
    for op in range(graph.n):
        before = needed(graph, op)
        assert set(np.flatnonzero(members(up[op], graph.n)).tolist()) == before
        after = {later for later in range(graph.n) if op in needed(graph, later)}
        assert set(np.flatnonzero(members(down[op], graph.n)).tolist()) == after


def test_members_are_as_many_as_there_are_ops() -> None:
    assert members(0b101, 3).tolist() == [True, False, True]
    assert members(0, 9).tolist() == [False] * 9
