"""Test ``fit`` within a budget with Keras's ways to feed and step.

Each of them trains the same model plainly and within a budget, for real, and the weights agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.tf.rematerialized import assert_close, conv_model, data, plans, recomputations, within

X, Y = data(16 * 4)


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """Gives batches of 16 from threads of its own."""

    def __len__(self) -> int:
        return len(X) // 16

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        part = slice(16 * index, 16 * (index + 1))
        return X[part], Y[part]


def prefetched() -> tf.data.Dataset:
    """Return a pipeline that keeps what it reads. It prepares batches beside the step."""
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).cache().batch(16)
    return batches.map(lambda x, y: (x * 2 - 1, y), num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)


def generated() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield batches with weights of their samples, without an end."""
    while True:
        for first in range(0, len(X), 16):
            yield X[first : first + 16], Y[first : first + 16], np.linspace(0.5, 1.5, 16, dtype=np.float32)


@pytest.mark.parametrize(
    "feed",
    [
        lambda: {"x": Batches(workers=2), "shuffle": False},
        lambda: {"x": prefetched()},
        lambda: {"x": generated(), "steps_per_epoch": 4},
    ],
    ids=["PyDataset", "tf.data", "generator"],
)
def test_however_batches_come(feed: Callable[[], dict[str, Any]]) -> None:
    plain, model = conv_model(), within(conv_model())
    histories = [each.fit(**feed(), epochs=2, verbose=0).history for each in (plain, model)]
    assert recomputations(model) > 0
    assert histories[1]["loss"] == pytest.approx(histories[0]["loss"], rel=1e-2)
    assert_close(model, plain)


def test_gradients_are_summed_over_steps() -> None:
    def summing() -> Any:
        return conv_model(optimizer=keras.optimizers.Adam(1e-2, gradient_accumulation_steps=2))

    plain, model, still = summing(), within(summing()), conv_model()
    for each in (plain, model):
        each.fit(X, Y, batch_size=16, shuffle=False, epochs=2, verbose=0)
    assert recomputations(model) > 0
    assert_close(model, plain)
    assert int(model.optimizer.iterations.numpy()) == int(plain.optimizer.iterations.numpy())
    moved = [np.abs(a - b).max() for a, b in zip(model.get_weights(), still.get_weights(), strict=True)]
    assert max(moved) > 5e-3  # more than what counts as the same


def test_half_precision_with_a_scaled_loss() -> None:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        # The schedule's order alone saves a third here, so less is asked for.
        plain, model = conv_model(), within(conv_model(), "45%")
    finally:
        keras.config.set_dtype_policy("float32")
    for each in (plain, model):
        each.fit(X, Y, batch_size=16, shuffle=False, verbose=0)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert recomputations(model) > 0
    scales = [float(each.optimizer.dynamic_scale.numpy()) for each in (plain, model)]
    assert scales[0] == scales[1] > 1
    assert_close(model, plain)


class Fails(keras.callbacks.Callback):  # type: ignore[misc]
    """Ends training in the second epoch, as a machine that is taken away does."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self.begun and batch == 1:
            raise InterruptedError
        self.begun = self.begun or batch == 3

    begun = False


def test_training_goes_on_from_a_backup(tmp_path: Path) -> None:
    """Check that a backup and a checkpoint hold what plain training does."""

    def fit(model: Any, *callbacks: Any) -> None:
        model.fit(X, Y, batch_size=16, shuffle=False, epochs=2, verbose=0, callbacks=list(callbacks))

    plain = conv_model()
    fit(plain)
    backup = tmp_path / "backup"
    with pytest.raises(InterruptedError):
        fit(within(conv_model()), Fails(), keras.callbacks.BackupAndRestore(str(backup)))
    assert list(backup.rglob("*"))
    best, model = tmp_path / "best.keras", within(conv_model())
    fit(
        model,
        keras.callbacks.BackupAndRestore(str(backup)),
        keras.callbacks.ModelCheckpoint(str(best), monitor="loss", save_best_only=True),
    )
    assert recomputations(model) > 0
    assert int(model.optimizer.iterations.numpy()) == 8
    assert_close(model, plain)  # as if it had not been interrupted
    assert len(plans(model)) == 1
    again = keras.models.load_model(best)
    assert_close(again, model)
    assert int(again.optimizer.iterations.numpy()) == 8
    again.fit(X, Y, batch_size=16, epochs=1, verbose=0)
