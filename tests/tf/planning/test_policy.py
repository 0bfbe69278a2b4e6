"""Test the policy's code on Keras models: the measured peak of the step, its gradients and its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import checkmate
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement, measure_fresh
from checkmate.policies.code import keras_code
from checkmate.progress import never, silent
from checkmate.request import ModelRequest

BATCH = 16

PROGRAM = """
import keras
{made_by}

def given():
    keras.backend.clear_session()  # the process may have made other layers before
    return {call}

def pasted():
    model = given()
    namespace = {{"model": model}}
    exec({code!r}, namespace)
    namespace["model"].compile("sgd", model.loss, jit_compile=False)
    return namespace["model"]
"""
SMALL = "from tests.tf import conv_models"
SAMPLE = "from checkmate.models.sample_networks import build_sample"


def policy_for(model: str, budget: str) -> checkmate.Policy:
    return checkmate.policy(
        model,
        budget,
        batch_size=BATCH,
        costs="analytic",
        device="cpu",
        allow_code=True,
        quiet=True,
        options=checkmate.SolveOptions(time_limit_s=4),
    )


def measured(model: str, *, as_written: bool) -> FreshMeasurement:
    request = ModelRequest(model, batch_size=BATCH, device="cpu", allow_code=True)
    return measure_fresh(request, None, message="", report=silent, cancelled=never, as_written=as_written)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("made_by", "call", "budget"),
    [
        (SMALL, "conv_models.chain()", "75%"),
        (SMALL, "conv_models.residual()", "75%"),
        (SMALL, "conv_models.unet()", "75%"),
        (SAMPLE, "build_sample('mobilenet', (96, 96, 3))", "75%"),
        (SAMPLE, "build_sample('resnet', (64, 64, 3))", "70%"),
    ],
)
def test_the_measured_peak_is_about_the_predicted_one(
    made_by: str, call: str, budget: str, tmp_path: Path
) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(made_by=made_by, call=call, code=""))
    found = policy_for(f"{file}:given", budget)
    assert found.fits and found.segments
    file.write_text(PROGRAM.format(made_by=made_by, call=call, code=found.code))
    policy = measured(f"{file}:pasted", as_written=True)
    # TensorFlow's executor runs in any order what may run: one activation more may be there.
    assert policy.requested_peak_bytes <= (
        found.budget_bytes if made_by == SAMPLE else 1.12 * found.peak_bytes
    )
    if made_by == SAMPLE:
        assert found.best.cost is not None
        assert found.overhead <= 1.3 * (found.best.cost / found.best.base_cost - 1)


def gradients(model: Any, x: Any) -> list[Any]:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(x, training=True) ** 2)
    return list(tape.gradient(loss, model.trainable_variables))


def test_the_code_computes_the_same_gradients_with_the_same_weights() -> None:
    inputs = keras.Input((8,))
    wide = keras.layers.Dense(8, activation="tanh", name="wide")(inputs)
    normal = keras.layers.LayerNormalization(name="normal")(wide)
    other = keras.layers.Dense(8, activation="tanh", name="other")(normal)
    joined = keras.layers.Concatenate(name="joined")([wide, other, keras.ops.sin(normal)])
    given = keras.Model(inputs, keras.layers.Dense(2, name="last")(joined))
    code = keras_code({"wide": (), "other": (), "last": None})
    namespace: dict[str, Any] = {"model": given}
    exec(code, namespace)
    model = namespace["model"]
    assert {id(each) for each in model.weights} == {id(each) for each in given.weights}
    x = tf.constant(np.random.default_rng(0).normal(size=(4, 8)), tf.float32)
    with pytest.raises(ValueError, match=r"has no layers \['narrow'\]"):
        exec(keras_code({"narrow": ()}), {"model": given})
    pairs = {}
    for each in (given, model):
        found = tf.function(lambda x, each=each: gradients(each, x))(x)
        pairs[each is model] = dict(zip((v.path for v in each.trainable_variables), found, strict=True))
    assert pairs[True].keys() == pairs[False].keys()
    for path, gradient in pairs[False].items():
        np.testing.assert_allclose(gradient, pairs[True][path], rtol=1e-4, atol=1e-6)
    traced = tf.function(lambda x: gradients(model, x)).get_concrete_function(x)
    assert sum(op.type == "Tanh" for op in traced.graph.get_operations()) == 4


def normalized(axis: int) -> Any:
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6, 4))
    x = keras.layers.Dense(8, name="first")(inputs)
    x = keras.layers.BatchNormalization(axis=axis, name="normal")(x)
    x = keras.layers.Activation("tanh", name="bent")(x)
    x = keras.layers.Dense(8, name="second")(x)
    x = keras.layers.BatchNormalization(scale=False, momentum=0.5, name="last_normal")(x)
    return keras.Model(inputs, keras.layers.Dense(1, name="last")(keras.layers.Flatten(name="flat")(x)))


@pytest.mark.parametrize("axis", [-1, 1])
def test_kept_outputs_and_averages_are_those_of_the_plain_training(axis: int) -> None:
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(32, 6, 4)), generator.normal(size=(32, 1))
    code = keras_code({"first": ("first", "second"), "flat": None})
    trained = []
    for applied in ("", code):
        namespace: dict[str, Any] = {"model": normalized(axis)}
        exec(applied, namespace)
        model = namespace["model"]
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
        model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        trained.append({each.path: each.numpy() for each in model.weights})
    plain, policy = trained
    assert plain.keys() == policy.keys() and sum("moving" in path for path in plain) == 4
    for path, value in plain.items():
        np.testing.assert_allclose(policy[path], value, rtol=1e-3, atol=1e-5)
