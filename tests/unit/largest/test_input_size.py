from __future__ import annotations

import math

import pytest

from checkmate.errors import BudgetBelowMinimumError, CancelledError, UsageError
from checkmate.graphs.layers import LayerBuilder, training_graph
from checkmate.graphs.paper import find_network
from checkmate.ir import Graph
from checkmate.largest.batch import cost_limit
from checkmate.largest.input_size import max_input
from checkmate.largest.sized_steps import STEP, PaperStep, Size, SizedStep
from checkmate.memory.check import check
from checkmate.solvers.problem import SolveOptions
from tests.oracles import optimum

BRIEF = SolveOptions(time_limit_s=1.0)


class Made(SizedStep):
    def __init__(self, make, aspect: Size) -> None:
        self._make, self.aspect = make, aspect

    def at(self, size: Size) -> Graph:
        return self._make(size)


def chain(size: Size) -> Graph:
    # the last layer's cost is not in proportion to the input's size
    net = LayerBuilder("chain", (*size, 1))
    net.dense(net.global_pool(net.conv(net.input, 2, 3)), 5000)
    return training_graph(net.build(), 1)


def branch(size: Size) -> Graph:
    net = LayerBuilder("branch", (*size, 1))
    x = net.conv(net.input, 2, 3)
    net.add([x, net.conv(net.conv(x, 5, 3), 2, 3)])
    return training_graph(net.build(), 1)


def fits(make, size: Size, budget: int, overhead: float | None) -> bool:
    graph = make(size)
    best = optimum(graph, budget)
    return best is not None and best.cost <= cost_limit(graph, overhead) * (1 + 1e-9)


@pytest.mark.parametrize("make", [chain, branch])
@pytest.mark.parametrize("overhead", [None, 0.0, math.inf])
def test_held_against_exact_search(make, overhead: float | None) -> None:
    for plain_level, share in ((3, 1.0), (4, 0.8), (5, 0.9)):
        graph = make((STEP * plain_level, STEP * round(plain_level * 1.5)))
        budget = int(share * check(graph, range(graph.n)).peak_bytes)
        found = max_input(Made(make, (2, 3)), budget, max_overhead=overhead, options=BRIEF)
        for more in (1, 2):
            level = found.size[0] // STEP + more
            assert not fits(make, (STEP * level, STEP * round(level * 1.5)), budget, overhead)
        report = check(make(found.size), found.result.require_schedule().steps.tolist(), budget_bytes=budget)
        assert report.ok and report.cost <= found.cost_limit * (1 + 1e-9)
        assert found.refuted_size is not None and found.refuted_size[0] == found.size[0] + STEP
        assert found.size <= found.memory_size and (found.plain_size or (0, 0)) <= found.size
        assert found.proved == (found.size == found.memory_size)


def test_a_network_whose_structure_changes_with_its_size() -> None:
    # FCN8 crops one tensor or the other: a schedule at one size must not be taken for another size's.
    network = find_network("fcn8")
    found = max_input(PaperStep("paper.fcn8", 4, None), 4 * 10**9, options=BRIEF)
    graph = training_graph(network.network((*found.size, 3)), 4)
    report = check(graph, found.result.require_schedule().steps.tolist(), budget_bytes=4 * 10**9)
    assert report.ok and found.graph.fingerprint == graph.fingerprint


def test_questions_without_an_answer() -> None:
    with pytest.raises(BudgetBelowMinimumError):
        max_input(Made(chain, (1, 1)), 1000, options=BRIEF)
    with pytest.raises(UsageError, match="beyond"):
        max_input(Made(lambda size: chain((STEP, STEP)), (1, 1)), 10**9, options=BRIEF)
    with pytest.raises(CancelledError):
        max_input(Made(chain, (1, 1)), 10**6, options=BRIEF, cancelled=lambda: True)
