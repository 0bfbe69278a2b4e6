"""Test the one line in user code, and the bare step: every kind of model.

What cannot be planned is refused; nothing else in the process changes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import checkmate
from checkmate.errors import CheckmateError, DynamicShapeError, TraceError, UsageError
from checkmate.training import api
from tests.quick_start import QUICK
from tests.tf.rematerialized import FAST, assert_close, conv_model, data, plans, recomputations, within


def test_masks_on_predictions_reach_the_metrics() -> None:
    """Check an embedding's padding mask at the output. It weighs the loss and the metrics."""
    tokens = np.random.default_rng(0).integers(0, 20, (32, 48))
    tokens[:, 20:] = 0
    labels = np.random.default_rng(1).random((32, 48, 8)).astype(np.float32)
    weights = np.linspace(0.5, 1.5, 32 * 48, dtype=np.float32).reshape(32, 48)
    found = []
    for planned in (False, True):
        keras.utils.set_random_seed(2)
        inputs = keras.Input((48,), dtype="int32")
        x = layers.Embedding(20, 64, mask_zero=True)(inputs)
        for _ in range(6):
            x = layers.Dense(128, activation="tanh")(x)
        model = keras.Model(inputs, layers.Dense(8)(x))
        model.compile(
            "sgd", "mean_squared_error", weighted_metrics=[keras.metrics.MeanAbsoluteError(name="mae")]
        )
        if planned:
            within(model, "50%")  # the plain peak varies: at 65 % all may be kept
        found.append(model.train_on_batch(tokens, labels, sample_weight=weights, return_dict=True))
        assert not planned or recomputations(model) > 0
    assert found[1] == pytest.approx(found[0], rel=1e-4)


def test_a_loss_whose_conditions_call_functions_by_their_names() -> None:
    """Check CTC: TensorFlow writes its branches as ops that have a function's name as their type."""
    x = np.random.default_rng(0).random((32, 64, 24), np.float32)
    y = np.random.default_rng(1).integers(1, 29, (32, 8))
    found = []
    for planned in (False, True):
        keras.utils.set_random_seed(2)
        model = keras.Sequential(
            [
                keras.Input((64, 24)),
                *(layers.Dense(128, activation="relu") for _ in range(4)),
                layers.Dense(30),
            ]
        )
        model.compile("sgd", keras.losses.CTC())
        if planned:
            within(model, "70%")
        found.append([model.train_on_batch(x, y) for _ in range(2)])
        assert not planned or recomputations(model) > 0
    assert found[1] == found[0]


def test_inputs_and_outputs_by_name() -> None:
    images = np.random.default_rng(0).random((16, 32, 32, 3), dtype=np.float32)
    found = []
    for planned in (False, True):
        keras.utils.set_random_seed(2)
        left, right = keras.Input((32, 32, 3), name="left"), keras.Input((32, 32, 3), name="right")
        x = layers.Concatenate()([layers.Conv2D(16, 3, activation="relu")(each) for each in (left, right)])
        for _ in range(4):
            x = layers.Conv2D(16, 3, activation="relu", padding="same")(x)
        outputs = {
            "depth": layers.Conv2D(1, 1)(x),
            "kind": layers.Dense(3)(layers.GlobalAveragePooling2D()(x)),
        }
        model = keras.Model({"left": left, "right": right}, outputs)
        model.compile("sgd", {"depth": "mse", "kind": "mae"}, loss_weights={"depth": 0.3, "kind": 1.0})
        if planned:
            within(model, "90%")
        y = {"depth": np.ones((16, 30, 30, 1), np.float32), "kind": np.zeros((16, 3), np.float32)}
        batch = ({"left": images, "right": images[::-1]}, y)
        found.append(model.fit(tf.data.Dataset.from_tensors(batch).repeat(2), verbose=0).history)
        assert not planned or recomputations(model) > 0
    assert set(found[1]) == set(found[0]) == {"loss", "depth_loss", "kind_loss"}
    for name, values in found[0].items():
        assert found[1][name] == pytest.approx(values, rel=1e-3)


def augmented() -> Any:
    """Return a model that is built by its first batch. It has random augmentation and an added loss by a
    regularizer."""
    return keras.Sequential(
        [
            layers.Rescaling(2.0),
            layers.RandomFlip(seed=1),
            layers.Conv2D(16, 3, activation="relu", kernel_regularizer="l2"),
            layers.BatchNormalization(),
            layers.Conv2D(16, 3, activation="gelu"),
            layers.Dropout(0.2, seed=3),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4, activation="softmax"),
        ]
    )


def recurrent() -> Any:
    return keras.Sequential(
        [
            layers.Reshape((48, 64)),
            layers.Dense(64, activation="relu"),
            layers.Dense(64, activation="tanh"),
            layers.LSTM(64, return_sequences=True),
            layers.Dense(64, activation="gelu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(4, activation="softmax"),
        ]
    )


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.convolutions = [
            layers.Conv2D(16, 3, activation=each) for each in ("relu", "gelu", "relu", "gelu", "relu")
        ]
        self.dropout, self.head = layers.Dropout(0.3, seed=4), layers.Dense(4, activation="softmax")

    def call(self, x: Any, training: bool = False) -> Any:
        for convolution in self.convolutions:
            x = convolution(x)
        self.add_loss(1e-3 * keras.ops.mean(x**2))
        return self.head(self.dropout(keras.ops.mean(x, axis=(1, 2)), training=training))


@pytest.mark.parametrize("make", [augmented, recurrent, Subclassed])
def test_models_that_their_first_batch_builds(make: Callable[[], Any]) -> None:
    # Large tensors: what a loop holds beside them differs by half a MiB from step to step.
    x, y = data(64 * 2 + 3)
    found = []
    for planned in (False, True):
        keras.utils.set_random_seed(1)
        model = make()
        model.compile(keras.optimizers.AdamW(1e-3, clipnorm=1.0), "sparse_categorical_crossentropy")
        if planned:
            within(model, "80%")
        found += [model, model.fit(x, y, batch_size=64, shuffle=False, verbose=0).history["loss"]]
    assert recomputations(found[2]) > 0
    assert found[3] == pytest.approx(found[1], rel=1e-3)
    assert_close(found[2], found[0])


def test_the_bare_step_in_a_loop_of_ones_own() -> None:
    x, y = data(16)
    model, plain = conv_model(), conv_model()
    before = vars(model).get("make_train_function")
    step = checkmate.train_step(model, "65%", example=(x, y), options=FAST, solver="greedy", quiet=True)
    losses = [float(step(x, y)[0]) for _ in range(3)]
    assert losses == pytest.approx([plain.train_on_batch(x, y)[0] for _ in range(3)], rel=1e-2)
    loss, predictions = step(x[:4], y[:4])  # another layout
    assert predictions.shape == (4, 4) and np.isfinite(float(loss))
    assert vars(model).get("make_train_function") is before

    @tf.function(autograph=False)
    def two_steps(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        first, _ = step(images, labels)
        with tf.control_dependencies([first]):
            return step(images, labels)[0]

    iterations = int(model.optimizer.iterations.numpy())
    assert np.isfinite(float(two_steps(tf.constant(x), tf.constant(y))))
    assert int(model.optimizer.iterations.numpy()) == iterations + 2
    with pytest.raises(UsageError, match=r"inside a tf\.function with a batch of 5 that it has no plan for"):
        two_steps(tf.constant(x[:5]), tf.constant(y[:5]))


def uncompiled() -> Any:
    inputs = keras.Input((4,))
    return keras.Model(inputs, layers.Dense(1)(inputs), name="raw")


def wrong_loss() -> Any:
    model = conv_model()
    model.compile("adam", {"dense": "sparse_crossentropy"})
    return model


REFUSED: tuple[tuple[Callable[[], Any], str, type[CheckmateError], str], ...] = (
    (uncompiled, "1GiB", UsageError, "'raw' is not compiled"),
    (lambda: conv_model(run_eagerly=True), "1GiB", UsageError, "runs eagerly"),
    (wrong_loss, "1GiB", UsageError, "Keras has no loss 'sparse_crossentropy'"),
    (lambda: "model", "1GiB", UsageError, "str is not a keras.Model"),
    (conv_model, "lots", UsageError, "cannot read 'lots' as a budget"),
    (conv_model, "0", UsageError, "leaves no memory at all"),
    (conv_model, None, UsageError, "cannot read 'None' as a budget"),
    (conv_model, "60", UsageError, "a budget of 60 bytes is less than any step needs"),
    (conv_model, 0.6, UsageError, "write 60% for a share"),
)


@pytest.mark.parametrize("function", [checkmate.rematerialize, checkmate.train_step])
def test_an_unknown_on_miss_is_refused_at_once(function: Any) -> None:
    with pytest.raises(UsageError, match="on_miss='nearest' is not known") as caught:
        function(conv_model(), "1GiB", on_miss="nearest")
    assert 'on_miss="closest"' in caught.value.hint and 'on_miss="raise"' in caught.value.hint


@pytest.mark.parametrize("function", [checkmate.rematerialize, checkmate.train_step])
def test_where_all_functions_run_eagerly_it_says_so(function: Any) -> None:
    tf.config.run_functions_eagerly(True)
    try:
        with pytest.raises(UsageError, match="runs every function eagerly") as caught:
            function(conv_model(), "1GiB")
        step = checkmate.rematerialize_function(tf.square, "1GiB", on_miss="raise")
        with pytest.raises(UsageError, match="runs every function eagerly"):
            step(tf.ones((8, 8)))
        assert checkmate.rematerialize_function(tf.square, "1GiB")(tf.fill((8, 8), 3.0)).numpy().max() == 9
    finally:
        tf.config.run_functions_eagerly(False)
    assert caught.value.hint == "call tf.config.run_functions_eagerly(False) first"


@pytest.mark.parametrize(("make", "budget", "error", "sentence"), REFUSED)
@pytest.mark.parametrize("function", [checkmate.rematerialize, checkmate.train_step])
def test_refused_at_once(
    function: Any, make: Callable[[], Any], budget: Any, error: type[CheckmateError], sentence: str
) -> None:
    with pytest.raises(error, match=sentence.replace("(", r"\(")):
        function(make(), budget)


def test_a_step_of_small_tensors_trains_as_before() -> None:
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layers.Dense(2)(inputs))
    model.compile("sgd", "mse")
    model = within(model)
    model.fit(np.ones((8, 4), np.float32), np.ones((8, 2), np.float32), batch_size=4, verbose=0)
    (plan,) = plans(model)
    assert plan.schedule is None and "nothing big enough to recompute" in plan.sentence


def test_batches_that_cannot_be_planned() -> None:
    step = checkmate.train_step(conv_model(), "65%", options=FAST, solver="greedy", quiet=True)
    with pytest.raises(TraceError, match="holds no tensors"):
        step.prepare(None)

    @tf.function(input_signature=[tf.TensorSpec((None, 32, 32, 3)), tf.TensorSpec((None,))], autograph=False)
    def open_batch(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return step(x, y)[0]

    with pytest.raises(DynamicShapeError, match="not known before it runs"):
        open_batch(*data(4))


def test_import_and_use_leave_the_process_as_it_was() -> None:
    """Check that the process is not changed. No environment variable, TensorFlow option, Keras setting or
    class attribute is touched."""
    program = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import keras, tensorflow as tf
def facts():
    return (dict(os.environ), tf.config.optimizer.get_experimental_options(), tf.config.optimizer.get_jit(),
        tf.config.threading.get_inter_op_parallelism_threads(), tf.config.functions_run_eagerly(),
        keras.config.dtype_policy().name, keras.config.floatx(), dict(vars(keras.Model)),
        dict(vars(keras.layers.Layer)),
        tf.config.get_soft_device_placement(), tf.config.get_visible_devices())
before = facts()
import checkmate
from tests.tf.rematerialized import conv_model, data, FAST
other = conv_model()
mine = dict(vars(other))
model = checkmate.rematerialize(conv_model(), "65%", options=FAST)
model.fit(*data(16), batch_size=16, verbose=0)
assert model.train_function.training.planner.plans
assert facts() == before
assert vars(other).keys() == mine.keys()
"""
    environment = {**os.environ, **QUICK}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    # TensorFlow warns of nothing that is done here and not by the user.
    assert [line for line in done.stderr.splitlines() if "WARNING:tensorflow" in line] == []


def test_the_examples_of_the_python_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_SECONDS", 1.0)  # of each solve, 20 by default
    page = (Path(__file__).parents[2] / "docs" / "pages" / "python.md").read_text(encoding="utf-8")
    section = page.split("## In one line\n")[1].split("\n## ")[0]
    blocks = [block.split("```")[0] for block in section.split("```python\n")[1:]]
    assert len(blocks) == 2
    x, y = data(40)
    names: dict[str, Any] = {"model": conv_model(blocks=4), "x": x, "y": y}
    for block in blocks:
        exec(compile(block, "python.md", "exec"), names)
    assert recomputations(names["model"]) > 0
    assert np.isfinite(float(names["loss"])) and names["predictions"].shape == (8, 4)
    # Two epochs of 32 examples in batches of 16, then three steps.
    assert int(names["model"].optimizer.iterations.numpy()) == 7
