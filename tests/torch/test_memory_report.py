"""Test ``MemoryReport`` with Keras on PyTorch, in a process of its own: Keras chooses its backend once."""

from __future__ import annotations

import pytest

from tests.programs import run_python

pytest.importorskip("torch")

PROGRAM = """
import keras, numpy as np, torch
from checkmate.keras import MemoryReport
from tests.torch.meter import meter

def model_of():
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(256, "tanh") for _ in range(4)]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dropout(0.2), keras.layers.Dense(4)])
    model.compile(keras.optimizers.Adam(), "mse")
    return model

made = np.random.default_rng(0)
x, y = made.normal(size=(512, 64)).astype("float32"), made.normal(size=(512, 4)).astype("float32")
few = dict(batch_size=256, epochs=2, verbose=0, shuffle=False)
expected = model_of().fit(x, y, **few).history
model = model_of()
history = model.fit(x, y, callbacks=[MemoryReport()], **few).history
peaks = history.pop("memory/peak")
assert history == expected, (history, expected)  # bit for bit

batch = [torch.from_numpy(each[:256].copy()) for each in (x, y)]
variables = [*model.variables, *model.optimizer.variables]
held = sum(each.value.nbytes for each in variables) + sum(each.nbytes for each in batch)
seen = held + meter(lambda: model.train_function([tuple(batch)])).peak
assert peaks[0] == peaks[1], peaks
assert abs(peaks[0] / seen - 1) < 0.01, (peaks, seen)

with torch.profiler.profile() as own:  # it goes on
    assert "memory/peak" not in model.fit(x, y, callbacks=[MemoryReport()], **few).history
assert any("tanh" in each.key for each in own.key_averages())
"""


@pytest.mark.heavy
def test_the_logged_peak_is_the_meters_and_no_training_changes() -> None:
    run_python("-c", PROGRAM, KERAS_BACKEND="torch")
