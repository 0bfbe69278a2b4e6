"""Test that saved models are loaded as they were saved.

Weights, loss, optimizer and its state are compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers

from checkmate.models.losses import loss_name
from tests.tf.conftest import dense_model, load

pytestmark = pytest.mark.heavy  # models are saved and loaded in processes

LOSSES = {
    "short name": ("mse", "mean_squared_error"),
    "name": ("categorical_crossentropy", "categorical_crossentropy"),
    "function": (keras.losses.mean_absolute_error, "mean_absolute_error"),
    "object": (keras.losses.CategoricalCrossentropy(from_logits=True), "categorical_crossentropy"),
}


@pytest.fixture(params=[".keras", ".h5"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"model{request.param}"


def trained(**options):
    model = dense_model(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), **options)
    model.train_on_batch(np.ones((4, 8)), np.eye(4))
    return model


@pytest.mark.parametrize("loss", LOSSES, ids=list(LOSSES))
def test_weights_loss_and_optimizer_state_come_back(file: Path, loss: str) -> None:
    model = trained(loss=LOSSES[loss][0], metrics=["mae"])
    model.save(file)
    loaded = load(file)
    assert loaded.name == "model"
    assert loaded.notes == ()
    for found, saved in zip(loaded.model.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(found, saved)
    assert loss_name(loaded.model.loss) == LOSSES[loss][1]
    assert loaded.model.optimizer.momentum == pytest.approx(0.9)
    for found, saved in zip(loaded.model.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(found.numpy(), saved.numpy())


def test_loss_object_keeps_its_settings(file: Path) -> None:
    trained(loss=keras.losses.CategoricalCrossentropy(from_logits=True)).save(file)
    loss = load(file).model.loss
    assert loss.get_config()["from_logits"] is True


@pytest.mark.parametrize("form", ["dict", "list"])
def test_several_losses_and_their_weights_come_back(file: Path, form: str) -> None:
    inputs = keras.Input((8,))
    heads = [
        layers.Dense(2, name="first")(inputs),
        layers.Dense(3, activation="softmax", name="second")(inputs),
    ]
    model = keras.Model(inputs, heads)
    losses = {"first": "mse", "second": "sparse_categorical_crossentropy"}
    weights = {"first": 1.0, "second": 0.25}
    if form == "list":
        losses, weights = list(losses.values()), list(weights.values())
    model.compile("adam", losses, loss_weights=weights)
    batch = (np.ones((4, 8)), [np.zeros((4, 2)), np.array([0, 1, 2, 0])])
    expected = model.test_on_batch(*batch)[0]
    model.save(file)
    loaded = load(file)
    assert loaded.labels.kinds == ("float", "class")
    assert loaded.model.test_on_batch(*batch)[0] == pytest.approx(expected, rel=1e-5)


def test_the_content_decides_and_not_the_name(file: Path) -> None:
    dense_model(optimizer="adam", loss="mse").save(file)
    other = file.rename(file.with_suffix(".h5" if file.suffix == ".keras" else ".keras"))
    assert load(other).model.count_params() == dense_model().count_params()
    assert load(other.rename(file.with_suffix(".bin"))).name == "model"


def test_uncompiled_model_gets_stated_defaults(file: Path) -> None:
    dense_model().save(file)
    loaded = load(file)
    assert loaded.notes == ("not compiled: mean squared error and Adam are used",)


def test_unknown_loss_in_the_file_is_replaced_on_request(file: Path) -> None:
    def homemade(y_true, y_pred):
        return keras.ops.mean(keras.ops.abs(y_true - y_pred), axis=-1)

    dense_model(optimizer=keras.optimizers.SGD(0.5), loss=homemade).save(file)
    loaded = load(file, loss="huber")
    assert loaded.notes == ("the file's own loss 'homemade' is not part of Keras; huber is used instead",)
    assert loaded.model.loss == "huber"
    assert float(loaded.model.optimizer.learning_rate) == pytest.approx(0.5)


def test_lambda_layer_opens_when_allowed(file: Path) -> None:
    inputs = keras.Input((8,))
    keras.Model(inputs, layers.Lambda(lambda x: x * 2)(layers.Dense(4)(inputs))).save(file)
    assert load(file, allow_code=True).label_specs[0].shape == (4, 4)


def test_open_input_takes_the_requested_shape(file: Path) -> None:
    inputs = keras.Input((None, None, 3), name="image")
    x = layers.GlobalAveragePooling2D()(layers.BatchNormalization()(layers.Conv2D(4, 3)(inputs)))
    model = keras.Model(inputs, layers.Dense(2)(x))
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mae")
    model.train_on_batch(np.ones((2, 8, 8, 3)), np.ones((2, 2)))
    model.save(file)
    loaded = load(file, input_shape=(12, 16, 3))
    assert loaded.input_specs[0].shape == (4, 12, 16, 3)
    assert loaded.notes == ("input shape set to 12,16,3",)
    assert loaded.model.inputs[0].name == "image"
    for found, saved in zip(loaded.model.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(found, saved)
    for found, saved in zip(loaded.model.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(found.numpy(), saved.numpy())


@pytest.mark.parametrize("shape", [(12, 16, 3), None])
def test_sequential_model(file: Path, shape: tuple[int, ...] | None) -> None:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3) if shape is None else (None, None, 3)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.GlobalMaxPooling2D(),
            layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.save(file)
    loaded = load(file, input_shape=shape)
    assert loaded.input_specs[0].shape == (4, *(shape or (8, 8, 3)))
    assert np.isfinite(loaded.model.train_on_batch(*loaded.pack(loaded.make_batch())))


def test_sequential_model_without_an_input_takes_the_requested_one(code_file: Callable[[str], Path]) -> None:
    path = code_file(
        "def make(): return keras.Sequential([layers.Dense(3), layers.Dense(2, activation='softmax')])"
    )
    loaded = load(f"{path}:make", allow_code=True, input_shape=(8,))
    assert loaded.label_specs[0].shape == (4, 2)
    assert loaded.notes == ("not compiled: categorical crossentropy and Adam are used",)


def test_compiled_for_xla_is_known(tmp_path: Path) -> None:
    dense_model(optimizer="adam", loss="mse", jit_compile=True).save(tmp_path / "jit.keras")
    dense_model(optimizer="adam", loss="mse").save(tmp_path / "plain.keras")
    assert load(tmp_path / "jit.keras").jit_compiled
    assert load(tmp_path / "jit.keras", loss="mae").jit_compiled
    assert not load(tmp_path / "plain.keras").jit_compiled
    assert not load(tmp_path / "jit.keras", target="executor").jit_compiled
    assert load(tmp_path / "plain.keras", target="xla").jit_compiled
