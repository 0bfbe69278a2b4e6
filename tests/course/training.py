"""Train within a budget for hours, with changing batches; note the memory.

``python -m tests.course.training SECONDS NOTES.jsonl``. Each line of the notes is a round of ``fit``: the
steps and those over the budget so far, the highest allocated peak of a step in the round, and what the
process holds. The budget is in bytes: a share of what the plain step of the largest batch holds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from checkmate.tf.environment import measuring_environment

os.environ.update(measuring_environment())

import keras
import numpy as np
import psutil
import tensorflow as tf
from keras import layers

import checkmate

SHARE = 0.65
SIZES = (32, 48)
BATCHES = (8, 16, 24)
_STEPS, _LAST = 12, 5  # full batches of a round, and the examples of its last batch
_EACH_COMPILED = 60  # rounds
_DEVICE = "CPU:0"


class Peaks(keras.callbacks.Callback):  # type: ignore[misc]
    """Read the allocator's mark of each step that ``fit`` runs."""

    def __init__(self) -> None:
        super().__init__()
        self.peaks: list[int] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        tf.config.experimental.reset_memory_stats(_DEVICE)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.peaks.append(tf.config.experimental.get_memory_info(_DEVICE)["peak"])


def network() -> keras.Model:
    image = x = keras.Input((None, None, 3))
    for width, strides in ((16, 1), (16, 1), (24, 2), (24, 1), (32, 2), (32, 1)):
        x = layers.Conv2D(width, 3, strides=strides, padding="same", activation="relu")(x)
        x = layers.BatchNormalization()(x)
    return keras.Model(image, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def compile_it(model: keras.Model) -> None:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-4), loss, metrics=["accuracy"])


def images(size: int, count: int) -> tuple[Any, Any]:
    dice = np.random.default_rng(size)
    return dice.random((count, size, size, 3), np.float32), dice.integers(0, 10, count)


def plain_peak(model: keras.Model) -> int:
    """Return what two plain steps of the largest batch hold at most."""
    peaks, most = Peaks(), max(BATCHES)
    model.fit(*images(max(SIZES), 2 * most), batch_size=most, verbose=0, callbacks=[peaks])
    return max(peaks.peaks)


def main(seconds: float, notes: Path) -> None:
    begun, rounds = time.monotonic(), count()
    keras.utils.set_random_seed(1)
    model = network()
    compile_it(model)
    budget = int(SHARE * plain_peak(model))
    checkmate.rematerialize(model, budget)
    layouts = [(size, batch) for batch in BATCHES for size in SIZES]
    steps = missed = 0
    while time.monotonic() - begun < seconds:
        number = next(rounds)
        if number and number % _EACH_COMPILED == 0:
            compile_it(model)
        size, batch = layouts[number % len(layouts)]
        peaks = Peaks()
        model.fit(*images(size, _STEPS * batch + _LAST), batch_size=batch, verbose=0, callbacks=[peaks])
        steps += len(peaks.peaks)
        missed += sum(peak > budget for peak in peaks.peaks)
        row = {
            "seconds": round(time.monotonic() - begun, 1), "round": number, "size": size, "batch": batch,
            "steps": steps, "over_budget": missed, "peak_bytes": max(peaks.peaks), "budget_bytes": budget,
            "compiled": 1 + number // _EACH_COMPILED,
            "rss_mb": round(psutil.Process().memory_info().rss / 2**20, 1),
        }  # fmt: skip
        with notes.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), Path(sys.argv[2]))
