"""Test where the search for a plan goes on and ends.

The measurements are made up for it.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from checkmate.backends.tf.live.measure import StepMeasurement
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.simulate import simulate
from checkmate.planning import solve
from checkmate.progress import silent
from checkmate.training.limit import Limit
from checkmate.training.search import PlanSearch
from checkmate.training.trials import TriedStep
from tests.graphs_strategies import training_chain

CHAIN = training_chain(16)
GRAPH = dataclasses.replace(CHAIN, fixed={**CHAIN.fixed, "inputs": 0})


class MadeUp:
    """Trials whose allocator holds what ops request, and ``lost`` bytes."""

    def __init__(self, lost: dict[int, int]) -> None:
        self.graph, self.step, self.report = GRAPH, SimpleNamespace(graph=GRAPH), silent
        self.rate, self.held, self.carried, self.plain = 1.0, 0, False, None
        self.all: list[TriedStep] = []
        self._lost = lost  # of a schedule of so many steps

    def run(self, schedule: Schedule, what: str, *, within: int | None = None) -> TriedStep:
        peak = simulate(GRAPH, schedule).peak_bytes + self._lost.get(len(schedule.steps), 0)
        self.all.append(TriedStep(schedule, StepMeasurement(peak, 0), 0))
        return self.all[-1]

    def cost(self, tried: TriedStep) -> float:
        return tried.cost(self.graph)


def answered(schedule: Schedule) -> SolveResult:
    found = simulate(GRAPH, schedule)
    status = SolveStatus.FEASIBLE
    return SolveResult(status, "test", 0, GRAPH.base_cost, schedule, found.cost, found.peak_bytes)


def searching(trials: Any, room: int) -> PlanSearch:
    search = PlanSearch(trials, Limit(room), SimpleNamespace())  # type: ignore[arg-type]
    search.cautious = False
    return search


def solved(graph: Graph, budget: int) -> Schedule:
    return solve(graph, budget, solver="greedy").require_schedule()


def test_a_dear_first_schedule_that_uses_the_budget_is_not_the_end() -> None:
    plain = simulate(GRAPH, Schedule.plain(GRAPH)).peak_bytes
    room = int(0.8 * plain)
    dear, cheap = solved(GRAPH, int(0.6 * plain)), solved(GRAPH, room)
    assert simulate(GRAPH, cheap).cost < simulate(GRAPH, dear).cost
    # The allocator loses so much for the dear one that it shows all of the budget.
    trials = MadeUp({len(dear.steps): room - simulate(GRAPH, dear).peak_bytes})
    search = searching(trials, room)
    search._begun = trials.run(dear, "a first schedule")
    assert search.fitted
    asks = search.corrections()
    first = next(asks)
    # A schedule on what the ops took is over the budget: it aims lower, though the first one fits.
    second = asks.send(answered(Schedule.plain(GRAPH)))
    assert second.target < first.target
    with suppress(StopIteration):
        asks.send(answered(cheap))
    assert search.best_fitting() is trials.all[-1]
