"""Test the comparison of a step that is not Keras's with the plain one.

What it returns and its variables are compared, after a few steps from the same state.
"""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkmate import planning
from checkmate.backends.outcomes import Outcome, compared
from checkmate.backends.tf import executor_step
from checkmate.backends.tf.comparing import RESULTS, Compared
from checkmate.backends.tf.costs.profile import analytic_costs
from checkmate.backends.tf.executor_step import ExecutorStep
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement
from checkmate.backends.tf.plain import Plain
from checkmate.backends.tf.tf_step import retraced_step
from checkmate.backends.tf.trace.of_request import trace_request, with_kernels_of
from checkmate.backends.tf.verification_report import Measurements, gradients_equal, verification_report
from checkmate.formats.schedule import write_report
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from tests.tf.task_process import TaskProcess

MODELS = Path(__file__).parents[1] / "step_models.py"


@cache
def scheduled(program: str) -> tuple[ModelRequest, Any, Any]:
    """Return the request, the folded step, and a schedule that recomputes."""
    request = ModelRequest(f"{MODELS}:{program}", batch_size=8, allow_code=True, device="cpu")
    folded = trace_request(request, report=silent, cancelled=never)
    graph = analytic_costs(folded)
    budget = int(0.75 * planning.keep_everything_peak(graph))
    schedule = planning.solve(graph, budget, solver="greedy").require_schedule()
    assert schedule.recomputations > 0
    return with_kernels_of(request, graph), dataclasses.replace(folded, graph=graph), schedule


@pytest.mark.heavy
@pytest.mark.parametrize(("program", "results"), [("sized_step", 1), ("autoencoder", 1)])
def test_a_scheduled_step_is_bitwise_the_plain_one(program: str, results: int, process: TaskProcess) -> None:
    request, folded, schedule = scheduled(program)
    task = {"do": "compare", "request": request.to_json(), "steps": schedule.steps.tolist(), "exact": True}
    found = process.ask(task)
    assert found["bitwise"] and found["state_bitwise"] and found["whole_equal"]
    assert found["steps"] == 2
    assert found["gradients"] == 2 * results + len(folded.traced.variables)
    plain, optimized = found["loss"]["plain"], found["loss"]["optimized"]
    assert plain == optimized and (plain is None) == (program == "sized_step")
    assert gradients_equal({"exact": found})


def outcome(**changed: Any) -> Outcome:
    values = {"loss of step 1": np.float32(0.5), "weight": np.ones(9, np.float32), "count": np.int64(2)}
    values |= {"undefined": np.array([np.nan], np.float32), **changed}
    arrays = [np.asarray(value) for value in values.values()]
    return Outcome(0.5, tuple(values), arrays, arrays[1:], 2)


def test_every_difference_is_seen() -> None:
    same = compared(outcome(), outcome(), outcome())
    assert same["bitwise"] and same["state_bitwise"] and gradients_equal({"exact": same})
    count = compared(outcome(), outcome(), outcome(count=np.int64(3)))
    assert not count["bitwise"] and not count["state_bitwise"] and not count["whole_equal"]
    # Even within the rounding of sums, a counter has to be the same.
    assert not gradients_equal({"exact": {**count, "sum_rounding": 1.0, "overall_relative_error": 0.0}})
    weight = np.ones(9, np.float32)
    weight[3] += 0.01
    moved = compared(outcome(undefined=0.0), outcome(undefined=0.0), outcome(undefined=0.0, weight=weight))
    assert moved["worst"]["name"] == "weight" and moved["whole_equal"]
    assert not moved["bitwise"] and not gradients_equal({"exact": {**moved, "sum_rounding": 1e-6}})


def test_what_is_not_finite_is_compared_and_kept_out_of_the_file() -> None:
    weight, infinite = np.ones(9, np.float32), np.full(9, np.inf, np.float32)
    weight[0] = infinite[0] = np.nan
    plain = outcome(weight=weight, best=np.inf)
    same = compared(plain, plain, outcome(weight=weight, best=np.inf))
    assert same["bitwise"] and same["overall_relative_error"] == same["worst"]["relative_error"] == 0.0
    assert same["worst_of_largest"]["error"] == 0.0
    moved = compared(plain, plain, outcome(weight=2 * weight, best=np.inf))
    assert moved["worst"] == {"name": "weight", "relative_error": pytest.approx(1.0, rel=0.1)}
    apart = compared(plain, plain, outcome(weight=infinite, best=np.inf))
    assert apart["worst"] == {"name": "weight", "relative_error": np.inf}
    assert not gradients_equal({"exact": apart})
    # The plain step itself is not finite each time: that allows for nothing.
    assert not gradients_equal({"exact": {**apart, "plain_rerun_relative_error": np.inf}})


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, None),
        (
            {"weight": np.full(9, np.nan, np.float32)},
            "weight is infinite or not a number where the plain step's is not, or the other way round",
        ),
        ({"count": np.int64(3)}, "a whole number among the variables and results is not the plain step's"),
        ({"weight": 2 * np.ones(9, np.float32)}, "weight differs by 1 (relative)"),
    ],
)
def test_the_report_says_what_was_compared(
    changed: dict[str, Any], problem: str | None, tmp_path: Path
) -> None:
    request, folded, schedule = scheduled("sized_step")
    run = outcome(undefined=0.0, **changed)
    found = {**compared(outcome(undefined=0.0), outcome(undefined=0.0), run), "sum_rounding": 0.0}
    found["loss"] = {"plain": 0.5, "optimized": float("nan")}
    step = FreshMeasurement(2**20, 2**20, 2**20, 0.01, None, "", "a CPU", "CPU:0")
    report = verification_report(
        request,
        folded.graph,
        schedule,
        Measurements(
            Plain(2**21, (), 8, measured=step),
            step,
            Compared({"exact": found, "usual": found}, 8, "cpu", what=RESULTS),
        ),
        budget_bytes=2**20,
    )
    assert report.problems == (() if problem is None else (problem,))
    assert (report.gradients["compared"], report.gradients["steps"]) == ("variables and results", 2)
    assert report.gradients["equal"] is (problem is None)
    write_report(tmp_path / "report.json", report)
    told = json.loads((tmp_path / "report.json").read_text())
    assert told["loss"] == {"plain": 0.5, "optimized": None} and told["ok"] is (problem is None)


def test_a_step_is_measured_at_the_batch_of_its_example(monkeypatch: pytest.MonkeyPatch) -> None:
    request = ModelRequest(f"{MODELS}:plain_step", allow_code=True, device="cpu")
    graph = analytic_costs(trace_request(request, report=silent, cancelled=never))
    result = planning.solve(graph, planning.keep_everything_peak(graph), solver="greedy")
    asked: list[int] = []

    def plain(request: ModelRequest, folded: Any, **_: Any) -> Plain:
        asked.append(request.batch_size)
        return Plain(2**21, (), 16)

    monkeypatch.setattr(executor_step, "measure_plain", plain)
    traced = retraced_step(request, graph, result, silent, never)
    step = ExecutorStep(traced, silent, never)
    assert asked == [step.request.batch_size] == [16]
