"""Train within a budget for hours, with changing batches; note the memory.

``python -m tests.course.training SECONDS NOTES.jsonl``; with ``plain`` in place of these it prints how many
MiB each compilation adds to plain training, with the same batches. Each line of the notes is a round of
``fit``: the steps and those over the budget so far, the highest allocated peak of a step in the round, and
what the process holds. Of the steps over the budget those are counted apart that the program had said would
be, those of which it said that others hold the memory, and those that it saw: it said so, and planned
again. The budget is in bytes: a share of what the plain step of the largest batch holds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from itertools import count, product
from pathlib import Path
from typing import Any

from checkmate.backends.tf.environment import measuring_environment

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
_COMPILED_PLAINLY = 5  # times, to learn what each adds
_DEVICE = "CPU:0"
COUNTS = ("steps", "steps_said_to_miss", "over_budget", "said_to_miss", "held_by_others", "seen", "missed")


class Peaks(keras.callbacks.Callback):  # type: ignore[misc]
    """Read the allocator's mark of each step that ``fit`` runs."""

    def __init__(self) -> None:
        super().__init__()
        self.peaks: list[int] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        tf.config.experimental.reset_memory_stats(_DEVICE)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.peaks.append(tf.config.experimental.get_memory_info(_DEVICE)["peak"])


class Judged(Peaks):
    """Say of each step over the budget what the program says of its layout."""

    def __init__(self, budget: int, size: int, batch: int) -> None:
        super().__init__()
        self.budget, self.size, self.batch = budget, size, batch
        self.found: Counter[str] = Counter()
        self._layouts: dict[bool, Any] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        super().on_train_batch_end(batch, logs)
        self.found["steps"] += 1
        kind = self._kind(batch == _STEPS)
        self.found["steps_said_to_miss"] += kind == "said_to_miss"
        if self.peaks[-1] > self.budget:
            self.found["over_budget"] += 1
            self.found[kind] += 1

    def _kind(self, last: bool) -> str:
        """Return what this step is if it is over: ``last`` of a round or not.

        A plan that was just seen over the budget is gone.
        """
        training = self.model.train_function.training
        if last not in self._layouts:
            few = images(self.size, _LAST if last else self.batch)
            self._layouts[last] = training.flatten(tuple(map(tf.convert_to_tensor, few)))[0]
        layout = self._layouts[last]
        plan = training.planner.planned(layout)
        if plan is None:
            return "seen"
        if plan.over_bytes:
            return "said_to_miss"
        planner = training.planner
        state = planner._layouts[layout.key]
        return "held_by_others" if state.crowded or state.stays else "missed"


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


def held_mb() -> float:
    """Return what this process holds, in MiB."""
    return round(psutil.Process().memory_info().rss / 2**20, 1)


def plain_growth() -> float:
    """Return how many MiB each compilation adds to plain training.

    Keras traces each layout of batches anew then, and TensorFlow lets go of few of the earlier functions.
    """
    model, held = network(), list[float]()
    for _ in range(_COMPILED_PLAINLY):
        compile_it(model)
        for batch, size in product(BATCHES, SIZES):
            model.fit(*images(size, batch + _LAST), batch_size=batch, verbose=0)
        held.append(held_mb())
    return round((held[-1] - held[0]) / (len(held) - 1), 1)


def main(seconds: float, notes: Path) -> None:
    begun, rounds = time.monotonic(), count()
    keras.utils.set_random_seed(1)
    model = network()
    compile_it(model)
    budget = int(SHARE * plain_peak(model))
    checkmate.rematerialize(model, budget)
    layouts = [(size, batch) for batch in BATCHES for size in SIZES]
    found: Counter[str] = Counter()
    while time.monotonic() - begun < seconds:
        number = next(rounds)
        if number and number % _EACH_COMPILED == 0:
            compile_it(model)
        size, batch = layouts[number % len(layouts)]
        peaks = Judged(budget, size, batch)
        model.fit(*images(size, _STEPS * batch + _LAST), batch_size=batch, verbose=0, callbacks=[peaks])
        found += peaks.found
        row = {
            "seconds": round(time.monotonic() - begun, 1), "round": number, "size": size, "batch": batch,
            **{name: found[name] for name in COUNTS}, "peak_bytes": max(peaks.peaks), "budget_bytes": budget,
            "compiled": 1 + number // _EACH_COMPILED,
            "rss_mb": held_mb(),
        }  # fmt: skip
        with notes.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "plain":
        print(plain_growth())
    else:
        main(float(sys.argv[1]), Path(sys.argv[2]))
