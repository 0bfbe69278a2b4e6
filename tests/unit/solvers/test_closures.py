"""Test the ops before and after an op against a walk along the edges."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from checkmate.ir import Graph
from checkmate.solvers.graph_sets import closures, members
from tests.graphs_strategies import random_graph


def needed(graph: Graph, op: int) -> set[int]:
    """Return the ops that ``op`` needs, one edge after the other."""
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
