"""Test how the limit of a training rises whose budget is a share, and what room is left beside a step."""

from __future__ import annotations

import functools
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import checkmate
from checkmate.backends.tf.live.measure import StepMeasurement
from checkmate.backends.tf.models.batch import flatten_arguments
from checkmate.backends.tf.models.model import ModelLike
from checkmate.backends.tf.profiler import least_seconds
from checkmate.backends.tf.xla.compiled import compile_step
from checkmate.progress import silent
from checkmate.training import limit as limits
from checkmate.training.any_step import any_step
from checkmate.training.limit import Limit, Phases, RisingLimit
from checkmate.training.plan import foreseen, read_ahead
from checkmate.training.trials import Trials, TriedStep
from checkmate.units import Budget


@pytest.fixture
def rising(monkeypatch: pytest.MonkeyPatch) -> RisingLimit:
    """Return the limit of a training within 60 %; a step is what it requests."""
    monkeypatch.setattr(limits, "_everything", lambda step: step)
    request: Any = SimpleNamespace(budget=Budget(share=0.6))
    return RisingLimit(request, Phases())


def told(rising: RisingLimit, requests: int, limit: Limit) -> bool:
    step: Any = requests
    assert rising.tells(step)
    would_be = rising.would_be(limit, None)
    rose = rising.told(step, limit)
    assert rising.now == would_be and not rising.tells(step)
    return rose


def test_a_larger_step_raises_it(rising: RisingLimit) -> None:
    assert told(rising, 100, Limit(60, "first", others=10))
    assert told(rising, 200, Limit(130, "second", others=20))
    assert rising.now == Limit(130, "second", others=20)


def test_it_does_not_rise_because_others_hold_more(rising: RisingLimit) -> None:
    told(rising, 100, Limit(60, "first", others=10))
    assert not told(rising, 101, Limit(90, "second", others=40))
    assert rising.now == Limit(60, "first", others=10)
    assert told(rising, 102, Limit(56, "third", others=0))


@pytest.mark.parametrize(("peak", "found"), [(75, 75), (76, 150), (150, 150), (151, 75)])
def test_a_later_phase_may_take_what_an_earlier_one_took(peak: int, found: int) -> None:
    """Check that what others hold is told from what the steps take.

    The earlier phase had 90 bytes for its step, and the later one has 15 beside 60 bytes of others.
    """
    phases = Phases()
    phases.note(Limit(100, "the first", others=10))
    own = Limit(75, "its own", others=60)
    plain: Any = SimpleNamespace(measured=True, peak_bytes=peak)
    assert phases.widened(own, None) == own
    widened = phases.widened(own, plain)
    assert (widened.bytes, widened.others) == (found, 60)


@pytest.mark.parametrize(("peak", "found"), [(60, 60), (61, 100), (100, 100), (101, 60)])
def test_limits_in_bytes_are_of_all_that_is_held(peak: int, found: int) -> None:
    phases, plain = Phases(), SimpleNamespace(measured=True, peak_bytes=peak)
    phases.note(Limit(100))
    assert phases.widened(Limit(60), plain).bytes == found  # type: ignore[arg-type]


@pytest.mark.parametrize(("kept", "room"), [("copy", 2 * 2**20), ("average", 0), ("nothing", 0)])
def test_room_is_left_for_the_chunk_of_an_assigned_variable(kept: str, room: int) -> None:
    """Leave none for a variable that is updated in place, as an average is."""
    weight, beside = tf.Variable(tf.ones((512, 1024))), tf.Variable(tf.ones((512, 1024)))

    def step(batch: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(tf.matmul(batch, weight)))
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        if kept == "copy":
            beside.assign(tf.tanh(weight))
        elif kept == "average":
            beside.assign(0.9 * beside + 0.1 * weight)
        return loss

    layout, _ = flatten_arguments([np.ones((256, 512), np.float32)])
    found = any_step(step, ModelLike("step"), layout)
    assert foreseen(found, 0) == read_ahead(found.graph) + room
    assert foreseen(found, 2**30) == 2**30 + room


def recomputing() -> Any:
    """Return a step that recomputes each of its four blocks."""
    weights = [tf.Variable(tf.random.stateless_normal((64, 64), (1, i), stddev=0.3)) for i in range(4)]

    def block(x: tf.Tensor, weight: tf.Variable) -> tf.Tensor:
        return functools.reduce(lambda x, _: tf.tanh(x @ weight), range(4), x)

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            for weight in weights:
                x = tf.recompute_grad(functools.partial(block, weight=weight))(x)
            loss = tf.reduce_mean(tf.square(x))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step


def test_a_share_is_of_the_step_as_written_where_that_takes_less() -> None:
    step, request = recomputing(), SimpleNamespace(budget=Budget(share=0.5))
    layout, tensors = flatten_arguments([np.ones((1024, 64), np.float32)])
    found = any_step(step, ModelLike("step"), layout)
    trials = Trials(found, tensors, None, silent)
    limit = limits.limit_of(request, trials)  # type: ignore[arg-type]
    plain, written = trials.plain, trials.as_written
    assert plain is not None and written is not None and written.measured
    assert written.least_bytes < plain.least_bytes
    assert limit.own == (written.least_bytes - written.others_bytes) // 2 and "as written" in limit.words


def test_a_schedule_is_timed_again_beside_the_plain_step() -> None:
    layout, tensors = flatten_arguments([np.ones((256, 64), np.float32)])
    found = any_step(recomputing(), ModelLike("step"), layout)
    trials = Trials(found, tensors, None, silent)
    plain, tried = trials.run_plain(""), trials.run(found.everything, "")
    before = [variable.numpy() for variable in found.folded.traced.variables]
    again = trials.time_again(tried)
    assert plain is not None and trials.plain is not plain and trials.all[-1] is again is not tried
    assert [each.peak_bytes for each in trials.all] == [plain.peak_bytes, tried.peak_bytes]
    assert all(each.found.seconds > 0 for each in trials.all)
    after = [variable.numpy() for variable in found.folded.traced.variables]
    assert all(map(np.array_equal, before, after))
    assert trials.time_again(again) is again  # once is enough


@pytest.mark.parametrize("plain_ran", [False, True])
def test_a_later_plan_is_timed_beside_the_plain_step_that_ran_before(plain_ran: bool) -> None:
    layout, tensors = flatten_arguments([np.ones((256, 64), np.float32)])
    found = any_step(recomputing(), ModelLike("step"), layout)
    trials = Trials(found, tensors, None, silent, plain_ran=plain_ran)
    plain = TriedStep(None, StepMeasurement(2**20, 0, seconds=1e3), 0)
    trials.recall([plain], None, None)
    tried = trials.time_again(trials.run(found.everything, ""))
    assert trials.plain is not None and (trials.plain.found.seconds < 1e3) == plain_ran
    assert tried.found.seconds > 0


def test_runs_are_timed_in_turn() -> None:
    called: list[str] = []
    least_seconds(lambda: called.append("plain"), lambda: called.append("scheduled"), device="gpu")
    assert called == ["plain", "scheduled"] * (len(called) // 2) and len(called) >= 4


def test_a_share_of_what_xla_compiles_is_of_the_step_as_written(capfd: pytest.CaptureFixture[str]) -> None:
    step, x = recomputing(), tf.ones((1024, 64))
    as_written = compile_step(step, [tf.TensorSpec(x.shape, x.dtype)]).memory.peak_bytes
    planned = checkmate.rematerialize_function(step, "95%", target="xla", solver="greedy", cache=False)
    planned.prepare(x)
    (plan,) = planned.compiled.plans.values()
    assert (
        plan.fit is not None and plan.fit.budget_bytes == int(0.95 * as_written) < 0.6 * plan.fit.plain_bytes
    )
    assert re.search(r" \(95 % of the \S+ MiB as written, plain \S+ MiB\)$", capfd.readouterr().err.strip())
