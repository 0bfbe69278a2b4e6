"""Test what ``rematerialize`` says of steps that are not Keras's own.

It refuses those that a trial run would change for good, and leaves the others as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import checkmate
from checkmate.errors import CheckmateError, JitCompiledError, TraceError, UsageError
from tests.tf.own_steps import GAN
from tests.tf.rematerialized import FAST

IMAGES = tf.constant(np.random.default_rng(2).random((8, 32, 32, 3), dtype=np.float32))
KERNEL = tf.Variable(tf.ones((3, 3, 3, 16)))


class OwnStep(keras.Model):  # type: ignore[misc]
    """A model whose step counts its calls and keeps its data's mean."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        return {"loss": loss, "parts": {"twice": 2.0 * loss}}


def own_step(**options: Any) -> Any:
    keras.utils.set_random_seed(0)
    inputs = x = keras.Input((32, 32, 3))
    for _ in range(4):
        x = layers.Conv2D(16, 3, padding="same", activation="tanh")(x)
    model = OwnStep(inputs, layers.Dense(1)(layers.GlobalAveragePooling2D()(x)), name="own")
    model.compile("sgd", "mse", **options)
    return model


def within(function: Any, **options: Any) -> Any:
    chosen = {"options": FAST, "solver": "greedy", "quiet": True, **options}
    return checkmate.rematerialize_function(function, "70%", **chosen)


def mean_of(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.nn.conv2d(x, KERNEL, 1, "SAME"))


def calls_python(x: tf.Tensor) -> tf.Tensor:
    return mean_of(x) + tf.py_function(lambda: 1.0, [], tf.float32)


def takes_data(x: tf.Tensor) -> tf.Tensor:
    return mean_of(x + next(FEED))


def fills_a_table(x: tf.Tensor) -> tf.Tensor:
    found = mean_of(x)
    TABLE.insert(tf.constant("last"), found)
    return found


@tf.function(jit_compile=True)
def compiled_by_xla(x: tf.Tensor) -> tf.Tensor:
    return mean_of(x)


def calls_what_xla_compiles(x: tf.Tensor) -> tf.Tensor:
    return compiled_by_xla(x) + 1.0


FEED = iter(tf.data.Dataset.from_tensors(IMAGES).repeat())
TABLE = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, 0.0)

REFUSED: tuple[tuple[Callable[..., Any], type[CheckmateError], str], ...] = (
    (calls_python, TraceError, r"'calls_python' calls Python code each time .* cannot be undone"),
    (takes_data, TraceError, "'takes_data' takes its data from an iterator itself"),
    (fills_a_table, TraceError, "'fills_a_table' keeps state outside of variables"),
    (calls_what_xla_compiles, JitCompiledError, "is compiled with jit_compile=True"),
    (lambda x: x.numpy(), TraceError, "could not be traced"),
)


@pytest.mark.parametrize(("function", "error", "sentence"), REFUSED)
def test_what_a_trial_run_would_change_is_refused(function: Any, error: Any, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        within(function, example=IMAGES)


def test_what_is_no_function_of_tensors_is_refused() -> None:
    with pytest.raises(UsageError, match="is not a function of tensors") as caught:
        within(own_step())
    assert caught.value.hint == "for a Keras model call checkmate.rematerialize"
    with pytest.raises(UsageError, match="traced for one layout already"):
        within(tf.function(mean_of).get_concrete_function(IMAGES))
    with pytest.raises(TraceError, match="an argument of the step is a set"):
        within(lambda x, names: mean_of(x), on_miss="raise")(IMAGES, {"a"})


def test_the_bare_step_is_keras_own_alone() -> None:
    with pytest.raises(TraceError, match="'own' has a train_step of its own") as caught:
        checkmate.train_step(own_step(), "70%")
    assert "rematerialize_function(model.train_step, budget)" in str(caught.value.hint)


def test_logs_in_any_structure_and_each_layout_of_data() -> None:
    x, y = IMAGES.numpy(), np.ones((8, 1), np.float32)
    found = []
    for model in (own_step(), checkmate.rematerialize(own_step(), "85%", options=FAST, quiet=True)):
        history = model.fit(x, y, batch_size=8, epochs=2, verbose=0).history
        logs = model.train_on_batch(x[:4], y[:4], return_dict=True)
        found.append((history, logs, model.get_weights()))
        assert set(history) == {"loss", "twice"}  # Keras flattens them
    plans = list(model.train_function.training.planner.plans)
    assert [plan.layout.batch_size for plan in plans] == [8, 4]
    assert plans[0].schedule is not None and plans[0].schedule.recomputations > 0
    assert found[1][0]["loss"] == pytest.approx(found[0][0]["loss"], rel=1e-4)
    twice = [float(logs["twice"]) for _, logs, _ in found]
    assert twice[1] == pytest.approx(twice[0], rel=1e-4)
    for mine, expected in zip(found[1][2], found[0][2], strict=True):
        assert np.allclose(mine, expected, rtol=1e-4, atol=1e-5)


def test_arguments_in_any_structure_and_constants_of_a_layout() -> None:
    weights = [tf.Variable(0.1 * tf.ones((3, 3, 3 if not i else 16, 16))) for i in range(5)]

    def step(batch: dict[str, Any], *, rate: float, names: tuple[str, ...] = ()) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            x = batch["images"]
            for weight in weights:
                x = tf.nn.tanh(tf.nn.conv2d(x, weight, 1, "SAME"))
            loss = tf.reduce_mean(batch["scale"] * tf.square(x))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(rate * gradient)
        return {"loss": loss, "rate": rate, "none": None, "features": (x[:, 0, 0], len(names))}

    batch = {"images": IMAGES, "scale": np.float32(2.0)}
    start = [weight.numpy() for weight in weights]
    expected = tf.function(step)(batch, rate=0.5, names=("a", "b"))
    after = [weight.numpy() for weight in weights]
    for weight, value in zip(weights, start, strict=True):
        weight.assign(value)
    scheduled = within(step)
    found = scheduled(batch, rate=0.5, names=("a", "b"))
    assert float(found["loss"]) == pytest.approx(float(expected["loss"]), rel=1e-5)
    assert found["none"] is None and float(found["rate"]) == 0.5 and int(found["features"][1]) == 2
    assert found["features"][0].shape == expected["features"][0].shape == (8, 16)
    for weight, value in zip(weights, after, strict=True):
        assert np.allclose(weight.numpy(), value, rtol=1e-4, atol=1e-6)
    scheduled(batch, rate=0.25)
    plans = list(scheduled.planner.plans)
    assert len(plans) == 2 and plans[0].schedule.recomputations > 0
    # Inside another function it needs the plan that is there.
    inside = tf.function(lambda x: scheduled({"images": x, "scale": np.float32(2.0)}, rate=0.25)["loss"])
    assert np.isfinite(float(inside(IMAGES)))
    with pytest.raises(UsageError, match="that it has no plan for"):
        tf.function(lambda x: scheduled(x), autograph=False)(IMAGES[:3])


def test_the_programs_of_the_python_page_run() -> None:
    page = (Path(__file__).parents[2] / "docs" / "pages" / "python.md").read_text(encoding="utf-8")
    section = page.split("## Any training step\n")[1].split("\n## ")[0]
    blocks = [block.split("```")[0] for block in section.split("```python\n")[1:]]
    by_fit, by_call = (block.replace('budget="', 'options=FAST, budget="') for block in blocks)
    adam, images = keras.optimizers.Adam, np.concatenate([IMAGES.numpy()] * 4)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    gan = {"model": GAN(), "d_optimizer": adam(), "g_optimizer": adam(), "loss_fn": loss, "images": images}
    exec(compile(by_fit, "python.md", "exec"), {**gan, "checkmate": checkmate, "FAST": FAST})
    assert int(gan["g_optimizer"].iterations.numpy()) == 20
    inputs = x = keras.Input((32, 32, 3))
    for _ in range(5):
        x = layers.Conv2D(16, 3, padding="same", activation="tanh")(x)
    network = keras.Model(inputs, layers.Conv2D(3, 1)(x))
    names = {"network": network, "weights": network.trainable_weights, "optimizer": adam(), "images": images}
    names |= {"average": tf.Variable(0.0), "checkmate": checkmate, "tf": tf, "FAST": FAST}
    exec(compile(by_call, "python.md", "exec"), names)
    assert float(names["found"]["average"]) == pytest.approx(0.01 * float(names["found"]["loss"]), rel=1e-5)
    (plan,) = names["step"].planner.plans
    assert plan.schedule.recomputations > 0
