"""Which budgets in requested bytes are tried for one on the meter: the cheapest schedule that should fit, not the first."""

from __future__ import annotations

import math
from random import Random

import pytest

from checkmate.graphs.generate import training_chain
from checkmate.ir import Graph, Schedule, SolveResult
from checkmate.pipeline import solve
from checkmate.progress import never
from checkmate.simulate import simulate
from checkmate.solvers.problem import SolveOptions
from checkmate.tf.fit import Targets

GRAPH = training_chain(20)
PEAK = simulate(GRAPH, Schedule.of(GRAPH, list(range(GRAPH.n)))).peak_bytes


def quick(graph: Graph, budget: int) -> SolveResult:
    return solve(graph, budget, solver="greedy", options=SolveOptions(time_limit_s=2.0))


class Meter:
    """Shows the peak and some more, differently much for every schedule; notes what it was asked."""

    def __init__(self, seed: int, most: float) -> None:
        self.random, self.most = Random(seed), most
        self.shown: dict[tuple[int, ...], int] = {}

    def __call__(self, steps: list[int]) -> int:
        peak = simulate(GRAPH, Schedule.of(GRAPH, steps)).peak_bytes
        return self.shown.setdefault(tuple(steps), int(peak * (1 + self.most * self.random.random())))

    def cheapest(self, allowed: int) -> float:
        fitting = [steps for steps, shown in self.shown.items() if shown <= allowed]
        return min((simulate(GRAPH, Schedule.of(GRAPH, list(steps))).cost for steps in fitting), default=math.inf)


def targets(meter: Meter, allowed: int) -> Targets:
    return Targets(GRAPH, meter, allowed, quick, lambda progress: None, never)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("most", [0.02, 0.4])
def test_the_cheapest_of_those_that_should_fit(seed: int, most: float) -> None:
    meter, allowed = Meter(seed, most), int(0.7 * PEAK)
    found = targets(meter, allowed).next(1)
    assert found is not None and found.result.schedule is not None
    if meter.cheapest(allowed) < math.inf:
        assert found.expected <= allowed
        assert found.cost <= meter.cheapest(allowed)


def test_what_the_meter_adds_is_not_taken_off_twice() -> None:
    # The first schedule shows half as much again, all others nothing more than they ask for.
    class Jumpy(Meter):
        def __call__(self, steps: list[int]) -> int:
            peak = simulate(GRAPH, Schedule.of(GRAPH, steps)).peak_bytes
            more = 1.5 if len(self.shown) == 1 else 1.0  # the plain order is asked for first
            return self.shown.setdefault(tuple(steps), int(peak * more))

    allowed = int(0.7 * PEAK)
    found = targets(Jumpy(0, 0), allowed).next(1)
    assert found is not None
    assert found.expected <= allowed
    # All that was tried lies between what fits and what did not: it ends near the budget, not 15 % below it.
    assert found.result.budget_bytes >= 0.9 * allowed


def test_a_surprise_on_the_meter_lowers_the_next_one() -> None:
    allowed = int(0.7 * PEAK)
    search = targets(Meter(0, 0.0), allowed)
    first = search.next(1)
    assert first is not None
    search.learn(first, int(allowed * 1.05))
    second = search.next(2)
    assert second is not None
    assert second.expected + (int(allowed * 1.05) - first.expected) <= allowed
    assert second.result.budget_bytes < first.result.budget_bytes


def test_where_nothing_fits_the_closest_is_returned() -> None:
    class Hopeless(Meter):
        def __call__(self, steps: list[int]) -> int:
            return super().__call__(steps) + 10 * PEAK

    found = targets(Hopeless(1, 0.1), int(0.7 * PEAK)).next(1)
    assert found is not None and found.expected > 0.7 * PEAK
