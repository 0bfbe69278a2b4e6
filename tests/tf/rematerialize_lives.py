"""Test what happens to a model around ``fit`` within a budget.

There are stops, errors, interrupts and other models. Each test trains the same model plainly and within a
budget, for real, and the weights agree.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

from checkmate.backends.tf.live import measure
from tests.tf.rematerialized import assert_close, conv_model, data, plans, recomputations, within

X, Y = data(16 * 3)
VALIDATION = data(16)


def fit(model: Any, **options: Any) -> dict[str, list[float]]:
    found: dict[str, list[float]] = model.fit(
        X, Y, **{"batch_size": 16, "shuffle": False, "verbose": 0, **options}
    ).history
    return found


def test_training_stops_early_with_the_best_weights() -> None:
    """Check a later first epoch, validation and a second ``fit`` too."""
    plain, model = conv_model(), within(conv_model())
    found = []
    for each in (plain, model):
        # A loss this much better never comes, so it stops after the second epoch and goes back to the first.
        stop = keras.callbacks.EarlyStopping(
            "val_loss", min_delta=10.0, patience=1, restore_best_weights=True, start_from_epoch=2
        )
        history = fit(each, initial_epoch=2, epochs=9, validation_data=VALIDATION, callbacks=[stop])
        assert (stop.stopped_epoch, len(history["val_loss"])) == (3, 2)
        found.append([history["loss"], history["val_loss"], each.evaluate(*VALIDATION, verbose=0)[0]])
    assert recomputations(model) > 0
    for expected, got in zip(*found, strict=True):
        assert got == pytest.approx(expected, rel=1e-2)
    assert_close(model, plain)
    for each in (plain, model):
        fit(each)
    assert len(plans(model)) == 1
    assert_close(model, plain)


def test_two_models_train_in_turn() -> None:
    plain = [conv_model(), conv_model(optimizer="sgd")]
    models = [within(conv_model()), within(conv_model(optimizer="sgd"))]
    for _ in range(2):
        for each in (*plain, *models):
            fit(each)
    for model, expected in zip(models, plain, strict=True):
        assert recomputations(model) > 0 and len(plans(model)) == 1
        assert_close(model, expected)


class Fails(keras.callbacks.Callback):  # type: ignore[misc]
    """Raises an error after the second batch."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 1:
            raise ValueError("a callback failed")


def test_an_error_of_a_callback_leaves_a_model_that_trains_on() -> None:
    plain, model = conv_model(), within(conv_model())
    for each in (plain, model):
        with pytest.raises(ValueError, match="a callback failed"):
            fit(each, callbacks=[Fails()])
        fit(each)
    assert recomputations(model) > 0 and len(plans(model)) == 1
    assert int(model.optimizer.iterations.numpy()) == int(plain.optimizer.iterations.numpy()) == 5
    assert_close(model, plain)


def test_an_interrupt_while_a_step_is_measured_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt after a measured step has changed the weights."""
    model, plain = within(conv_model()), conv_model()
    fit(plain)
    before = model.get_weights()
    measured = measure.trace_run

    def interrupted(*arguments: Any, **options: Any) -> Any:
        found = measured(*arguments, **options)
        assert any((a != b).any() for a, b in zip(before, model.get_weights(), strict=True))
        signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(measure, "trace_run", interrupted)
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            fit(model)
    finally:
        signal.signal(signal.SIGINT, earlier)
    monkeypatch.undo()
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    assert int(model.optimizer.iterations.numpy()) == 0 and not plans(model)
    fit(model)
    assert recomputations(model) > 0
    assert_close(model, plain)


@pytest.fixture
def data_parallel() -> Iterator[None]:
    """Let Keras distribute the batches, as far as it does with TensorFlow."""
    devices = keras.distribution.list_devices("cpu")
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
    yield
    keras.distribution.set_distribution(None)


def test_the_distribution_of_keras_changes_nothing(data_parallel: None) -> None:
    plain, model = conv_model(), within(conv_model())
    assert model.distribute_strategy.num_replicas_in_sync == 1
    histories = [fit(each) for each in (plain, model)]
    assert histories[1]["loss"] == pytest.approx(histories[0]["loss"], rel=1e-2)
    assert recomputations(model) > 0
    assert_close(model, plain)
