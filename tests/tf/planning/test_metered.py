"""Test which budgets in requested bytes are tried for one on the meter, and when a folder is written anew.

The cheapest schedule that should fit is tried first, not the first one found.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from checkmate.backends.protocol import Allowed, Fitted
from checkmate.errors import (
    BudgetBelowMinimumError,
    CheckmateError,
    InfeasibleError,
    SolveCancelledError,
    StepTooLargeError,
    VerificationError,
)
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.simulate import simulate
from checkmate.planning import known_minimum, metered, solve
from checkmate.planning.exporting import exported_within, goal_after_reload
from checkmate.planning.metered import BudgetFit, PredictedSearch, fit_metered
from checkmate.progress import Cancelled, Progress, Report, never, silent
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget, format_bytes
from tests.generated_graphs import training_chain

GRAPH = training_chain(20)
PEAK = simulate(GRAPH, Schedule.plain(GRAPH)).peak_bytes


def peak(steps: Sequence[int]) -> int:
    return simulate(GRAPH, Schedule.of(GRAPH, list(steps))).peak_bytes


def quick(graph: Graph, budget: int) -> SolveResult:
    return solve(graph, budget, solver="greedy", options=SolveOptions(time_limit_s=2.0))


@dataclass(frozen=True, eq=False)
class Solver:
    """A quick solver. ``asked``: for how many bytes, in order; below ``least`` one op does not fit."""

    report: Report = silent
    least: int = 0
    asked: list[int] = field(default_factory=list)
    cancelled: Cancelled = never

    def solve_above_minimum(self, graph: Graph, budget_bytes: int) -> SolveResult:
        self.asked.append(budget_bytes)
        if budget_bytes < self.least:
            raise BudgetBelowMinimumError(budget=budget_bytes, needed=self.least, op="op")
        return quick(graph, budget_bytes)


@dataclass(frozen=True, eq=False)
class Replica:
    """Predicts what ``meter`` says. Another order of the steps is never better."""

    meter: Callable[[Sequence[int]], int] = peak
    graph: Graph = GRAPH

    def predicted(self, steps: Sequence[int]) -> int:
        return self.meter(steps)

    def requests(self, steps: Sequence[int]) -> Any:
        raise AssertionError("no order of the steps is looked for here")

    before = requests


@pytest.fixture(autouse=True)
def _keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metered, "arranged", lambda replica, result, goal, cancelled: result)


class Meter:
    """Show a peak plus a part that differs for every schedule. It notes what it was asked."""

    def __init__(self, seed: int, most: float) -> None:
        self.random, self.most = Random(seed), most
        self.shown: dict[tuple[int, ...], int] = {}

    def __call__(self, steps: Sequence[int]) -> int:
        more = 1 + self.most * self.random.random()
        return self.shown.setdefault(tuple(steps), int(peak(steps) * more))

    def cheapest(self, allowed: int) -> float:
        fitting = [steps for steps, shown in self.shown.items() if shown <= allowed]
        return min(
            (simulate(GRAPH, Schedule.of(GRAPH, list(steps))).cost for steps in fitting), default=math.inf
        )


def targets(meter: Callable[[Sequence[int]], int], allowed: int) -> PredictedSearch:
    return PredictedSearch(Replica(meter), allowed, Solver())


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("most", [0.02, 0.4])
def test_the_cheapest_schedule_that_should_fit(seed: int, most: float) -> None:
    meter, allowed = Meter(seed, most), int(0.7 * PEAK)
    found = targets(meter, allowed).next()
    assert found is not None and found.result.schedule is not None
    if meter.cheapest(allowed) < math.inf:
        assert found.expected <= allowed
        assert found.cost <= meter.cheapest(allowed)


def test_bytes_that_the_meter_adds_are_not_subtracted_twice() -> None:
    # The first schedule shows half as much again; all others show only what they ask for.
    class Jumpy(Meter):
        def __call__(self, steps: Sequence[int]) -> int:
            more = 1.5 if len(self.shown) == 1 else 1.0  # the plain order is asked for first
            return self.shown.setdefault(tuple(steps), int(peak(steps) * more))

    allowed = int(0.7 * PEAK)
    found = targets(Jumpy(0, 0), allowed).next()
    assert found is not None
    assert found.expected <= allowed
    # All tries lie between what fits and what did not: the search ends near the budget, not 15 % below it.
    assert found.result.budget_bytes >= 0.9 * allowed


def test_a_peak_above_its_prediction_lowers_the_next_target() -> None:
    allowed = int(0.7 * PEAK)
    search = targets(Meter(0, 0.0), allowed)
    first = search.next()
    assert first is not None
    search.measured(first, int(allowed * 1.05))
    second = search.next()
    assert second is not None
    assert second.expected + (int(allowed * 1.05) - first.expected) <= allowed
    assert second.result.budget_bytes < first.result.budget_bytes


def test_the_closest_schedule_is_returned_if_none_fits() -> None:
    class Hopeless(Meter):
        def __call__(self, steps: Sequence[int]) -> int:
            return super().__call__(steps) + 10 * PEAK

    found = targets(Hopeless(1, 0.1), int(0.7 * PEAK)).next()
    assert found is not None and found.expected > 0.7 * PEAK


@pytest.mark.parametrize("saved", [0.0, 0.5])
def test_another_order_of_the_steps_is_tried_before_another_schedule(
    saved: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let half of what the meter adds go away when the steps are arranged."""
    allowed, goals = int(0.7 * PEAK), list[int]()
    arranged: set[int] = set()

    def meter(steps: Sequence[int]) -> int:
        return int(peak(steps) * (1.2 - (0.2 * saved if len(steps) in arranged else 0.0)))

    def arrange(replica: Any, result: SolveResult, goal: int, cancelled: Cancelled) -> SolveResult:
        goals.append(goal)
        arranged.add(len(result.require_schedule().steps))
        return result

    monkeypatch.setattr(metered, "arranged", arrange)
    search = PredictedSearch(Replica(meter), allowed, Solver())
    found = search.next()
    assert found is not None and found.expected <= allowed and set(goals) <= {allowed}
    search.measured(found, allowed + 3)
    goals.clear()
    assert search.next() is not None and set(goals) <= {allowed - (allowed + 3 - found.expected)}


@pytest.mark.parametrize(
    ("share", "used", "enough"),
    [
        (0.8, 0.971, True),
        (0.8, 0.9, False),
        (1.0, 0.5, True),  # nothing is cheaper than computing everything once
    ],
)
def test_a_round_ends_where_the_limit_is_nearly_used_or_nothing_is_cheaper(
    share: float, used: float, enough: bool
) -> None:
    allowed, solver = int(share * PEAK), Solver()

    def meter(steps: Sequence[int]) -> int:
        return PEAK if len(steps) == GRAPH.n else math.ceil(used * allowed)

    found = PredictedSearch(Replica(meter), allowed, solver).next()
    assert found is not None and found.expected <= allowed
    assert (len(solver.asked) == 1) is enough


def test_a_round_has_no_more_solves_than_it_may() -> None:
    """Show less for each next schedule, and always too much."""
    shown = iter(range(20 * PEAK, 0, -1))
    solver = Solver()
    known: dict[tuple[int, ...], int] = {}

    def meter(steps: Sequence[int]) -> int:
        return PEAK if len(steps) == GRAPH.n else known.setdefault(tuple(steps), next(shown))

    found = PredictedSearch(Replica(meter), int(0.8 * PEAK), solver).next()
    assert found is not None and found.expected == min(known.values())
    assert len(solver.asked) <= metered._SOLVES


def test_a_few_measurements_are_enough_where_the_meter_shows_more_than_was_predicted() -> None:
    """Let the meter show 1.05 bytes for each that ops request by prediction, and 1.1 for those in truth."""
    graph = training_chain(60)
    allowed, shown = int(0.7 * simulate(graph, Schedule.plain(graph)).peak_bytes), list[int]()

    def meter(steps: Sequence[int]) -> int:
        return int(1.05 * simulate(graph, Schedule.of(graph, list(steps))).peak_bytes)

    solver = Solver()
    search = PredictedSearch(Replica(meter, graph), allowed, solver)
    while not shown or shown[-1] > allowed:
        found = search.next()
        assert found is not None and len(shown) < 4
        shown.append(int(1.1 * found.expected))
        search.measured(found, shown[-1])
    assert len(shown) == 2 and shown[-1] > 0.93 * allowed
    assert len(solver.asked) <= 4


def answered(
    allowed: int,
    answers: list[int | StepTooLargeError],
    first: SolveResult | None = None,
    report: Report = silent,
    in_turn: Callable[[Fitted], Fitted] = lambda fitted: fitted,
) -> tuple[BudgetFit, list[int], list[Schedule]]:
    """Fit the chain with given answers of its measurements; ``in_turn``: of ops one after another.

    Return what was found, the budgets solved for, and the schedules measured.
    """
    run: list[Schedule] = []

    def measure(result: SolveResult, what: str, *, within: int) -> Fitted:
        assert within == allowed
        run.append(result.require_schedule())
        answer = answers.pop(0)
        if isinstance(answer, StepTooLargeError):
            raise answer
        return Fitted(result, answer, ())

    step: Any = SimpleNamespace(
        replica=Replica(), measure=measure, in_turn=lambda fitted, within: in_turn(fitted)
    )
    solver = Solver(report)
    return fit_metered(step, solver, allowed, first), solver.asked, run


ALLOWED = int(0.8 * PEAK)


def test_out_of_memory_counts_as_over_and_a_smaller_budget_is_solved() -> None:
    died = StepTooLargeError("the measuring process was ended by SIGKILL")
    needs = StepTooLargeError("no room", details={"needed_bytes": ALLOWED, "free_bytes": int(0.8 * ALLOWED)})
    found, _, run = answered(ALLOWED, [died, needs, int(0.7 * ALLOWED)])
    assert found.fits and found.attempts == 3
    first, second, third = (peak(schedule.steps.tolist()) for schedule in run)
    assert second <= first - 0.04 * ALLOWED  # by a share if nothing is said,
    assert third <= 0.82 * ALLOWED  # and by the bytes that are said to be missing


def test_the_result_says_that_every_schedule_ran_out_of_memory() -> None:
    found, _, run = answered(ALLOWED, [StepTooLargeError("no room at all") for _ in range(4)])
    assert not found.fits and found.measured is None and found.ran_out == "no room at all"
    assert len(run) == 4
    with pytest.raises(
        VerificationError, match="fits the device's memory: no room at all; nothing was written"
    ):
        found.require_fit()


def test_the_error_counts_every_attempt_not_those_up_to_the_best() -> None:
    over: list[Any] = [int(ALLOWED * times) for times in (1.2, 1.1, 1.3, 1.15)]
    said: list[Progress] = []
    found, _, run = answered(ALLOWED, over, report=said.append)
    told = [each.message for each in said if each.message.startswith("measured ")]
    assert len(told) == len(run) and told[0].endswith(
        f"{format_bytes(int(ALLOWED * 1.2) - ALLOWED)} over the budget"
    )
    with pytest.raises(VerificationError, match=f"after {len(run)} attempts the measured peak"):
        found.require_fit()
    assert found.measured is not None and found.measured.expected_bytes == int(ALLOWED * 1.1)


def test_ops_run_one_after_another_where_side_by_side_they_show_far_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turned: list[Fitted] = []

    def in_turn(fitted: Fitted) -> Fitted:
        turned.append(fitted)
        return dataclasses.replace(fitted, expected_bytes=ALLOWED)

    found, _, run = answered(ALLOWED, [int(1.2 * ALLOWED)], in_turn=in_turn)
    assert found.fits and len(run) == len(turned) == 1
    # Where they show little more, another schedule is solved for,
    turned.clear()
    monkeypatch.setattr(metered, "APART", 2.0)
    found, _, run = answered(ALLOWED, [ALLOWED + 1, ALLOWED], in_turn=in_turn)
    assert found.fits and len(run) == 2 and not turned
    # and they run so where none is found.
    found, _, run = answered(ALLOWED, [ALLOWED + 1] * 4, in_turn=in_turn)
    assert found.fits and len(run) > 1 and turned


def test_a_given_schedule_that_fits_is_the_only_one_measured() -> None:
    first = quick(GRAPH, ALLOWED)
    found, solved, run = answered(ALLOWED, [ALLOWED], first)
    assert found.fits and found.result is first and solved == [] and len(run) == 1


def test_a_given_schedule_over_the_budget_on_the_meter_is_replaced() -> None:
    first = quick(GRAPH, ALLOWED)
    found, solved, run = answered(ALLOWED, [int(1.03 * ALLOWED), ALLOWED], first)
    assert found.fits and found.result is not first and max(solved) < ALLOWED
    assert peak(run[1].steps.tolist()) < peak(run[0].steps.tolist())


def test_a_given_schedule_that_should_be_far_over_is_not_run() -> None:
    plain = quick(GRAPH, PEAK)
    found, solved, run = answered(ALLOWED, [ALLOWED], plain)
    assert (
        found.fits and len(run) == 1 and peak(run[0].steps.tolist()) <= ALLOWED < plain.peak_bytes and solved
    )


@pytest.mark.parametrize(("over", "run"), [(20, True), (21, False)])
def test_a_given_schedule_may_be_over_by_the_error_of_a_prediction(over: int, run: bool) -> None:
    plain = quick(GRAPH, PEAK)
    search = PredictedSearch(Replica(lambda steps: 1000 + over), 1000, Solver())
    assert (search.given(plain) is not None) is run
    assert search.last is plain


def test_subtracting_too_much_for_chunks_does_not_prove_infeasibility() -> None:
    def plainly(steps: Sequence[int]) -> int:
        return peak(steps) * (2 if len(steps) == GRAPH.n else 1)  # chunks add much to the plain order alone

    strict = Solver(least=ALLOWED)
    found = PredictedSearch(Replica(plainly), ALLOWED, strict).next()
    assert found is not None and found.expected <= ALLOWED
    hopeless = PredictedSearch(Replica(plainly), ALLOWED - 1, strict)
    with pytest.raises(InfeasibleError) as caught:
        hopeless.next()
    assert f"raise the budget to {known_minimum(GRAPH).bytes} B" in caught.value.hint


def test_the_margin_says_how_good_the_schedule_is() -> None:
    optimal = solve(GRAPH, PEAK, solver="keep-all")
    bounded = dataclasses.replace(optimal, status=SolveStatus.FEASIBLE, lower_bound=0.8 * GRAPH.base_cost)
    unknown = dataclasses.replace(bounded, lower_bound=None)
    words = [
        BudgetFit(PEAK + 1, result, None, 1).margin.partition(":")[0]
        for result in (dataclasses.replace(bounded, status=SolveStatus.OPTIMAL), bounded, unknown)
    ]
    solved = f"solved for {format_bytes(PEAK)} of requested bytes"
    assert words == [
        f"{solved}, optimal (proved for the graph's sizes and costs)",
        f"{solved}, at most 25 % above the least possible cost",
        solved,
    ]


@pytest.mark.parametrize(
    ("goal", "before", "after", "expected"),
    [
        (1000, 1000, 1020, 975),  # by the difference: 20 over, and 5 to spare
        (1000, 900, 1100, 814),  # by the ratio: it grew by two ninths when it was loaded
        (800, 780, 1005, 772),
    ],
)
def test_the_goal_after_a_reload_that_is_over(goal: int, before: int, after: int, expected: int) -> None:
    assert goal_after_reload(goal, 1000, before, after) == expected


@pytest.mark.parametrize(
    ("fits", "error", "outcome"),
    [
        (1, BudgetBelowMinimumError(budget=1, needed=2, op="add"), "written 1"),
        (2, VerificationError("still over"), "written 2"),
        (0, VerificationError("still over"), VerificationError),
        (1, SolveCancelledError("cancelled"), SolveCancelledError),
    ],
)
def test_an_export_stays_if_nothing_smaller_is_found(
    fits: int, error: CheckmateError, outcome: object
) -> None:
    """Reload every export over the budget; find ``fits`` schedules in all."""
    step = Exporting(fits, error, [1100] * fits)
    if isinstance(outcome, str):
        assert exported_within(step, Budget(), Path()).result == outcome
    else:
        with pytest.raises(outcome, match=str(error)):
            exported_within(step, Budget(), Path())
    assert step.goals == sorted(step.goals, reverse=True) and len(step.goals) == fits + 1
    assert step.firsts == [True, *[False] * fits]


@pytest.mark.parametrize(
    ("reloaded", "written", "goals"),
    [
        ([1000], "written 1", 1),
        ([1100, 1000], "written 2", 2),
        ([None, 1000], "written 2", 2),  # the reloaded step had no memory
        ([1100, None, None, None], "written 1", 4),
        ([None, None, None, 1100], "written 4", 4),
        ([1100] * 4, "written 4", 4),
        ([None] * 4, None, 4),
    ],
)
def test_a_folder_is_written_until_the_reloaded_step_keeps_the_budget(
    reloaded: list[int | None], written: str | None, goals: int
) -> None:
    step: Any = Exporting(4, VerificationError("still over"), reloaded)
    if written is None:
        with pytest.raises(StepTooLargeError):
            exported_within(step, Budget(), Path())
    else:
        assert exported_within(step, Budget(), Path()).result == written
    assert step.goals == sorted(set(step.goals), reverse=True) and len(step.goals) == goals
    assert set(step.told) <= {("of the budget", "of the fit")}


class Exporting:
    """A step of which ``fits`` schedules are found, and then an error.

    ``reloaded``: what each shows when it is loaded again; None: it has no memory. 1000 bytes are allowed.
    """

    graph, report = GRAPH, staticmethod(silent)
    step = property(lambda self: self)

    def __init__(self, fits: int, error: CheckmateError, reloaded: Sequence[int | None]) -> None:
        self._fits, self._error, self._reloaded = fits, error, reloaded
        self.goals: list[int] = []
        self.firsts: list[bool] = []
        self.told: list[tuple[str, ...]] = []

    def allowed(self, budget: Budget) -> Allowed:
        return Allowed(1000, ("of the budget",))

    def fit(self, goal: int, allowed: int, *, first: bool) -> SimpleNamespace:
        assert allowed == 1000
        self.goals.append(goal)
        self.firsts.append(first)
        if len(self.goals) > self._fits:
            raise self._error
        written = f"written {len(self.goals)}"
        return SimpleNamespace(result=written, expected_bytes=goal, notes=("of the fit",))

    def export(self, fitted: object, directory: Path, allowed: int, notes: tuple[str, ...]) -> Any:
        self.told.append(notes)
        shown = self._reloaded[len(self.goals) - 1]
        if shown is None:
            raise StepTooLargeError("the reloaded step has no memory")
        return SimpleNamespace(peak_bytes={"measured": 900, "reloaded_measured": shown})
