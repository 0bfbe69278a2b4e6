"""Run a training program, plainly or as it is, and note each step.

``python training_child.py plain|budgeted[-exact] ANSWER.json PROGRAM [WORD …]``. The program is run as a
script. What ``fit`` tells after each batch, or a scheduled function returns, is noted with the seconds and
the allocator's peak, and how long the first was waited for. With ``plain`` the program's calls of
``checkmate.rematerialize`` do nothing. With ``-exact`` TensorFlow's graph rewriting is off.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import checkmate
from checkmate.backends.tf.devices import make_exact

_DEVICE = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"


class Steps:
    """The steps of a program: numbers returned, seconds, bytes."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def one(self) -> Iterator[dict[str, Any]]:
        """Note one step; what is yielded takes what it returned."""
        tf.config.experimental.reset_memory_stats(_DEVICE)
        row: dict[str, Any] = {}
        begun, used = time.perf_counter(), processor_seconds()
        yield row
        row["ended"] = time.perf_counter()
        row["seconds"] = row["ended"] - begun
        row["processor_seconds"] = processor_seconds() - used
        row["peak_bytes"] = tf.config.experimental.get_memory_info(_DEVICE)["peak"]
        self.rows.append(row)


class Recorder(keras.callbacks.Callback):  # type: ignore[misc]
    """Notes the steps of ``fit``."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.open = contextlib.ExitStack()
        self.row = self.open.enter_context(self.steps.one())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        told = {name: float(value) for name, value in sorted((logs or {}).items())}
        self.row["returned"] = list(told.values())
        self.row["losses"] = [value for name, value in told.items() if "loss" in name]
        self.open.close()


def processor_seconds() -> float:
    """Return what this process and its ended children took of the processors."""
    return sum(os.times()[:4])


def numbers(returned: Any) -> list[float]:
    """Return the mean of each tensor that a step returned."""
    leaves = [leaf for leaf in tf.nest.flatten(returned) if leaf is not None]
    return [float(tf.reduce_mean(tf.cast(leaf, tf.float64))) for leaf in leaves]


def losses(returned: Any) -> Any:
    """Return what of ``returned`` are losses. They are those named so, or else what comes first."""
    if isinstance(returned, dict):
        return [value for name, value in sorted(returned.items()) if "loss" in name]
    return tf.nest.flatten(returned)[:1]


def record_fit(steps: Steps) -> None:
    fit = keras.Model.fit

    def recorded(model: Any, *arguments: Any, **options: Any) -> Any:
        options["callbacks"] = [*(options.get("callbacks") or ()), Recorder(steps)]
        return fit(model, *arguments, **options)

    keras.Model.fit = recorded


def recorded(step: Callable[..., Any], steps: Steps) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with steps.one() as row:
            returned = step(*arguments)
            row["returned"] = numbers(returned)
            row["losses"] = numbers(losses(returned))
        return returned

    return call


def main(kind: str, answer: str, program: str, *words: str) -> None:
    kind, _, exact = kind.partition("-")
    if exact:
        make_exact("cpu", 0)
    steps, begun, used = Steps(), [0.0], [0.0]
    schedule, schedule_function = checkmate.rematerialize, checkmate.rematerialize_function

    def begin() -> None:
        if not begun[0]:
            begun[0], used[0] = time.perf_counter(), processor_seconds()

    def of_model(model: Any, *arguments: Any, **options: Any) -> Any:
        begin()
        return model if kind == "plain" else schedule(model, *arguments, **options)

    def of_function(step: Any, *arguments: Any, **options: Any) -> Any:
        begin()
        if kind != "plain":
            step = schedule_function(step, *arguments, **options)
        return recorded(step, steps)

    checkmate.rematerialize, checkmate.rematerialize_function = of_model, of_function
    record_fit(steps)
    sys.argv = [program, *words]
    sys.path.insert(0, str(Path(program).parent))
    runpy.run_path(program, run_name="__main__")
    facts = {
        "seconds": time.perf_counter() - begun[0],
        "processor_seconds": processor_seconds() - used[0],
        "first_step_after_s": steps.rows[0]["ended"] - begun[0],
        "steps": steps.rows,
    }
    Path(answer).write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
