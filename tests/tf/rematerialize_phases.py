"""Test a budget that is a share, where a training's steps differ.

They differ by phases, and by batches of several lengths.
"""

from __future__ import annotations

import gc
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import checkmate
from checkmate.units import parse_bytes
from tests.tf.rematerialized import FAST, assert_close, data, plans, reader, recomputations, within

PEAK = "75 % of the plain "


@pytest.fixture(autouse=True)
def few_bytes_held() -> None:
    """Begin without the models of earlier tests. The budgets here are a few MiB."""
    keras.backend.clear_session()
    gc.collect()


def two_phases(*, frozen: int) -> Any:
    """Return a network with a head that is trained.

    Its first ``frozen`` layers, below the head, are not trained.
    """
    keras.utils.set_random_seed(2)
    image = keras.Input((32, 32, 3))
    base = keras.Sequential([layers.Conv2D(16, 3, padding="same", activation="relu") for _ in range(8)])
    x = layers.GlobalAveragePooling2D()(base(image))
    model = keras.Model(image, layers.Dense(4, activation="softmax")(x))
    freeze(model, frozen)
    return model


def freeze(model: Any, count: int) -> None:
    """Begin a phase in which the first ``count`` layers are not trained."""
    for number, layer in enumerate(model.layers[1].layers):
        layer.trainable = number >= count
    model.compile("adam", "sparse_categorical_crossentropy")


def told(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("checkmate: ")]


def test_a_frozen_phase_with_nothing_to_save_is_plain_and_the_next_is_planned(
    capfd: pytest.CaptureFixture[str],
) -> None:
    x, y = data(32)
    model, plain = (two_phases(frozen=8) for _ in range(2))
    within(model, "60%", quiet=False)
    bases: list[Any] = []
    for each in (model, plain):
        each.fit(x, y, batch_size=16, shuffle=False, verbose=0)
        freeze(each, 0)
        bases.append(each.layers[1].get_weights())
        each.fit(x, y, batch_size=16, shuffle=False, verbose=0)
    first, second = told(capfd)
    # No solver was asked, and nothing was computed again: no schedule requests less.
    assert "plain training, since recomputation saves nothing here" in first and "over the budget of" in first
    assert "raise the budget" not in first and "use a smaller batch" in first
    assert recomputations(model) > 0 and "60 % of the plain " in second
    assert all(np.array_equal(a, b) for a, b in zip(*bases, strict=True))  # the base was not trained yet
    assert_close(model, plain)


def test_a_frozen_phase_within_what_the_phase_before_may_hold_is_plain(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The step of the second phase need not be saved anything. Something could be saved."""
    x, y = data(32)
    model, plain = two_phases(frozen=0), two_phases(frozen=0)
    within(model, "70%", quiet=False)
    for each in (model, plain):
        each.fit(x, y, batch_size=16, shuffle=False, verbose=0)
        freeze(each, 6)
        each.fit(x, y, batch_size=16, shuffle=False, verbose=0)
    first, second = told(capfd)
    assert "recomputation" in first and "70 % of the plain " in first
    assert "it fits, and trains as before" in second
    assert "as in an earlier phase" in second
    assert plans(model)[0].schedule is None and not plans(model)[0].over_bytes
    assert_close(model, plain)


def test_the_bare_step_is_planned_again_in_the_next_phase() -> None:
    x, y = data(16)
    model, plain = two_phases(frozen=8), two_phases(frozen=8)
    step = checkmate.train_step(model, "60%", options=FAST, solver="greedy", quiet=True, cache=False)
    for _ in range(2):
        losses = [float(step(x, y)[0]) for _ in range(2)]
        assert losses == pytest.approx([plain.train_on_batch(x, y) for _ in range(2)], rel=1e-2)
        freeze(model, 0), freeze(plain, 0)
    assert_close(model, plain)
    (plan,) = step._planner.plans
    assert plan.schedule is not None and plan.schedule.recomputations > 0


def test_a_longer_batch_tells_anew_what_a_share_is_of(capfd: pytest.CaptureFixture[str]) -> None:
    """The shorter batch trains plainly where it has room for that. The room is in the longer one's share."""
    model, plain = within(reader(), "75%", quiet=False), reader()
    for length in (64, 128, 64, 128):
        tokens = np.arange(16 * length).reshape(16, length) % 50
        for each in (model, plain):
            each.train_on_batch(tokens, np.ones((16, length, 8), np.float32))
    short, long = plans(model)
    lines = told(capfd)
    assert "recomputation" in lines[0] and "length 64" in lines[0]
    assert "length 64: plain training, without recomputation, from now on" in lines[1]
    assert "length 128" in lines[2] and PEAK in lines[2]
    assert short.schedule is None and long.schedule is not None and not long.over_bytes
    told_by = parse_bytes(lines[2].partition(PEAK)[2].rstrip(")").partition(",")[0])
    others = lines[2].partition(", + ")[2].partition(" of others")[0]
    assert model.train_function.training.planner.allowed_bytes == pytest.approx(
        0.75 * told_by + (parse_bytes(others) if others else 0), rel=0.01
    )
    assert max(short.peak_bytes, long.peak_bytes) <= model.train_function.training.planner.allowed_bytes
    assert_close(model, plain)
