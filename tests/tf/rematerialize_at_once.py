"""Test training that begins at once and changes its schedule later.

It changes to a better one between two batches. Kernels and graphs are such that the same op gives the same
bits in every step.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import checkmate
from checkmate.backends.tf.devices import peak_bytes, reset_peak
from checkmate.errors import SolverCrashedError
from checkmate.machine.cost_store import plans_folder
from checkmate.planning import schedule_solver
from checkmate.solvers.compile.cache import machine_code_file
from checkmate.training import trials
from tests.quick_start import QUICK
from tests.tf.rematerialized import plans, within

tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
machine_code_file()  # compiled kernels are taken from where they are, whatever the cache folder of a test is

KERNELS = os.environ.get("XDG_CACHE_HOME")
BEGINS, MEANWHILE = "training begins with ", "; a better schedule is sought meanwhile"


def dense_model(**options: Any) -> Any:
    """Return the same model in each call.

    Its activations take 1 MiB for a batch of 16, and its kernels need no scratch.
    """
    keras.utils.set_random_seed(5)
    inputs = x = keras.Input((256, 8))
    for _ in range(5):
        x = layers.Dense(64, activation="gelu")(x)
    x = layers.Dropout(0.3, seed=9)(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(inputs, layers.Dense(4, activation="softmax")(x), name="dense")
    model.compile(**{"optimizer": "adam", "loss": "sparse_categorical_crossentropy", **options})
    return model


def data(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return random.random((count, 256, 8), dtype=np.float32), random.integers(0, 4, count)


X, Y = data(16 * 8)


@pytest.fixture(autouse=True)
def cache_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep plans where no other test does, and hold no models of other tests."""
    keras.backend.clear_session()
    gc.collect()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class HeldSolver:
    """The real solver; in a thread it waits until ``go`` is set.

    Then it may ``fail``. Where it ``lingers`` there, it has its answer soon, but looks for a better one until
    it is stopped.
    """

    def __init__(self) -> None:
        self.go, self.threads, self.fail = threading.Event(), list[str](), False
        self.lingers, self.found = False, threading.Event()
        self._solve: Callable[..., Any] = schedule_solver.solve

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.threads.append(threading.current_thread().name)
        if threading.current_thread() is not threading.main_thread():
            found = self._solve(*arguments, **options) if self.lingers else None
            self.found.set()
            while not self.go.wait(0.02) and not options["listener"].cancelled():
                pass
            if self.fail:
                raise SolverCrashedError("it gave up")
            if found is not None:
                return found
        return self._solve(*arguments, **options)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldSolver:
    solver = HeldSolver()
    monkeypatch.setattr(schedule_solver, "solve", solver)
    return solver


class Batches(keras.callbacks.Callback):  # type: ignore[misc]
    """Note the schedule and the peak of every batch. After batch ``number`` let the solver answer."""

    def __init__(self, held: HeldSolver, number: int) -> None:
        super().__init__()
        self.held, self.number = held, number
        self.schedules: list[Any] = []
        self.peaks: list[int] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        reset_peak("CPU:0")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.schedules.append(plans(self.model)[0].schedule)
        self.peaks.append(peak_bytes("CPU:0"))
        better = self.model.train_function.training.planner._better
        if batch == self.number and better is not None:
            self.held.go.set()
            better._solving._thread.join()


def planner_of(model: Any) -> Any:
    return model.train_function.training.planner


def fitted(model: Any, **options: Any) -> Any:
    return model.fit(X, Y, **{"batch_size": 16, "epochs": 1, "shuffle": False, "verbose": 0, **options})


def told(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("checkmate: ")]


def files() -> list[Path]:
    return sorted(plans_folder().iterdir()) if plans_folder().exists() else []


def assert_same_bits(model: Any, other: Any) -> None:
    both = zip(state(model), state(other), strict=True)
    assert all(np.array_equal(a, b) for a, b in both)


def state(model: Any) -> list[np.ndarray]:
    variables = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return [variable.numpy() for variable in variables]


def test_a_second_run_uses_the_better_plan(
    held: HeldSolver, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Use it unless its step holds more here, and then say so.

    Chunks that the first model left in this process may lie so that it does. Later runs in fresh processes
    are in ``training/test_second_run.py``.
    """
    model = within(dense_model(), wait=False, cache=True)
    batches = Batches(held, 1)
    fitted(model, callbacks=[batches])
    (plan,) = planner_of(model).plans  # at the end of training a still better one may be kept
    better = plan.schedule.steps.tolist()
    del model, batches, plan  # what it holds would be another model's beside the next
    keras.backend.clear_session()
    gc.collect()
    (kept,) = files()
    assert json.loads(kept.read_text())["steps"] == better
    assert BEGINS not in json.loads(kept.read_text())["sentence"]

    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("the plain step was measured, or something was solved for")

    monkeypatch.setattr(trials, "measure_plain", refuse)
    monkeypatch.setattr(schedule_solver, "solve", refuse)
    again = within(dense_model(), wait=False, cache=True, quiet=False)
    one = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda *_, **__: setattr(again, "stop_training", True)
    )
    try:
        fitted(again, callbacks=[one])
    except AssertionError:
        assert "a kept plan is not used: its step held" in told(capfd)[0]
        pytest.skip("the step holds more in this process, so the plan was rightly not used")
    assert "from an earlier run's plan" in told(capfd)[0]
    assert planner_of(again)._better is None


def test_it_begins_at_once_and_changes_between_two_batches(
    held: HeldSolver, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = dense_model()
    expected = fitted(plain).history
    model = within(dense_model(), wait=False, cache=True, quiet=False)
    batches = Batches(held, 3)
    found = fitted(model, callbacks=[batches]).history
    # The first schedule was solved for here, the better one in a thread.
    assert held.threads[0] == "MainThread" and held.threads[-1] == "solve"
    seeking = planner_of(model)._better  # on a busy machine a still better one is sought when training ends
    assert seeking is None or seeking.resting
    # It was tried before the fifth batch, in which it trained; until then it was the first one.
    first, better = batches.schedules[0], batches.schedules[-1]
    assert first is not None and better is not None and first.recomputations and better.recomputations
    assert [each is first for each in batches.schedules[:4]] == [True] * 4
    begun, changed = told(capfd)[:2]
    assert BEGINS in begun and begun.endswith(MEANWHILE)
    assert BEGINS not in changed and "measured peak" in changed
    # Weights, statistics, the optimizer's slots, metrics and losses are those of plain training.
    assert found == expected
    assert_same_bits(model, plain)


def test_no_step_of_it_is_over_the_budget(held: HeldSolver) -> None:
    model = within(dense_model(), wait=False)
    batches = Batches(held, 2)
    fitted(model, callbacks=[batches])
    allowed = planner_of(model).allowed_bytes
    # The first batch has the peak of what was tried before it.
    assert max(batches.peaks[1:]) <= allowed
    assert all(plan.peak_bytes <= allowed for plan in plans(model))


def test_the_first_schedule_is_not_kept_for_later_runs(held: HeldSolver) -> None:
    model = within(dense_model(), wait=False, cache=True)
    model.train_on_batch(X[:16], Y[:16])  # it ends before the solver answers
    solving = planner_of(model)._better._solving
    assert not files()
    held.go.set()
    solving._thread.join()
    fitted(model)
    assert len(files()) == 1


def solvers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "solve"]


def test_training_that_ends_stops_the_solver_and_keeps_what_it_found(
    held: HeldSolver, capfd: pytest.CaptureFixture[str]
) -> None:
    held.lingers = True
    plain, model = dense_model(), within(dense_model(), wait=False, cache=True, quiet=False)
    until_found = keras.callbacks.LambdaCallback(on_train_end=lambda logs: held.found.wait(60))
    found = [
        [fitted(each, callbacks=callbacks).history for _ in range(2)]
        for each, callbacks in ((plain, []), (model, [until_found]))
    ]
    assert not solvers() and held.threads[-1] == "solve"
    begun, better = told(capfd)[:2]
    assert BEGINS in begun and BEGINS not in better and "measured peak" in better
    # What it found is kept, and trained by from the second ``fit`` on.
    (kept,) = files()
    assert json.loads(kept.read_text())["steps"] == plans(model)[0].schedule.steps.tolist()
    assert found[0] == found[1]
    assert_same_bits(model, plain)


def test_an_error_in_training_stops_the_solver(held: HeldSolver) -> None:
    def fail(batch: int, logs: Any = None) -> None:
        raise ValueError("the user's own")

    model = within(dense_model(), wait=False, cache=True)
    with pytest.raises(ValueError, match="the user's own"):
        fitted(model, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=fail)])
    assert not solvers() and not files() and planner_of(model)._better.resting
    before = len(held.threads)
    held.go.set()
    fitted(model)  # the search goes on where it was
    assert "solve" in held.threads[before:] and not solvers()


def test_another_layout_waits_for_what_is_sought(held: HeldSolver) -> None:
    model = within(dense_model(), wait=False, cache=True)
    held_back = threading.Timer(0.5, held.go.set)
    held_back.start()
    model.fit(X[:40], Y[:40], batch_size=16, epochs=2, shuffle=False, verbose=0)  # the last has 8
    assert planner_of(model)._better is None
    large, small = plans(model)
    assert not large.over_bytes and not small.over_bytes
    assert len(files()) == 2
    plain = dense_model()
    plain.fit(X[:40], Y[:40], batch_size=16, epochs=2, shuffle=False, verbose=0)
    assert_same_bits(model, plain)


def test_an_example_is_planned_to_the_end() -> None:
    model = within(dense_model(), wait=False, example=(X[:16], Y[:16]))
    assert planner_of(model)._better is None and plans(model)[0].schedule is not None


def test_a_step_over_the_budget_ends_the_search(held: HeldSolver) -> None:
    model = within(dense_model(), wait=False)
    model.train_on_batch(X[:16], Y[:16])
    planner, (layout,) = planner_of(model), [plan.layout for plan in plans(model)]
    solving = planner._better._solving
    held.go.set()
    planner.exceeded(layout, planner.allowed_bytes + 2**20)
    assert planner._better is None and not solving.running
    planner.exceeded(layout, planner.allowed_bytes + 2**20)  # with ops one after another
    assert planner.planned(layout) is None
    model.train_on_batch(X[:16], Y[:16])
    assert planner.planned(layout) is not None and planner._better is None


def test_a_solver_that_fails_leaves_the_first_schedule(
    held: HeldSolver, capfd: pytest.CaptureFixture[str]
) -> None:
    held.fail = True
    model = within(dense_model(), wait=False, quiet=False)
    batches = Batches(held, 1)
    fitted(model, callbacks=[batches])
    assert batches.schedules[-1] is batches.schedules[0] is not None
    assert "no better schedule is sought any longer: it gave up. The present" in told(capfd)[-1]
    assert planner_of(model)._better is None


@pytest.mark.parametrize("ends", ["pass", "raise KeyboardInterrupt"])
def test_a_program_that_ends_early_does_not_wait(ends: str, tmp_path: Path) -> None:
    """Let the solver go on for an hour, in a thread without Python's lock."""
    program = tmp_path / "program.py"
    program.write_text(
        "import checkmate, threading\n"
        "from tests.tf.rematerialize_at_once import data, dense_model\n"
        "from checkmate.planning import schedule_solver\n"
        "slow = checkmate.SolveOptions(time_limit_s=3600, moves=10**12)\n"
        "real = schedule_solver.solve\n"
        "def solve(*arguments, **options):\n"
        "    if threading.current_thread() is not threading.main_thread():\n"
        "        options.update(solver='local-search', options=slow)\n"
        "    return real(*arguments, **options)\n"
        "schedule_solver.solve = solve\n"
        "x, y = data(16)\n"
        "quick = dict(solver='greedy', options=checkmate.SolveOptions(time_limit_s=0.3))\n"
        "model = checkmate.rematerialize(dense_model(), '75%', wait=False, cache=False, **quick)\n"
        "for _ in range(3):\n"
        "    model.train_on_batch(x, y)\n"
        "assert model.train_function.training.planner._better._solving.running\n"
        f"print('trained', flush=True)\n{ends}\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    environment |= {} if KERNELS is None else {"XDG_CACHE_HOME": KERNELS}
    environment |= QUICK
    command = [sys.executable, str(program)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert ran.stdout == "trained\n", ran.stderr[-3000:]
    assert ran.returncode == (0 if ends == "pass" else -2), ran.stderr[-3000:]


@pytest.mark.parametrize("kind", ["function", "bare step"])
def test_steps_of_ones_own_begin_at_once_too(held: HeldSolver, kind: str) -> None:
    def made(plainly: bool) -> tuple[Any, Callable[..., Any]]:
        model = dense_model()
        options = {"solver": "greedy", "quiet": True, "cache": False, "wait": False}
        if kind == "bare step":
            return model, model.train_on_batch if plainly else checkmate.train_step(model, "75%", **options)

        @tf.function
        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                losses = keras.losses.sparse_categorical_crossentropy(y, model(x, training=True))
                loss = tf.reduce_mean(losses)
            model.optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
            return loss

        return model, step if plainly else checkmate.rematerialize_function(step, "75%", **options)

    (plain, step), (model, scheduled) = made(True), made(False)
    for number in range(12):
        batch = tf.constant(X[number % 8 * 16 :][:16]), tf.constant(Y[number % 8 * 16 :][:16])
        step(*batch)
        scheduled(*batch)
        planner = scheduled.planner if kind == "function" else scheduled._planner
        if number == 2:
            assert planner._better is not None
            held.go.set()
        if number >= 2 and planner._better is not None:
            planner._better._solving._thread.join()
    assert planner._better is None and held.threads[-1] == "solve"
    both = zip(model.get_weights(), plain.get_weights(), strict=True)
    assert all(np.array_equal(a, b) for a, b in both)
