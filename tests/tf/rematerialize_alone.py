"""Test the one line in user code: ``fit`` works as before, in the budget.

Everything around ``fit`` works as before too.
"""

from __future__ import annotations

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
from checkmate.errors import (
    CheckmateError,
    DynamicShapeError,
    JitCompiledError,
    NoScheduleError,
    TraceError,
    UsageError,
)

FAST = checkmate.SolveOptions(time_limit_s=1.0)


def conv_model(blocks: int = 3, **options: Any) -> Any:
    """Return the same model in each call.

    Its activations take 1 MiB for a batch of 16.
    """
    keras.utils.set_random_seed(5)
    inputs = x = keras.Input((32, 32, 3))
    for _ in range(blocks):
        x = layers.Conv2D(16, 3, padding="same")(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Dropout(0.3, seed=9)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, layers.Dense(4, activation="softmax")(x), name="conv")
    model.compile(
        **{"optimizer": "adam", "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"], **options}
    )
    return model


def data(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return random.random((count, 32, 32, 3), dtype=np.float32), random.integers(0, 4, count)


def within(model: Any, budget: Any = "70%", **options: Any) -> Any:
    return checkmate.rematerialize(
        model, budget, **{"options": FAST, "solver": "greedy", "quiet": True, **options}
    )


def plans(model: Any) -> list[Any]:
    return list(model.train_function.training.planner._plans.values())


def recomputations(model: Any) -> int:
    return sum(plan.schedule.recomputations for plan in plans(model) if plan.schedule is not None)


def assert_close(model: Any, other: Any) -> None:
    """Check that two trainings agree but for rounding.

    Default kernels fuse differently and so round differently. A missed or doubled update differs by far more.
    """
    for found, expected in zip(model.get_weights(), other.get_weights(), strict=True):
        assert np.allclose(found, expected, rtol=1e-2, atol=5e-3)


@pytest.fixture(scope="module")
def trained() -> tuple[Any, Any, Any, Any, list[str]]:
    """Return a model trained plainly and the same one within a budget.

    They train two epochs with a smaller last batch, validation and class weights.
    """
    x, y = data(16 * 2 + 6)
    heard: list[str] = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: heard.append(f"{batch} {sorted(logs)}"),
        on_epoch_end=lambda epoch, logs: heard.append(f"epoch {epoch} {sorted(logs)}"),
    )
    found = []
    for model in (conv_model(), within(conv_model())):
        heard.clear()
        history = model.fit(
            x, y, batch_size=16, epochs=2, shuffle=False, verbose=0, validation_data=(x[:8], y[:8]),
            class_weight={0: 1.0, 1: 2.0, 2: 0.5, 3: 1.0}, callbacks=[callback],
        )  # fmt: skip
        found += [model, history.history]
    return (*found, heard)


def test_fit_is_as_before(trained: Any) -> None:
    plain, expected, model, found, heard = trained
    assert recomputations(model) > 0
    assert set(found) == set(expected) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-2)
    assert found["accuracy"] == pytest.approx(expected["accuracy"])
    assert heard[:3] == [f"{batch} ['accuracy', 'loss']" for batch in range(3)]
    assert heard[3] == "epoch 0 ['accuracy', 'loss', 'val_accuracy', 'val_loss']"
    assert int(model.optimizer.iterations.numpy()) == int(plain.optimizer.iterations.numpy()) == 6
    assert_close(model, plain)


def test_each_layout_has_one_plan_and_the_small_batch_stays_plain(trained: Any) -> None:
    model = trained[2]
    assert [(plan.layout.batch_size, plan.schedule is None) for plan in plans(model)] == [
        (16, False),
        (6, True),
    ]


def test_the_measured_peak_is_within_the_budget(trained: Any) -> None:
    model = trained[2]
    planner = model.train_function.training.planner
    assert 0 < max(plan.peak_bytes for plan in plans(model)) <= planner.allowed_bytes


def test_saving_and_loading(trained: Any, tmp_path: Path) -> None:
    model = trained[2]
    x, y = data(16)
    model.save(tmp_path / "m.keras")
    model.save_weights(tmp_path / "m.weights.h5")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert np.array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))
    assert "make_train_function" not in vars(loaded)
    other = within(conv_model())
    other.load_weights(tmp_path / "m.weights.h5")
    assert other.evaluate(x, y, verbose=0) == model.evaluate(x, y, verbose=0)
    # Weights and slots continue from their saved values, with a schedule or without.
    plain = keras.models.load_model(tmp_path / "m.keras")
    losses = [[each.train_on_batch(x, y)[0] for _ in range(2)] for each in (plain, within(loaded))]
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)
    assert int(loaded.optimizer.iterations.numpy()) == 8
    assert recomputations(loaded) > 0


def test_compiling_again_starts_anew() -> None:
    x, y = data(16)
    model, plain = within(conv_model()), conv_model()
    for each in (model, plain):
        each.train_on_batch(x, y)
        each.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        assert each.train_function is None
        each.train_on_batch(x, y)
    assert recomputations(model) > 0
    assert_close(model, plain)
    assert isinstance(model.optimizer, keras.optimizers.SGD) and int(model.optimizer.iterations.numpy()) == 1


def test_an_example_is_planned_at_once_and_changes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    x, y = data(16)
    model = conv_model()
    before = model.get_weights()
    assert checkmate.rematerialize(model, "70%", example=(x, y), options=FAST, solver="greedy") is model
    err = capfd.readouterr().err
    lines = [line for line in err.splitlines() if line.startswith("checkmate: ")]
    assert len(lines) == 1 and "batch of 16: " in lines[0] and " recomputations, +" in lines[0]
    assert recomputations(model) > 0
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    assert all(not variable.numpy().any() for variable in model.optimizer.variables[2:])
    model.fit(x, y, batch_size=16, verbose=0)
    assert len(plans(model)) == 1 and "checkmate: " not in capfd.readouterr().err


def test_a_slightly_smaller_batch_takes_the_schedule_that_is_known() -> None:
    model = within(conv_model())
    x, y = data(16)
    model.train_on_batch(x, y)
    model.train_on_batch(x[:15], y[:15])
    first, second = plans(model)
    assert (first.layout.batch_size, second.layout.batch_size) == (16, 15)
    assert "an earlier schedule fits" in second.sentence
    assert second.schedule.steps.tolist() == first.schedule.steps.tolist()
    assert second.peak_bytes <= model.train_function.training.planner.allowed_bytes


def test_quiet_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    within(conv_model(), example=data(16))
    assert "checkmate: " not in capfd.readouterr().err


def test_steps_per_execution_and_a_dataset_that_ends_early() -> None:
    x, y = data(16 * 3)
    found = []
    for model in (conv_model(steps_per_execution=2), within(conv_model(steps_per_execution=2))):
        ended: list[int] = []
        callback = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, ended=ended: ended.append(batch)
        )
        batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
        history = model.fit(batches, verbose=0, callbacks=[callback])
        found.append((ended, int(model.optimizer.iterations.numpy()), history.history["loss"][0]))
    assert found[1][:2] == found[0][:2]
    assert found[1][2] == pytest.approx(found[0][2], rel=1e-2)


def test_masks_on_predictions_reach_the_metrics() -> None:
    """Check an embedding's padding mask at the output.

    It weighs the loss and the metrics.
    """
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
            within(model, "80%")
        found.append(model.train_on_batch(tokens, labels, sample_weight=weights, return_dict=True))
        assert not planned or recomputations(model) > 0
    assert found[1] == pytest.approx(found[0], rel=1e-4)


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
    """Return a model that is built by its first batch.

    It has random augmentation and an added loss by a regularizer.
    """
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
    x, y = data(16 * 2 + 3)
    found = []
    for planned in (False, True):
        keras.utils.set_random_seed(1)
        model = make()
        model.compile(keras.optimizers.AdamW(1e-3, clipnorm=1.0), "sparse_categorical_crossentropy")
        if planned:
            within(model, "92%")
        found += [model, model.fit(x, y, batch_size=16, shuffle=False, verbose=0).history["loss"]]
    assert recomputations(found[2]) > 0
    assert found[3] == pytest.approx(found[1], rel=1e-3)
    assert_close(found[2], found[0])


def test_the_bare_step_in_a_loop_of_ones_own() -> None:
    x, y = data(16)
    model, plain = conv_model(), conv_model()
    before = vars(model).get("make_train_function")
    step = checkmate.train_step(model, "70%", example=(x, y), options=FAST, solver="greedy", quiet=True)
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


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> dict[str, Any]:
        return {"loss": tf.constant(0.0)}


def uncompiled() -> Any:
    inputs = keras.Input((4,))
    return keras.Model(inputs, layers.Dense(1)(inputs), name="raw")


REFUSED: tuple[tuple[Callable[[], Any], str, type[CheckmateError], str], ...] = (
    (uncompiled, "1GiB", UsageError, "'raw' is not compiled"),
    (lambda: conv_model(run_eagerly=True), "1GiB", UsageError, "runs eagerly"),
    (
        lambda: conv_model(jit_compile=True),
        "1GiB",
        JitCompiledError,
        "jit_compile=True; XLA merges recomputed ops",
    ),
    (lambda: "model", "1GiB", UsageError, "str is not a keras.Model"),
    (conv_model, "lots", UsageError, "cannot read 'lots' as a budget"),
    (conv_model, "0", UsageError, "leaves no memory at all"),
    (conv_model, None, UsageError, ""),
)


@pytest.mark.parametrize(("make", "budget", "error", "sentence"), REFUSED)
@pytest.mark.parametrize("function", [checkmate.rematerialize, checkmate.train_step])
def test_refused_at_once(
    function: Any, make: Callable[[], Any], budget: Any, error: type[CheckmateError], sentence: str
) -> None:
    with pytest.raises(error, match=sentence.replace("(", r"\(")):
        function(make(), budget)


def test_a_train_step_of_its_own_is_refused() -> None:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    model = OwnStep(inputs, layers.Dense(1)(inputs), name="own")
    model.compile("sgd", "mse")
    with pytest.raises(TraceError, match="'own' has a train_step of its own"):
        checkmate.rematerialize(model, "1GiB")


def test_an_impossible_budget_names_the_least_possible() -> None:
    model = conv_model()
    with pytest.raises(
        NoScheduleError, match=r"batch of 16 within 1\.00 MiB.*the least possible is about .* MiB"
    ) as caught:
        within(model, "1MiB", example=data(16))
    needed = caught.value.details["needed_bytes"]
    assert caught.value.details["budget_bytes"] == 2**20 < needed
    # fit raises the same error at the first batch, and the budget that it names is possible.
    with pytest.raises(NoScheduleError):
        model.fit(*data(16), batch_size=16, verbose=0)
    within(model, int(needed * 1.25), example=data(16))


def test_batches_that_cannot_be_planned() -> None:
    step = checkmate.train_step(conv_model(), "70%", options=FAST, solver="greedy", quiet=True)
    sparse = tf.sparse.from_dense(np.zeros((4, 32, 32, 3), np.float32))
    with pytest.raises(TraceError, match="holds a sparse tensor"):
        step(sparse, np.zeros(4))
    with pytest.raises(TraceError, match="holds text"):
        step(np.array(["a", "b"]), np.zeros(2))
    with pytest.raises(TraceError, match="holds no tensors"):
        step.prepare(None)

    @tf.function(input_signature=[tf.TensorSpec((None, 32, 32, 3)), tf.TensorSpec((None,))], autograph=False)
    def open_batch(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return step(x, y)[0]

    with pytest.raises(DynamicShapeError, match="not known before it runs"):
        open_batch(*data(4))


def test_import_and_use_leave_the_process_as_it_was() -> None:
    """Check that the process is not changed.

    No environment variable, TensorFlow option, Keras setting or class attribute is touched.
    """
    program = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import keras, tensorflow as tf
def facts():
    return (dict(os.environ), tf.config.optimizer.get_experimental_options(), tf.config.optimizer.get_jit(),
        tf.config.threading.get_inter_op_parallelism_threads(), tf.config.functions_run_eagerly(),
        keras.config.dtype_policy().name, keras.config.floatx(), dict(vars(keras.Model)),
        dict(vars(keras.layers.Layer)),
        tf.config.get_soft_device_placement(), tf.config.get_visible_devices())
before = facts()
import checkmate
from rematerialize_alone import conv_model, data, FAST
other = conv_model()
mine = dict(vars(other))
model = checkmate.rematerialize(conv_model(), "70%", options=FAST)
model.fit(*data(16), batch_size=16, verbose=0)
assert model.train_function.training.planner._plans
assert facts() == before
assert vars(other).keys() == mine.keys()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_examples_of_the_python_page_run() -> None:
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
