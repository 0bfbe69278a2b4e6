"""Test what a budget means for ``rematerialize``, also a missed one."""

from __future__ import annotations

import gc
import logging
import re
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers

import checkmate
from checkmate.backends.tf import memory_check
from checkmate.errors import NoScheduleError
from checkmate.units import parse_bytes
from tests.tf.rematerialized import FAST, assert_close, conv_model, data, plans, recomputations, within


@pytest.fixture(autouse=True)
def few_bytes_held() -> None:
    """Begin without the models of earlier tests. The budgets here are a few MiB."""
    nothing_left_of_earlier_models()


def nothing_left_of_earlier_models() -> None:
    keras.backend.clear_session()
    gc.collect()


def told(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("checkmate: ")]


def advised(sentence: str) -> int:
    """Return the bytes that ``sentence`` says to raise the budget to."""
    found = re.search(r"raise the budget to (\S+ \w+)", sentence)
    assert found is not None, sentence
    return parse_bytes(found[1])


def test_a_share_is_of_what_the_plain_step_was_measured_to_take(capfd: pytest.CaptureFixture[str]) -> None:
    """Check that what others hold, such as this array, is added."""
    others = tf.zeros((6, 2**20), tf.int8)
    plain = peak_of(conv_model(blocks=4))
    nothing_left_of_earlier_models()
    tf.config.experimental.reset_memory_stats("CPU:0")
    model = within(conv_model(blocks=4), "75%", quiet=False)
    x, y = data(32)
    model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
    # The mark is that of training: measuring the plain step leaves none.
    peak = int(tf.config.experimental.get_memory_info("CPU:0")["peak"])
    (line,) = told(capfd)
    own, held = size(line, "75 % of the plain"), size(line, r", \+")
    assert held >= int(tf.size(others)) and own + held == pytest.approx(plain, rel=0.15)
    allowed = model.train_function.training.planner.allowed_bytes
    assert allowed == pytest.approx(0.75 * own + held, rel=0.01)
    assert plans(model)[0].over_bytes == 0
    assert recomputations(model) > 0 and peak <= allowed < plain


def test_the_budget_that_there_is_is_used() -> None:
    """Check that at most one value's bytes are left. A value of the model takes 1 MiB."""
    x, y = data(16)
    model = within(conv_model(blocks=8), "85%", solver="auto", example=(x, y))
    model.fit(x, y, batch_size=16, epochs=3, verbose=0)
    (plan,) = plans(model)
    allowed = model.train_function.training.planner.allowed_bytes
    inputs = 3 * x.nbytes  # room for the batches that a data set prepares
    assert plan.over_bytes == 0 and plan.schedule.recomputations > 0
    assert plan.peak_bytes + inputs + 1.6 * 2**20 >= allowed, plan.sentence


def test_an_impossible_budget_trains_to_the_end_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    x, y = data(32)
    plain, model = conv_model(), within(conv_model(), "1MiB", quiet=False)
    expected, found = (each.fit(x, y, batch_size=16, epochs=2, verbose=0).history for each in (plain, model))
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-2)
    assert_close(model, plain)
    (line,) = told(capfd)
    (plan,) = plans(model)
    assert recomputations(model) > 0 and plan.over_bytes == plan.peak_bytes - 2**20 > 0
    assert "over the budget of 1.00 MiB" in line
    assert "no schedule can keep the budget, so the one with the least memory known trains" in plan.sentence
    assert "it is proved that the ops of any schedule" in plan.sentence
    again = within(conv_model(), advised(line), quiet=False, example=(x[:16], y[:16]))
    assert plans(again)[0].over_bytes == 0, told(capfd)


def test_raise_is_for_those_who_want_it() -> None:
    model = conv_model()
    with pytest.raises(NoScheduleError, match=r"no schedule keeps .* within 1\.00 MiB") as caught:
        within(model, "1MiB", on_miss="raise", example=data(16))
    needed = caught.value.details["needed_bytes"]
    assert caught.value.details["why"].startswith("it is proved")
    assert caught.value.details["budget_bytes"] == 2**20 < needed
    # fit raises the same error at the first batch, and the budget that it names is possible.
    with pytest.raises(NoScheduleError):
        model.fit(*data(16), batch_size=16, verbose=0)
    within(model, 2 * needed, on_miss="raise", example=data(16))


def test_the_bare_step_trains_too_where_the_budget_is_missed(capfd: pytest.CaptureFixture[str]) -> None:
    x, y = data(16)
    step = checkmate.train_step(conv_model(), "1MiB", solver="greedy")
    losses, plain = [float(step(x, y)[0]) for _ in range(3)], conv_model()
    assert losses == pytest.approx([plain.train_on_batch(x, y)[0] for _ in range(3)], rel=1e-2)
    assert "over the budget of 1.00 MiB" in told(capfd)[0]
    with pytest.raises(NoScheduleError):
        checkmate.train_step(conv_model(), "1MiB", solver="greedy", on_miss="raise", quiet=True)(x, y)


def recurrent() -> Any:
    """Return a model with a loop that is too short to be split."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            layers.Reshape((3, 1024)),
            layers.LSTM(256, return_sequences=True),
            layers.GlobalAveragePooling1D(),
            layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def test_a_loop_at_the_peak_is_named() -> None:
    x, y = data(16)
    model = within(recurrent(), "4MiB")
    model.fit(x, y, batch_size=16, verbose=0)
    (plan,) = plans(model)
    assert plan.over_bytes > 0
    assert re.search(r"the peak is in the loop '\S*while\S*', whose inside is not scheduled", plan.sentence)


def fine_tuned(*, frozen: bool) -> Any:
    """Return a model with most of its memory in weights, its base frozen."""
    keras.utils.set_random_seed(1)
    base = keras.Sequential(
        [layers.Conv2D(16, 3, activation="relu", padding="same"), layers.Flatten(), layers.Dense(128)]
    )
    base.trainable = not frozen
    model = keras.Sequential([base, layers.Dense(4, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def test_a_share_in_a_frozen_phase_does_not_end_the_script(capfd: pytest.CaptureFixture[str]) -> None:
    x, y = data(32)
    model = within(fine_tuned(frozen=True), "50%", quiet=False)
    model.fit(x, y, batch_size=16, verbose=0)
    assert plans(model)[0].over_bytes > 0
    assert "recomputation saves nothing here" in told(capfd)[0]
    model.layers[0].trainable = True
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=16, verbose=0)
    plan, *later = told(capfd)
    assert int(model.optimizer.iterations.numpy()) == 2 and "over the budget" in plan
    # Old regions of the allocator may show more in training than when the plan was measured.
    assert all("the plan is kept" in line for line in later)


def peak_of(model: Any, count: int = 32) -> int:
    """Return what the allocator holds at most in a second epoch."""
    x, y = map(
        tf.constant, data(count)
    )  # arrays are copied to the device in one call of fit and not in another
    model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
    gc.collect()
    tf.config.experimental.reset_memory_stats("CPU:0")
    model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
    return int(tf.config.experimental.get_memory_info("CPU:0")["peak"])


def size(sentence: str, before: str) -> int:
    found = re.search(before + r" (\S+ \w+)", sentence)
    assert found is not None, sentence
    return parse_bytes(found[1])


def test_all_of_it_is_plain_training(capfd: pytest.CaptureFixture[str]) -> None:
    model = within(conv_model(), "100%", quiet=False)
    peak_of(model)
    (line,) = told(capfd)
    assert plans(model)[0].schedule is None and "it fits, and trains as before" in line


def test_the_minimum_is_what_was_kept_on_the_meter(capfd: pytest.CaptureFixture[str]) -> None:
    model = within(conv_model(), "min", quiet=False)
    peak = peak_of(model)
    (line,) = told(capfd)
    assert "the least that was kept on the meter, with room to vary" in line
    assert plans(model)[0].over_bytes == 0 and recomputations(model) > 0
    assert peak <= model.train_function.training.planner.allowed_bytes


def test_it_says_so_where_the_plain_step_cannot_be_measured(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leave so little memory to this process that the plain step has no room."""
    x, y = data(16)
    step = checkmate.train_step(conv_model(), "60%", solver="greedy", options=FAST)
    monkeypatch.setattr(memory_check, "free_bytes", lambda kind: 2**20)
    caplog.set_level(logging.INFO, "checkmate")
    step.prepare(x, y)
    (line,) = told(capfd)
    assert re.search("60 % of the [0-9.]+ MiB requested", line)
    why = "batch of 16: the plain step's peak was not measured: it does not fit the device's memory"
    assert why in [record.getMessage() for record in caplog.records]
