"""Test what becomes of a plan whose training holds more than it should.

The step itself may, or what others hold beside it.
"""

from __future__ import annotations

import dataclasses
import gc
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.devices import held_bytes, reset_peak
from checkmate.backends.tf.live.trace import step_of_fit
from checkmate.backends.tf.models.batch import flatten
from checkmate.errors import ProfileError
from checkmate.solvers.compile.cache import machine_code_file
from checkmate.training import planner as planner_module
from checkmate.training import trials
from checkmate.training.plan import foreseen, read_ahead
from checkmate.training.trials import Trials
from checkmate.training.watch import reading_of, went_over
from tests.tf.example_steps import Peaks
from tests.tf.rematerialize_files import EARLIER, X, Y, files, scheduled_file, told, trained
from tests.tf.rematerialized import conv_model, data, plans, reader, recomputations, sentences, within

machine_code_file()  # compiled kernels are taken from where they are, whatever the cache folder of a test is


@pytest.fixture(autouse=True)
def cache_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep plans where no other test does, and hold no models of other tests."""
    keras.backend.clear_session()
    gc.collect()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def exceed_in_turn(planner: Any, layout: Any, seen: int) -> None:
    """Let a plan be seen over the budget, though its ops run one after another already."""
    planner.exceeded(layout, seen)
    plan = planner.planned(layout)
    if plan is not None and plan.step.folded.in_turn and not plan.over_bytes:
        planner.exceeded(layout, seen)


def test_ops_run_one_after_another_where_side_by_side_they_go_over_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, _ = trained()
    planner, plan = model.train_function.training.planner, plans(model)[0]
    assert plan.step.runs_side_by_side(plan.schedule)
    lines = sentences(monkeypatch)
    planner.exceeded(plan.layout, int(1.1 * planner.allowed_bytes))
    assert len(lines) == 1 and lines[0].endswith("the same ops run one after another from now on")
    model.train_on_batch(X[:16], Y[:16])
    now = planner.planned(plan.layout)
    assert now.steps == plan.steps and not now.step.runs_side_by_side(now.schedule)
    assert len(lines) == 1  # nothing was planned again
    model, _ = trained()  # by the plan that was kept
    later = plans(model)[0]
    assert EARLIER in later.sentence and later.steps == plan.steps and later.step.folded.in_turn


def test_what_goes_a_little_over_the_budget_is_planned_again_once_and_runs_in_turn_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, _ = trained()
    planner, layout = model.train_function.training.planner, plans(model)[0].layout
    lines = sentences(monkeypatch)
    planner.exceeded(layout, int(1.02 * planner.allowed_bytes))
    assert planner.planned(layout) is None and lines[-1].endswith("looking for a schedule that takes less")
    again = planner.plan(layout, flatten(data(16))[1])
    assert again.step.runs_side_by_side(again.schedule) and again.peak_bytes < 0.99 * planner.allowed_bytes
    planner.exceeded(layout, int(1.02 * planner.allowed_bytes))
    assert planner.planned(layout).step.folded.in_turn and lines[-1].endswith("from now on")


def test_what_goes_over_the_budget_in_training_is_replaced() -> None:
    model, _ = trained()
    planner, plan, path = model.train_function.training.planner, plans(model)[0], scheduled_file()
    exceed_in_turn(planner, plan.layout, int(1.05 * planner.allowed_bytes))
    better = planner.plan(plan.layout, flatten(data(16))[1])
    assert better.peak_bytes < 0.97 * planner.allowed_bytes and EARLIER not in better.sentence
    assert json.loads(path.read_text())["steps"] == better.schedule.steps.tolist()


def test_what_was_seen_over_the_budget_is_kept_as_seen_where_nothing_is_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = within(conv_model(), "9MiB", cache=True, example=(X[:16], Y[:16]))
    planner, plan = model.train_function.training.planner, plans(model)[0]
    seen = int(1.05 * planner.allowed_bytes)
    monkeypatch.setattr(planner, "_make", lambda *arguments: dataclasses.replace(plan, over_bytes=1))
    exceed_in_turn(planner, plan.layout, seen)
    again = planner.plan(plan.layout, flatten(data(16))[1])
    assert again.sentence.endswith("the earlier plan is kept")
    assert planner.planned(plan.layout) is again and again.over_bytes == seen - planner.allowed_bytes
    assert seen < planner.watched_bytes(plan.layout) < 1.1 * seen  # so it is said once, unless it climbs
    steps = plan.schedule.steps.tolist()
    kept = json.loads(scheduled_file().read_text())
    (peak,) = (each["peak_bytes"] for each in kept["tried"] if each["steps"] == steps)
    assert peak == seen


def test_where_what_was_known_is_wrong_and_nothing_runs_the_plan_stays_unkept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = within(conv_model(), "9MiB", cache=True, example=(X[:16], Y[:16]))
    planner, plan = model.train_function.training.planner, plans(model)[0]

    def fail(*arguments: Any) -> None:
        planner._memory.was_wrong(plan.step)
        raise ProfileError("it cannot be measured")

    monkeypatch.setattr(planner, "_make", fail)
    exceed_in_turn(planner, plan.layout, int(1.05 * planner.allowed_bytes))
    again = planner.plan(plan.layout, flatten(data(16))[1])
    assert "no other plan: it cannot be measured. The earlier plan is kept." in again.sentence
    assert not files()


def test_a_plan_that_stays_over_the_budget_is_said_to_be_once(capfd: pytest.CaptureFixture[str]) -> None:
    model = within(conv_model(), "9MiB", quiet=False, example=(X[:16], Y[:16]))
    planner, plan = model.train_function.training.planner, plans(model)[0]
    told(capfd)
    planner._layouts[plan.layout.key].aim_bytes = planner.allowed_bytes // 2  # after a few corrections
    seen = int(1.5 * planner.allowed_bytes)
    exceed_in_turn(planner, plan.layout, seen)
    *_, line = told(capfd)
    assert line.endswith("the plan is kept")
    stays = planner.planned(plan.layout)
    assert stays.steps == plan.steps and stays.over_bytes == seen - planner.allowed_bytes
    reset_peak("CPU:0")
    before = reading_of(planner, plan.layout)
    tf.zeros((seen // 2,), tf.int8)
    assert not went_over(planner, [plan.layout], before) and not told(capfd)
    before = reading_of(planner, plan.layout)
    tf.zeros((2 * seen,), tf.int8)  # far more than was said
    assert went_over(planner, [plan.layout], before) and told(capfd)[0].endswith("the plan is kept")
    assert planner.planned(plan.layout).steps == plan.steps


@pytest.mark.parametrize("warms", [True, False])
def test_the_first_step_of_a_kept_plan_is_not_judged_where_it_warms_up(
    warms: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = within(conv_model(), "9MiB", cache=True, example=(X[:16], Y[:16]))
    monkeypatch.setattr(planner_module, "warms_up", lambda kind: warms)  # as on a GPU
    model = within(conv_model(), "9MiB", cache=True, example=(X[:16], Y[:16]))
    planner, layout = model.train_function.training.planner, plans(model)[0].layout
    assert EARLIER in plans(model)[0].sentence

    def took_much() -> bool:
        before = reading_of(planner, layout)
        tf.zeros((2 * planner.allowed_bytes + before.peak_bytes,), tf.int8)
        return went_over(planner, [layout], before)

    reset_peak("CPU:0")
    assert took_much() is not warms
    if warms:
        assert reading_of(planner, layout).peak_bytes < planner.allowed_bytes
        assert took_much()  # the next step is judged


def test_what_others_take_is_told_once_and_no_reason_to_plan_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = within(conv_model(), "9MiB", example=(X[:16], Y[:16]))
    planner, plan = model.train_function.training.planner, plans(model)[0]
    # What is foreseen is the most that others held in any trial, so it may be more than beside this one.
    assert plan.foreseen_bytes >= foreseen(plan.step, plan.held_bytes) >= read_ahead(plan.step.graph)
    lines = sentences(monkeypatch)

    def step_beside(others: int, took: int) -> bool:
        reset_peak("CPU:0")
        before = reading_of(planner, plan.layout)
        cache = tf.zeros((others,), tf.int8)
        tf.zeros((took,), tf.int8)
        over = went_over(planner, [plan.layout], before)
        del cache
        return over

    allowed = planner.allowed_bytes
    assert not step_beside(plan.foreseen_bytes + allowed, took=2**20)
    assert len(lines) == 1 and "because others hold" in lines[0] and lines[0].endswith("keeps to its plan")
    assert not step_beside(plan.foreseen_bytes + allowed, took=2**20) and len(lines) == 1
    assert planner.planned(plan.layout) is plan
    # The step itself took more than the budget.
    assert step_beside(plan.foreseen_bytes + allowed, took=2 * allowed)
    assert planner.planned(plan.layout).step.folded.in_turn
    assert step_beside(plan.foreseen_bytes + allowed, took=2 * allowed)
    assert planner.planned(plan.layout) is None and "looking for a schedule that takes less" in lines[-1]


def test_a_share_is_the_step_s_own_so_the_plan_stays_where_others_hold_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = within(conv_model(), "75%", example=(X[:16], Y[:16]))
    planner, plan = model.train_function.training.planner, plans(model)[0]
    lines = sentences(monkeypatch)
    more = plan.foreseen_bytes + 2**20
    assert not planner.crowded(plan.layout, planner.allowed_bytes + more, 2 * more, more)
    assert planner.planned(plan.layout) is plan and lines[0].endswith("keeps to its plan")


def test_where_others_come_to_hold_more_it_trains_within_what_they_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hold 3 MiB beside a training of 9 MiB, as ``fit`` holds arrays.

    What this process holds already comes to the budget.
    """
    budget = 9 * 2**20 + held_bytes("CPU:0")
    model = within(conv_model(blocks=4), budget, example=(X[:16], Y[:16]))
    planner, before, peaks = model.train_function.training.planner, plans(model)[0], Peaks()
    lines = sentences(monkeypatch)
    arrays = tf.zeros((3, 2**20), tf.int8)
    batches = tf.data.Dataset.from_tensors((X[:16], Y[:16])).repeat(6)
    model.fit(batches, verbose=0, callbacks=[peaks])
    (plan,), allowed = plans(model), planner.allowed_bytes
    assert peaks.bytes[0] > allowed >= max(peaks.bytes[1:])
    assert "planning again for what they leave" in lines[0] and len(lines) == 2
    # It is planned for what was seen of others, and so it is where the model is compiled again.
    assert plan.held_bytes >= int(tf.size(arrays)) and not plan.over_bytes
    assert plan.schedule.recomputations >= before.schedule.recomputations
    model.compile("adam", "sparse_categorical_crossentropy")
    del arrays
    model.fit(batches.take(1), verbose=0)
    assert plans(model)[0].held_bytes >= 2 * 2**20  # the arrays are gone


def test_what_others_come_to_hold_while_a_plan_is_made_is_not_the_step_s() -> None:
    layout, tensors = flatten(data(16))
    step = step_of_fit(conv_model(), layout)
    trials = Trials(step, tensors, None, lambda _: None)
    alone = trials.run(step.everything, "alone")
    before = held_bytes("CPU:0")
    batches = tf.zeros((8, 2**20), tf.int8)  # as a data set prepares them
    taken = held_bytes("CPU:0") - before  # their chunk may be larger
    assert taken >= int(tf.size(batches))
    beside = trials.run(step.everything, "beside them")
    assert abs(beside.own_bytes - alone.own_bytes) < 2**19
    assert abs(beside.others_bytes - alone.others_bytes - taken) < 2**19
    assert trials.held == beside.others_bytes


def test_a_new_length_is_planned_with_what_is_known_of_the_last(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[bool] = []
    measure = trials.measure_scheduled

    def noted(*arguments: Any, costs: bool, within: int | None) -> Any:
        asked.append(costs)
        return measure(*arguments, costs=costs, within=within)

    monkeypatch.setattr(trials, "measure_scheduled", noted)
    model = within(reader(), "75%", quiet=False)
    for length in (96, 104):
        tokens = np.arange(16 * length).reshape(16, length) % 50
        model.train_on_batch(tokens, np.ones((16, length, 8), np.float32))
        asked.append(False)
    lines = told(capfd)
    lengths = [line.split(": ")[1] for line in lines if " recomputation" in line]
    assert lengths[0] == "batch of 16, length 96" and lengths[-1] == "batch of 16, length 104"
    assert asked[0] and not any(asked[1:])  # the costs of ops are measured once
    assert recomputations(model) > 0 and all(plan.schedule is not None for plan in plans(model))
    assert (
        max(plan.peak_bytes for plan in plans(model)) <= model.train_function.training.planner.allowed_bytes
    )


def test_a_model_that_is_compiled_anew_lets_go_of_earlier_steps() -> None:
    """Check that neither graphs nor an optimizer's variables stay.

    TensorFlow keeps a custom gradient for good, and its graph with it.
    """

    @tf.custom_gradient
    def same(x: tf.Tensor) -> Any:
        return x, lambda upstream: upstream

    image = keras.Input((8, 8, 3))
    hidden = keras.layers.Lambda(same)(keras.layers.Conv2D(4, 3, activation="relu")(image))
    model = keras.Model(image, keras.layers.Dense(2)(keras.layers.Flatten()(hidden)))
    x, y = np.ones((8, 8, 8, 3), np.float32), np.zeros((8, 2), np.float32)
    alive = []
    for number in range(4):
        model.compile("adam", "mse")
        if not number:
            within(model, "60%")
        model.fit(x, y, batch_size=8, verbose=0)
        gc.collect()
        alive.append(sum(type(each).__name__ == "FuncGraph" for each in gc.get_objects()))
    assert alive[1:] == [alive[1]] * 3, alive
