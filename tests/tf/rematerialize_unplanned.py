"""Test that whatever fails while a step is planned trains as before."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import checkmate
from checkmate.backends.outcomes import TAKEN_OUT
from checkmate.backends.tf.live.trace import KerasStep
from checkmate.errors import PlanningError, TraceError
from tests.tf.rematerialized import FAST, conv_model, data, plans, recomputations, within


class Foreign(layers.Layer):  # type: ignore[misc]
    """Calls Python code, which has effects that nobody can undo."""

    def call(self, x: Any) -> Any:
        doubled = tf.numpy_function(lambda given: 2 * given, [x], tf.float32)
        return x + tf.stop_gradient(tf.ensure_shape(doubled, x.shape))

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def calling_python() -> tuple[Any, Any, Any]:
    inputs = keras.Input((64,))
    model = keras.Model(inputs, layers.Dense(4)(layers.Dense(64)(Foreign()(inputs))), name="own")
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).random((64, 64), np.float32)
    return model, x, np.ones((64, 4), np.float32)


class Enlarged(layers.Layer):  # type: ignore[misc]
    """A transposed convolution and another, in ``tf.recompute_grad``."""

    def build(self, shape: Any) -> None:
        self.first = layers.Conv2DTranspose(8, 3, strides=2, padding="same")
        self.norm, self.second = layers.LayerNormalization(), layers.Conv2D(8, 3, padding="same")
        self.first.build(shape)
        enlarged = self.first.compute_output_shape(shape)
        self.norm.build(enlarged)
        self.second.build(enlarged)

    def compute_output_shape(self, shape: Any) -> Any:
        return layers.Conv2DTranspose(8, 3, strides=2, padding="same").compute_output_shape(shape)

    def call(self, images: Any) -> Any:
        @tf.recompute_grad
        def recomputed(x: Any) -> Any:
            x = tf.nn.silu(self.norm(self.first(x)))
            return x + tf.nn.silu(self.second(x))

        return recomputed(images)


class Around(keras.Model):  # type: ignore[misc]
    """A model that calls another."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body

    def call(self, images: Any, training: bool = False) -> Any:
        return self.body(images, training=training)


def recomputed_by_hand() -> tuple[Any, Any, Any]:
    inputs = keras.Input((16, 16, 3))
    body = layers.GlobalAveragePooling2D()(Enlarged()(Enlarged()(inputs)))
    model = Around(keras.Model(inputs, layers.Dense(1)(body)))
    images = np.random.default_rng(0).random((64, 16, 16, 3), np.float32)
    model(images[:1])
    model.compile("sgd", "mse")
    return model, images, np.ones((64, 1), np.float32)


def trained(make: Callable[[], tuple[Any, Any, Any]], **options: Any) -> list[float]:
    """Return a few steps' losses, within a budget if there are options."""
    keras.utils.set_random_seed(5)
    model, x, y = make()
    if options:
        within(model, "60%", **options)
    losses: list[float] = []
    heard = keras.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: losses.append(logs["loss"]))
    model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(16), epochs=2, verbose=0, callbacks=[heard])
    return losses


def told(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("checkmate: ")]


@cache
def plainly(make: Callable[[], tuple[Any, Any, Any]]) -> list[float]:
    return trained(make)


def check_it_trains_as_before(make: Any, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    expected = plainly(make)
    assert trained(make, quiet=False) == pytest.approx(expected, rel=1e-5)
    (line,) = told(capfd)
    assert f": this step cannot be scheduled: {why}" in line and ". It trains as before." in line
    assert ("please report this fault of checkmate" in line) == ("Error: " in why)


def test_what_is_recomputed_by_hand_trains(capfd: pytest.CaptureFixture[str]) -> None:
    # With a schedule or without: that depends on the order of ops.
    assert trained(recomputed_by_hand, quiet=False) == pytest.approx(trained(recomputed_by_hand), rel=2e-2)
    note, line = told(capfd)
    assert note == f"checkmate: {TAKEN_OUT}" and " recomputations, " in line


def test_it_trains_without_it_where_it_need_not_recompute() -> None:
    keras.utils.set_random_seed(5)
    model, x, y = recomputed_by_hand()
    model = within(model, "1GiB")
    model.fit(x, y, batch_size=16, verbose=0)
    (plan,) = plans(model)
    assert plan.schedule.recomputations == 0 and "trains without recomputation" in plan.sentence


def conv() -> tuple[Any, Any, Any]:
    return conv_model(), *data(32)


class OwnStep(keras.Model):  # type: ignore[misc]
    """A model with a ``train_step`` of its own."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        return {"loss": loss}


def own_step(kind: type[OwnStep] = OwnStep) -> tuple[Any, Any, Any]:
    model, x, y = conv()
    own = kind(model.inputs, model.outputs, name="own")
    own.compile("sgd", "sparse_categorical_crossentropy")
    return own, x, y


class CallsPython(OwnStep):
    def train_step(self, data: Any) -> dict[str, Any]:
        tf.py_function(lambda: None, [], [])
        return super().train_step(data)


def calls_python() -> tuple[Any, Any, Any]:
    return own_step(CallsPython)


@pytest.mark.parametrize("make", [calls_python, calling_python])
def test_a_program_that_cannot_be_planned_trains_as_before(
    make: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    why = "the training step of 'own' calls Python code each time"
    check_it_trains_as_before(make, why, capfd)
    with pytest.raises(TraceError, match=why):
        trained(make, on_miss="raise")


STAGES = (
    "checkmate.backends.tf.live.trace.trace_step",
    "checkmate.backends.tf.live.trace.fold",
    "checkmate.backends.tf.live.trace.analytic_costs",
    "checkmate.training.planner.fetch_region",
    "checkmate.backends.tf.live.measure.trace_run",
    "checkmate.planning.schedule_solver.ScheduleSolver.solve",
    "checkmate.backends.tf.live.measure.ordered_step",
    "checkmate.training.kept.PlanMemory.keep",
)


def fail(*_: Any, **__: Any) -> Any:
    raise KeyError("seeded")


@pytest.mark.parametrize("stage", STAGES)
def test_a_fault_at_any_stage_trains_as_before(
    stage: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plainly(conv)
    monkeypatch.setattr(stage, fail)
    check_it_trains_as_before(conv, "unexpected KeyError: 'seeded'", capfd)


def test_a_fault_is_raised_where_a_miss_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STAGES[0], fail)
    with pytest.raises(PlanningError, match="unexpected KeyError: 'seeded'") as caught:
        trained(conv, on_miss="raise")
    assert isinstance(caught.value.__context__, KeyError)  # Keras takes the cause away


@pytest.mark.parametrize("stage", ["checkmate.backends.tf.trace.of_function.execution_order", STAGES[1]])
def test_so_does_a_step_of_the_models_own(
    stage: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plainly(own_step)
    monkeypatch.setattr(stage, fail)
    check_it_trains_as_before(own_step, "unexpected KeyError: 'seeded'", capfd)


def test_so_does_what_cannot_be_emitted_around_the_measured_step(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("checkmate.backends.tf.live.measure.ReadyStep.begins_anew", False)
    monkeypatch.setattr(KerasStep, "run", fail)
    assert trained(conv, quiet=False) == pytest.approx(plainly(conv), rel=1e-5)
    planned, given_up = told(capfd)
    assert "recomputation" in planned and "KeyError: 'seeded'. It trains as before." in given_up


def test_so_do_a_bare_step_and_a_function(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("checkmate.backends.tf.live.measure.trace_run", fail)
    (x, y), plain = data(16), conv_model()
    step = checkmate.train_step(conv_model(), "60%", options=FAST, example=(x, y))
    assert float(step(x, y)[0]) == pytest.approx(plain.train_on_batch(x, y)[0], rel=1e-5)
    weight = tf.Variable(tf.ones((512, 512)))

    def descend(images: tf.Tensor) -> tf.Tensor:
        weight.assign_sub(1e-3 * weight)
        return tf.reduce_mean(tf.tanh(tf.matmul(tf.tanh(tf.matmul(images, weight)), weight)))

    start = weight.numpy()
    found = checkmate.rematerialize_function(descend, "60%", options=FAST)(tf.ones((512, 512)))
    weight.assign(start)
    assert float(found) == pytest.approx(float(tf.function(descend)(tf.ones((512, 512)))))
    assert [("KeyError: 'seeded'. It trains as before." in line) for line in told(capfd)] == [True, True]


def test_a_better_schedule_that_cannot_be_found_ends_no_training(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("checkmate.training.improve.SolvingThread.result", fail)
    monkeypatch.setattr("checkmate.training.improve.SolvingThread.cut_short", fail)
    keras.utils.set_random_seed(5)
    model, x, y = conv()
    within(model, "75%", quiet=False, wait=False)
    model.fit(x, y, batch_size=16, epochs=3, verbose=0)
    begun, ended = told(capfd)
    assert "a better schedule is sought meanwhile" in begun and recomputations(model) > 0
    assert "no better schedule is sought any longer: unexpected KeyError: 'seeded'" in ended


def test_a_plan_that_cannot_be_made_again_is_kept(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    x, y = data(16)
    model = within(conv_model(), "75%", quiet=False, on_miss="raise", example=(x, y))
    planner, (before,) = model.train_function.training.planner, plans(model)
    planner.exceeded(before.layout, 2 * before.peak_bytes)
    before = planner.planned(before.layout) or before
    planner.exceeded(before.layout, 2 * before.peak_bytes)  # with ops one after another
    monkeypatch.setattr("checkmate.backends.tf.live.trace.trace_step", fail)
    model.fit(x, y, batch_size=16, verbose=0)
    assert plans(model)[0].schedule is before.schedule is not None
    assert "no other plan: unexpected KeyError: 'seeded'. The earlier plan is kept." in told(capfd)[-1]


def wrong_shapes(labels: Any, predictions: Any) -> Any:
    return tf.reduce_mean(tf.matmul(predictions, tf.ones((3, 3))))


@pytest.mark.parametrize("on_miss", ["closest", "raise"])
def test_an_error_of_the_users_own_is_theirs(on_miss: str) -> None:
    x, y = data(16)
    expected: list[Exception] = []
    for model in (conv_model(loss=wrong_shapes), within(conv_model(loss=wrong_shapes), on_miss=on_miss)):
        with pytest.raises(Exception, match="Dimensions must be equal") as caught:
            model.fit(x, y, batch_size=16, verbose=0)
        expected.append(caught.value)
    assert (type(expected[0]) is type(expected[1])) == (on_miss == "closest")
    assert isinstance(expected[1], TraceError) == (on_miss == "raise")


def test_an_interrupt_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("checkmate.backends.tf.live.trace.fold", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trained(conv, quiet=True)
