"""Test which budgets in requested bytes are tried for one on the meter.

The cheapest schedule that should fit is tried first, not the first one found.
"""

from __future__ import annotations

import dataclasses
import math
from random import Random
from types import SimpleNamespace

import pytest

from checkmate.backends.tf.measure.fresh_step import FreshMeasurement
from checkmate.errors import (
    BudgetBelowMinimumError,
    CheckmateError,
    InfeasibleError,
    SolveCancelledError,
    StepTooLargeError,
    VerificationError,
)
from checkmate.graphs.layers import training_chain
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.simulate import simulate
from checkmate.planning import known_minimum, measured, solve
from checkmate.planning.fitting import fit_budget as fitting
from checkmate.planning.fitting.fit_budget import BudgetFit, PredictedSearch
from checkmate.progress import Progress, Report, never, silent
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions
from checkmate.units import format_bytes

GRAPH = training_chain(20)
PEAK = simulate(GRAPH, Schedule.plain(GRAPH)).peak_bytes


def quick(graph: Graph, budget: int) -> SolveResult:
    return solve(graph, budget, solver="greedy", options=SolveOptions(time_limit_s=2.0))


class Meter:
    """Show a peak plus a part that differs for every schedule. It notes what it was asked."""

    def __init__(self, seed: int, most: float) -> None:
        self.random, self.most = Random(seed), most
        self.shown: dict[tuple[int, ...], int] = {}

    def __call__(self, steps: list[int]) -> int:
        peak = simulate(GRAPH, Schedule.of(GRAPH, steps)).peak_bytes
        return self.shown.setdefault(tuple(steps), int(peak * (1 + self.most * self.random.random())))

    def cheapest(self, allowed: int) -> float:
        fitting = [steps for steps, shown in self.shown.items() if shown <= allowed]
        return min(
            (simulate(GRAPH, Schedule.of(GRAPH, list(steps))).cost for steps in fitting), default=math.inf
        )


def targets(meter: Meter, allowed: int) -> PredictedSearch:
    return PredictedSearch(GRAPH, meter, allowed, quick, lambda progress: None, never)


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
        def __call__(self, steps: list[int]) -> int:
            peak = simulate(GRAPH, Schedule.of(GRAPH, steps)).peak_bytes
            more = 1.5 if len(self.shown) == 1 else 1.0  # the plain order is asked for first
            return self.shown.setdefault(tuple(steps), int(peak * more))

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
        def __call__(self, steps: list[int]) -> int:
            return super().__call__(steps) + 10 * PEAK

    found = targets(Hopeless(1, 0.1), int(0.7 * PEAK)).next()
    assert found is not None and found.expected > 0.7 * PEAK


@pytest.mark.parametrize("saved", [0.0, 0.5])
def test_another_order_of_the_steps_is_tried_before_another_schedule(saved: float) -> None:
    """Let half of what the meter adds go away when the steps are arranged."""
    allowed, goals = int(0.7 * PEAK), list[int]()
    arranged: set[int] = set()

    def meter(steps: list[int]) -> int:
        peak = simulate(GRAPH, Schedule.of(GRAPH, steps)).peak_bytes
        return int(peak * (1.2 - (0.2 * saved if len(steps) in arranged else 0.0)))

    def arrange(result: SolveResult, goal: int) -> SolveResult:
        goals.append(goal)
        arranged.add(len(result.require_schedule().steps))
        return result

    search = PredictedSearch(GRAPH, meter, allowed, quick, silent, never, arrange)
    found = search.next()
    assert found is not None and found.expected <= allowed and set(goals) <= {allowed}
    search.measured(found, found.expected + 3)
    goals.clear()
    assert search.next() is not None and set(goals) <= {allowed - 3}


def answered(
    allowed: int,
    answers: list[FreshMeasurement | StepTooLargeError],
    first: SolveResult | None = None,
    report: Report = silent,
) -> tuple:
    """Run ``fit`` on the chain with given answers of its measurements.

    Return what it found, the budgets solved for, and the schedules measured.
    """
    solved: list[int] = []
    run: list[Schedule] = []

    def note(graph: Graph, budget: int) -> SolveResult:
        solved.append(budget)
        return quick(graph, budget)

    def measure(request: object, schedule: Schedule, **_: object) -> FreshMeasurement:
        run.append(schedule)
        answer = answers.pop(0)
        if isinstance(answer, StepTooLargeError):
            raise answer
        return answer

    folded = SimpleNamespace(graph=GRAPH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "measure_fresh", measure)
        patch.setattr(fitting, "predicted_allocated", lambda f, graph, steps, history: peak(steps))
        patch.setattr(fitting.Arranger, "arranged", lambda arranger, result, goal: result)
        found = fitting.fit(
            ModelRequest("chain"),
            folded,
            (),
            allowed,
            solve=note,
            first=first,
            report=report,
            cancelled=never,
        )  # type: ignore[arg-type]
    return found, solved, run


def peak(steps: list[int]) -> int:
    return simulate(GRAPH, Schedule.of(GRAPH, steps)).peak_bytes


def shows(bytes_: int) -> FreshMeasurement:
    return FreshMeasurement(bytes_, bytes_, bytes_, 0.1, 1.0, "f", "cpu", "CPU:0")


ALLOWED = int(0.8 * PEAK)


def test_out_of_memory_counts_as_over_and_a_smaller_budget_is_solved() -> None:
    died = StepTooLargeError("the measuring process was ended by SIGKILL")
    needs = StepTooLargeError("no room", details={"needed_bytes": ALLOWED, "free_bytes": int(0.8 * ALLOWED)})
    found, _, run = answered(ALLOWED, [died, needs, shows(int(0.7 * ALLOWED))])
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
    over = [shows(int(ALLOWED * times)) for times in (1.2, 1.1, 1.3, 1.15)]
    said: list[Progress] = []
    found, _, run = answered(ALLOWED, over, report=said.append)
    told = [each.message for each in said if each.message.startswith("measured ")]
    assert len(told) == len(run) and told[0].endswith(
        f"{format_bytes(int(ALLOWED * 1.2) - ALLOWED)} over the budget"
    )
    with pytest.raises(VerificationError, match=f"after {len(run)} attempts the measured peak"):
        found.require_fit()
    assert found.measured is not None and found.measured.peak_bytes == int(ALLOWED * 1.1)


def test_a_given_schedule_that_fits_is_the_only_one_measured() -> None:
    first = quick(GRAPH, ALLOWED)
    found, solved, run = answered(ALLOWED, [shows(ALLOWED)], first)
    assert found.fits and found.result is first and solved == [] and len(run) == 1


def test_a_given_schedule_over_the_budget_on_the_meter_is_replaced() -> None:
    first = quick(GRAPH, ALLOWED)
    found, solved, run = answered(ALLOWED, [shows(int(1.03 * ALLOWED)), shows(ALLOWED)], first)
    assert found.fits and found.result is not first and max(solved) < ALLOWED
    assert peak(run[1].steps.tolist()) < peak(run[0].steps.tolist())


def test_a_given_schedule_that_should_be_far_over_is_not_run() -> None:
    plain = quick(GRAPH, PEAK)
    found, solved, run = answered(ALLOWED, [shows(ALLOWED)], plain)
    assert (
        found.fits and len(run) == 1 and peak(run[0].steps.tolist()) <= ALLOWED < plain.peak_bytes and solved
    )


def test_subtracting_too_much_for_chunks_does_not_prove_infeasibility() -> None:
    def strict(graph: Graph, budget: int) -> SolveResult:
        if budget < ALLOWED:
            raise BudgetBelowMinimumError(budget=budget, needed=ALLOWED, op="op")
        return quick(graph, budget)

    class Plainly(Meter):
        def __call__(self, steps: list[int]) -> int:
            return peak(steps) * (
                2 if len(steps) == GRAPH.n else 1
            )  # chunks add much to the plain order alone

    search = PredictedSearch(GRAPH, Plainly(0, 0.0), ALLOWED, strict, silent, never)
    found = search.next()
    assert found is not None and found.expected <= ALLOWED
    hopeless = PredictedSearch(GRAPH, Plainly(0, 0.0), ALLOWED - 1, strict, silent, never)
    with pytest.raises(InfeasibleError) as caught:
        hopeless.next()
    assert f"raise the budget to {known_minimum(GRAPH).bytes} B" in caught.value.hint


def test_the_margin_says_how_good_the_schedule_is() -> None:
    optimal = solve(GRAPH, PEAK, solver="keep-all")
    bounded = dataclasses.replace(optimal, status=SolveStatus.FEASIBLE, lower_bound=0.8 * GRAPH.base_cost)
    unknown = dataclasses.replace(bounded, lower_bound=None)
    words = [
        BudgetFit(PEAK + 1, result, PEAK, None, 1).margin.partition(":")[0]
        for result in (dataclasses.replace(bounded, status=SolveStatus.OPTIMAL), bounded, unknown)
    ]
    solved = f"solved for {format_bytes(PEAK)} of requested bytes"
    assert words == [
        f"{solved}, optimal (proved)",
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
    assert measured.goal_after_reload(goal, 1000, before, after) == expected


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
    fits: int, error: CheckmateError, outcome: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reload every export over the budget; find ``fits`` schedules in all."""
    goals: list[int] = []

    def fit(step: object, goal: int, *rest: object) -> SimpleNamespace:
        goals.append(goal)
        if len(goals) > fits:
            raise error
        shown = SimpleNamespace(peak_bytes=goal)
        return SimpleNamespace(require_fit=lambda: shown, result=f"written {len(goals)}", margin="")

    report = SimpleNamespace(peak_bytes={"reloaded_measured": 1100})
    monkeypatch.setattr(measured, "_fitted", fit)
    monkeypatch.setattr(measured, "_allowed_bytes", lambda *_: 1000)
    monkeypatch.setattr(measured, "write_folder", lambda *_: report)
    for name in ("predicted_share_note", "replaced_note", "costs_note", "doubts_note"):
        monkeypatch.setattr(measured, name, lambda *_: ())
    traced = SimpleNamespace(loaded=SimpleNamespace(notes=()))
    step = SimpleNamespace(plain=None, graph=GRAPH, report=silent, folded=SimpleNamespace(traced=traced))
    if isinstance(outcome, str):
        assert measured._within_budget(step, None, None, solver=None).result == outcome
    else:
        with pytest.raises(outcome, match=str(error)):
            measured._within_budget(step, None, None, solver=None)
    assert goals == sorted(goals, reverse=True) and len(goals) == fits + 1
