"""Test that a model with jit_compile=True trains compiled, within its budget."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import checkmate
from checkmate.errors import JitCompiledError, NoScheduleError
from checkmate.keras import MemoryReport
from tests.tf.xla.networks import NETWORKS

pytestmark = pytest.mark.heavy

TIGHT: dict[str, Any] = {"options": checkmate.SolveOptions(time_limit_s=3)}


def _model(name: str, **options: Any) -> tuple[Any, Any, Any]:
    keras.utils.set_random_seed(1)
    model, (x, y) = NETWORKS[name](**options)
    return model, x, y


def _losses(model: Any, x: Any, y: Any, steps: int) -> np.ndarray:
    return np.array([model.train_on_batch(x, y) for _ in range(steps)], np.float64)


def _plan_of(compiled: Any) -> Any:
    """Return the only plan, which keeps its budget by a schedule."""
    (plan,) = compiled.plans.values()
    assert plan.fit.schedule is not None
    assert plan.fit.whole_bytes <= plan.fit.budget_bytes < plan.fit.plain_bytes
    return plan


@pytest.mark.parametrize("name", ["dense", "transformer", "pooled"])
def test_fit_keeps_the_budget_and_the_losses(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    model, x, y = _model(name)
    options = checkmate.SolveOptions(time_limit_s=5)
    assert checkmate.rematerialize(model, "60%", options=options) is model
    found = _losses(model, x, y, 20)
    fit = _plan_of(model.train_function.training.compiled).fit
    assert fit.budget_bytes == int(0.6 * fit.plain_bytes)
    assert "compiled by XLA" in capfd.readouterr().err

    plain, x, y = _model(name)
    expected = _losses(plain, x, y, 20)
    np.testing.assert_allclose(found[:, 0], expected[:, 0], rtol=1e-6)
    assert model.predict(x[:2], verbose=0).shape == (2, 10)

    logged = model.fit(x, y, batch_size=len(y), verbose=0, callbacks=[MemoryReport()]).history
    assert logged["memory/peak"] == [fit.whole_bytes] and logged["memory/budget"] == [fit.budget_bytes]
    assert logged["memory/activations"] == [fit.whole_bytes - fit.fixed_bytes]
    assert logged["memory/recompute_overhead"] == [fit.overhead]


class OwnStep(keras.Model):  # type: ignore[misc]  # Keras is untyped here
    """A model that trains by a step of its own."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def _recurrent(kind: type) -> tuple[Any, Any, Any]:
    keras.utils.set_random_seed(1)
    words = keras.Input((40,), dtype="int32")
    h = keras.layers.Embedding(100, 32)(words)
    h = keras.layers.Bidirectional(keras.layers.LSTM(32, return_sequences=True))(h)
    for _ in range(3):
        h = keras.layers.Dense(128, activation="gelu")(h)
    model = kind(words, keras.layers.Dense(10)(keras.layers.LSTM(32)(h)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=True)
    made = np.random.default_rng(0)
    return model, made.integers(0, 100, (64, 40)).astype("int32"), made.integers(0, 10, 64)


@pytest.mark.parametrize("kind", [keras.Model, OwnStep])
def test_loops_stay_whole_and_are_compiled(kind: type, capfd: pytest.CaptureFixture[str]) -> None:
    model, x, y = _recurrent(kind)
    assert model.jit_compile
    checkmate.rematerialize(model, "80%", options=checkmate.SolveOptions(time_limit_s=2), cache=False)
    found = model.fit(x, y, batch_size=64, epochs=3, verbose=0).history["loss"]
    said = capfd.readouterr().err
    assert "compiled by XLA" in said and "cannot compile" not in said
    _plan_of(model.train_function.training.compiled)
    plain, x, y = _recurrent(kind)
    expected = plain.fit(x, y, batch_size=64, epochs=3, verbose=0).history["loss"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_budget_that_cannot_be_kept_is_missed_or_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    options = checkmate.SolveOptions(time_limit_s=1)
    model, x, y = _model("normalized")
    checkmate.rematerialize(model, "1MiB", options=options)
    assert np.isfinite(_losses(model, x, y, 1)).all()
    assert "over the budget of 1.00 MiB; raise the budget to" in capfd.readouterr().err
    model, x, y = _model("normalized")
    with pytest.raises(NoScheduleError, match="the least that was compiled takes") as caught:
        checkmate.rematerialize(model, "1MiB", options=options, on_miss="raise", example=(x, y))
    assert caught.value.details["needed_bytes"] > caught.value.details["budget_bytes"] == 2**20


def test_fit_ends_where_training_need_not_wait() -> None:
    """There is nothing beside compiled training that would have to be ended."""
    model, x, y = _model("normalized")
    checkmate.rematerialize(model, "2GiB", wait=False, quiet=True)
    assert np.isfinite(model.fit(x, y, verbose=0).history["loss"]).all()


def test_what_xla_cannot_compile_trains_on_the_executor(capfd: pytest.CaptureFixture[str]) -> None:
    class Texts(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x + tf.cast(tf.strings.length(tf.strings.as_string(tf.stop_gradient(x[0, 0]))), x.dtype)

    keras.utils.set_random_seed(1)
    inputs = keras.Input((64,))
    model = keras.Model(inputs, keras.layers.Dense(10)(Texts()(keras.layers.Dense(512)(inputs))))
    model.compile("sgd", "mse", jit_compile=True)
    checkmate.rematerialize(model, "1GiB")
    x = np.ones((256, 64), np.float32)
    loss = model.train_on_batch(x, np.ones((256, 10), np.float32))
    assert np.isfinite(loss)
    said = capfd.readouterr().err
    assert "XLA cannot compile the step" in said
    assert "TensorFlow's executor runs it instead" in said


def test_target_executor_is_the_way_out(capfd: pytest.CaptureFixture[str]) -> None:
    model, x, y = _model("normalized")
    checkmate.rematerialize(model, "1GiB", target="executor")
    assert np.isfinite(model.train_on_batch(x, y)).all()
    assert "compiled by XLA" not in capfd.readouterr().err


def test_a_function_that_xla_compiles_keeps_its_budget(capfd: pytest.CaptureFixture[str]) -> None:
    made = [_own_step() for _ in range(2)]
    x, y = tf.random.normal((4096, 64), seed=1), tf.random.normal((4096, 64), seed=2)
    step = checkmate.rematerialize_function(made[0][0], "60%", example=(x, y), **TIGHT)
    _plan_of(step.compiled)
    assert "compiled by XLA" in capfd.readouterr().err

    inside = tf.function(lambda: step(x, y))  # in a loop of one's own it is one call
    found = [float(step(x, y)["loss"]) for _ in range(3)] + [float(inside()["loss"])]
    expected = [float(made[1][0](x, y)["loss"]) for _ in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    for one, other in zip(made[0][1], made[1][1], strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


def _own_step() -> tuple[Any, list[tf.Variable]]:
    weights = [tf.Variable(tf.random.stateless_normal((64, 64), (1, i)) / 8) for i in range(8)]

    @tf.function
    def forward(x: tf.Tensor) -> tf.Tensor:
        for weight in weights:
            x = tf.nn.gelu(x @ weight)
        return x

    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator]
    def step(x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(forward(x) - y))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return {"loss": loss}

    return step, weights


def test_a_bare_step_is_compiled_as_its_model_is(capfd: pytest.CaptureFixture[str]) -> None:
    model, x, y = _model("normalized")
    step = checkmate.train_step(model, "70%", example=(x, y), **TIGHT)
    assert "compiled by XLA" in capfd.readouterr().err
    _plan_of(step.compiled)
    found = [step(x, y)[0].numpy() for _ in range(5)]
    plain, x, y = _model("normalized", metrics=[])
    expected = [plain.train_on_batch(x, y) for _ in range(5)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


class CompiledStep(keras.Model):
    """Have a train_step that is a compiled function itself."""

    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator]
    def train_step(self, data: Any) -> dict[str, Any]:
        return super().train_step(data)


def _with_compiled_step() -> tuple[Any, Any, Any]:
    plain, x, y = _model("dense", jit_compile=False)
    model = CompiledStep(plain.inputs, plain.outputs)
    model.compile("adam", plain.loss, jit_compile=False)
    return model, x, y


def test_an_own_step_that_xla_compiles_is_for_xla(capfd: pytest.CaptureFixture[str]) -> None:
    model, x, y = _with_compiled_step()
    checkmate.rematerialize(model, "70%", **TIGHT)
    assert np.isfinite(model.train_on_batch(x, y)).all()
    assert "compiled by XLA" in capfd.readouterr().err
    _plan_of(model.train_function.training.compiled)


def test_a_compiled_part_on_the_executor_aborts_no_script(capfd: pytest.CaptureFixture[str]) -> None:
    model, x, y = _with_compiled_step()
    checkmate.rematerialize(model, "70%", target="executor")
    assert np.isfinite(model.train_on_batch(x, y)).all()
    said = capfd.readouterr().err
    assert "is compiled with jit_compile=True" in said and "It trains as before. To change that" in said
    model, x, y = _with_compiled_step()
    checkmate.rematerialize(model, "70%", target="executor", on_miss="raise", quiet=True)
    with pytest.raises(JitCompiledError):
        model.train_on_batch(x, y)
