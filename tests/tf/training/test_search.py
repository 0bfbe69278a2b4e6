"""Test where the search for a plan goes on and ends.

The measurements are made up for it.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from checkmate.backends.tf.live.measure import StepMeasurement
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.simulate import simulate
from checkmate.planning import solve
from checkmate.progress import silent
from checkmate.request import OnMiss
from checkmate.training.limit import Limit
from checkmate.training.search import PlanSearch
from checkmate.training.trials import TriedStep
from tests.graphs_strategies import training_chain

CHAIN = training_chain(16)
GRAPH = dataclasses.replace(CHAIN, fixed={**CHAIN.fixed, "inputs": 0})


class MadeUp:
    """Trials whose allocator holds what ops request, ``lost`` bytes, and ``beside`` where they run side by
    side."""

    def __init__(self, lost: dict[int, int], beside: int = 0) -> None:
        self.graph, self.step, self.report = GRAPH, SimpleNamespace(graph=GRAPH), silent
        self.rate, self.held, self.carried, self.plain = 1.0, 0, False, None
        self.all: list[TriedStep] = []
        self._lost, self._beside = lost, beside  # the first of a schedule of so many steps

    def run(self, schedule: Schedule, what: str, *, within: int | None = None) -> TriedStep:
        lost = self._lost.get(len(schedule.steps), 0) + self._beside
        peak = simulate(GRAPH, schedule).peak_bytes + lost
        self.all.append(TriedStep(schedule, StepMeasurement(peak, 0), 0, in_turn=not self._beside))
        return self.all[-1]

    def take_turns(self, schedule: Schedule) -> bool:
        before, self._beside = self._beside, 0
        return before > 0

    def way(self, *, in_turn: bool) -> Any:
        return SimpleNamespace(
            layout=None, graph=GRAPH, unscheduled=None, folded=SimpleNamespace(in_turn=in_turn)
        )

    def time_plain(self) -> None:
        self.timed = True

    def time_again(self, tried: TriedStep) -> TriedStep:
        return tried

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


def test_a_plain_step_that_fits_goes_before_a_schedule_that_recomputes_nothing() -> None:
    plain = simulate(GRAPH, Schedule.plain(GRAPH)).peak_bytes
    trials = MadeUp({})
    search = searching(trials, 2 * plain)
    trials.run(Schedule.plain(GRAPH), "a first schedule")
    trials.all.append(TriedStep(None, StepMeasurement(plain + 1, 0), 0))
    assert search.best_fitting() is trials.all[-1]


def nothing_fits(trials: MadeUp, room: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what is chosen where one schedule was tried, and the least memory is none better."""
    least = solved(GRAPH, room)
    monkeypatch.setattr(PlanSearch, "_find_least", lambda search: SimpleNamespace(schedule=least))
    monkeypatch.setattr(PlanSearch, "plan_of", lambda search, tried: tried)
    search = searching(trials, room)
    search.request = SimpleNamespace(on_miss=OnMiss.CLOSEST)  # type: ignore[assignment]
    search._begun = trials.run(least, "a first schedule")
    return search.chosen()


def test_ops_run_one_after_another_before_a_budget_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    room = int(0.8 * simulate(GRAPH, Schedule.plain(GRAPH)).peak_bytes)
    trials = MadeUp({}, beside=room)
    chosen = nothing_fits(trials, room, monkeypatch)
    assert chosen is trials.all[-1] and chosen.peak_bytes <= room
    assert chosen.steps == trials.all[0].steps and trials.all[0].peak_bytes > room


def test_a_plan_runs_as_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkmate.training.search.sentence_of", lambda *_: "")
    monkeypatch.setattr(PlanSearch, "around", 0)
    schedule = Schedule.plain(GRAPH)
    trials = MadeUp({}, beside=1)
    trials.step = trials.way(in_turn=False)
    side_by_side = trials.run(schedule, "side by side")
    assert trials.take_turns(schedule)
    in_turn = trials.run(schedule, "in turn")
    search = searching(trials, 2 * in_turn.peak_bytes)
    assert search.plan_of(in_turn).in_turn and not search.plan_of(side_by_side).in_turn


@pytest.mark.parametrize(("saved", "trains_plainly"), [(0.1, False), (0.03, True), (-0.2, True)])
def test_a_schedule_over_the_budget_that_hardly_saves_memory_is_not_worth_its_time(
    saved: float, trains_plainly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = int(0.8 * simulate(GRAPH, Schedule.plain(GRAPH)).peak_bytes)
    trials = MadeUp(dict.fromkeys(range(100), room))
    shown = simulate(GRAPH, solved(GRAPH, room)).peak_bytes + room
    lowest = int(shown / (1 - saved))
    trials.plain = TriedStep(None, StepMeasurement(2 * lowest, 0, least_bytes=lowest), 0)
    chosen = nothing_fits(trials, room, monkeypatch)
    assert (chosen is trials.plain) is trains_plainly
