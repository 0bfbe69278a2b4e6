"""Train as a user's script in a process without a memory meter.

It adds one line, then trains. ``training/test_rematerialize.py`` runs it.
"""

from __future__ import annotations

import json
import logging

import keras
import numpy as np
from keras import layers

import checkmate
from checkmate.backends.tf.devices import has_meter


def main() -> None:
    logging.basicConfig(level="INFO")
    keras.utils.set_random_seed(5)
    inputs = x = keras.Input((64, 64, 3))
    for _ in range(4):
        x = layers.Conv2D(16, 3, padding="same")(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    outputs = layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, outputs, name="mine")
    model.compile("sgd", "sparse_categorical_crossentropy")
    random = np.random.default_rng(1)
    x, y = random.random((64, 64, 64, 3), dtype=np.float32), random.integers(0, 4, 64)
    checkmate.rematerialize(model, "65%", options=checkmate.SolveOptions(time_limit_s=1.0), solver="greedy")
    history = model.fit(x, y, batch_size=32, verbose=0).history
    (plan,) = model.train_function.training.planner.plans
    print(
        json.dumps(
            {
                "metered": has_meter("CPU:0"),
                "peak": plan.peak_bytes,
                "allowed": model.train_function.training.planner.allowed_bytes,
                "recomputations": plan.schedule.recomputations,
                "loss": history["loss"][0],
            }
        )
    )


if __name__ == "__main__":
    main()
