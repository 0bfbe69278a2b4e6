"""Train the VAE of ``examples/`` for a few steps within a budget.

``python -m tests.tf.example_steps ANSWER.json``: ``peaks``, in bytes, ``told``, the lines about plans,
``held``, what was not the step's own, and ``requested``, what the ops of its plan request.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import checkmate
from checkmate.memory.simulate import simulate
from tests.tf.rematerialized import plans

VAE = Path(__file__).parents[2] / "examples" / "vae.py"


class Peaks(keras.callbacks.Callback):  # type: ignore[misc]
    """Notes what the allocator held in each step."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: list[int] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        tf.config.experimental.reset_memory_stats("CPU:0")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.bytes.append(tf.config.experimental.get_memory_info("CPU:0")["peak"])


def main(answer: str) -> None:
    told: list[str] = []
    write = sys.stderr.write
    sys.stderr.write = lambda text: told.append(text) or write(text)  # type: ignore[method-assign,func-returns-value,assignment]
    specification = importlib.util.spec_from_file_location("vae", VAE)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).random((64 * 10, 64, 64, 3), dtype=np.float32)
    model, peaks = module.VAE(64, 32), Peaks()
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    checkmate.rematerialize(model, "70%", options=checkmate.SolveOptions(time_limit_s=5))
    model.fit(images, batch_size=64, steps_per_epoch=4, verbose=0, callbacks=[peaks])
    lines = [text.strip() for text in told if text.startswith("checkmate: ")]
    (plan,) = plans(model)
    facts = {
        "peaks": peaks.bytes,
        "told": lines,
        "held": plan.held_bytes,
        "requested": simulate(plan.step.graph, plan.schedule).peak_bytes,
    }
    Path(answer).write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
