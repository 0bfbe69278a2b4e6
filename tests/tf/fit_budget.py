"""Train a sample a few steps with ``fit``, and write the measurements.

Run as a script in a fresh process: ``python fit_budget.py SAMPLE BATCH BUDGET|plain ANSWER.npz [exact]``
writes the variables after three steps. Under ``report`` it writes as JSON the allocator's peak in the first
``fit`` and in all of them (without the search), the loss, the budget and the seconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import checkmate
from checkmate.backends.tf.models.load import load_model
from checkmate.request import ModelRequest


def main(sample: str, batch: int, budget: str, answer: str) -> None:
    keras.utils.set_random_seed(3)
    loaded = load_model(ModelRequest(sample, batch_size=batch, device="cpu"))
    model = loaded.model
    x, y = loaded.pack([np.concatenate([part.numpy()] * 3) for part in loaded.make_batch()])
    heard = io.StringIO()
    search_peak = 0
    with contextlib.redirect_stderr(heard):
        if budget != "plain":
            first = keras.tree.map_structure(lambda part: part[:batch], (x, y))
            checkmate.rematerialize(
                model, budget, example=first, options=checkmate.SolveOptions(time_limit_s=8)
            )
            search_peak = peak_bytes()
            tf.config.experimental.reset_memory_stats("CPU:0")
        history = model.fit(x, y, batch_size=batch, shuffle=False, verbose=0).history
        variables = [*model.variables, *model.optimizer.variables]
        values = {f"{i:04d}": variable.numpy() for i, variable in enumerate(variables)}
        peak = peak_bytes()
        begun = time.perf_counter()
        model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
    report = {
        "peak_bytes": peak,
        "later_peak_bytes": peak_bytes(),
        "search_peak_bytes": search_peak,
        "loss": history["loss"][0],
        "epoch_seconds": time.perf_counter() - begun,
        "budget_bytes": None,
        "told": heard.getvalue(),
    }
    if budget != "plain":
        report["budget_bytes"] = model.train_function.training.planner.allowed_bytes
    np.savez(answer, report=json.dumps(report), **values)


def peak_bytes() -> int:
    return int(tf.config.experimental.get_memory_info("CPU:0")["peak"])


if __name__ == "__main__":
    if "exact" in sys.argv:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
