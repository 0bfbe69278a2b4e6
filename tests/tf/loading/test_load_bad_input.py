"""Test that loading bad input ends in one sentence and a hint.

The sentence says what was found, the hint what to do."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import pytest
import tensorflow as tf
from keras import layers

from checkmate.errors import (
    CheckmateError,
    ModelReadError,
    UnsupportedFormatError,
    UsageError,
)
from tests.tf.conftest import assert_refused, dense_model, load

pytestmark = pytest.mark.heavy  # many tests of a second or two

AGAIN = "save or copy the model again"
SAVE = "save it with model.save('model.keras')"
TORCH = "PyTorch's models are not supported; use a Keras model, on TensorFlow or JAX"


def saved(path: Path, model: Any = None) -> Path:
    (dense_model(optimizer="adam", loss="mse") if model is None else model).save(path)
    return path


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def zipped(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "."), text)
    return path


def weights_only(path: Path) -> Path:
    dense_model().save_weights(path)
    return path


def with_lambda(path: Path) -> Path:
    inputs = keras.Input((8,))
    return saved(path, keras.Model(inputs, layers.Lambda(lambda x: x * 2)(layers.Dense(4)(inputs))))


class Homemade(layers.Layer):
    def call(self, x):
        return x * 3


def with_custom_layer(path: Path) -> Path:
    inputs = keras.Input((8,))
    return saved(path, keras.Model(inputs, Homemade()(layers.Dense(4)(inputs))))


def with_custom_loss(path: Path) -> Path:
    def homemade(y_true, y_pred):
        return keras.ops.mean(keras.ops.abs(y_true - y_pred), axis=-1)

    return saved(path, dense_model(optimizer="adam", loss=homemade))


def with_damaged_config(path: Path) -> Path:
    with zipfile.ZipFile(saved(path)) as archive:
        config = json.loads(archive.read("config.json"))
        weights = archive.read("model.weights.h5")
    config["config"]["layers"][1]["config"]["units"] = -6
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", weights)
    return path


def with_damaged_training(path: Path) -> Path:
    with h5py.File(saved(path), "r+") as file:
        file.attrs["training_config"] = "{broken"
    return path


FILES: dict[str, Callable[[Path], Path]] = {
    "cut.keras": lambda p: cut(saved(p)),
    "cut.h5": lambda p: cut(saved(p)),
    "empty.keras": lambda p: written(p, b""),
    "text.keras": lambda p: written(p, b"hello, this is a letter"),
    "other.keras": lambda p: zipped(p, readme__txt="hello"),
    "torch.pt": lambda p: zipped(p, **{"archive/data.pkl": ""}),
    "config.keras": lambda p: zipped(p, config__json="[1, 2"),
    "hub.keras": lambda p: zipped(p, config__json='{"vocab_size": 3}'),
    "bare.keras": lambda p: zipped(p, config__json='{"class_name": "Functional"}'),
    "lite.keras": lambda p: written(p, b"\x1c\0\0\0TFL3\0\0\0\0"),
    "graph.json": lambda p: written(p, b'{"format": "checkmate-graph"}'),
    "pickle.keras": lambda p: written(p, b"\x80\x04\x95\x00"),
    "just.weights.h5": weights_only,
    "lambda.keras": with_lambda,
    "lambda.h5": with_lambda,
    "custom.keras": with_custom_layer,
    "custom.h5": with_custom_layer,
    "loss.keras": with_custom_loss,
    "loss.h5": with_custom_loss,
    "training.h5": with_damaged_training,
}


@pytest.mark.parametrize("name", FILES)
def test_file(name: str, tmp_path: Path) -> None:
    whole = saved(tmp_path / "whole.h5").stat().st_size
    path = FILES[name](tmp_path / name)
    with pytest.raises(CheckmateError) as raised:
        load(path)
    assert_refused(name, raised.value, path=path, size=path.stat().st_size, whole=whole)
    assert raised.value.exit_code == 2


def test_damaged_configuration_is_one_short_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelReadError) as raised:
        load(with_damaged_config(tmp_path / "units.keras"))
    sentence = str(raised.value)
    assert sentence.startswith(f"{tmp_path}/units.keras cannot be read as a .keras model: ")
    assert "-6" in sentence
    assert "\n" not in sentence and len(sentence) < 500
    assert isinstance(raised.value.__cause__, Exception)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("at", [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
def test_any_damage_raises_an_error_of_ours(tmp_path: Path, suffix: str, at: float) -> None:
    path = saved(tmp_path / f"whole{suffix}")
    data = bytearray(path.read_bytes())
    start = int(at * len(data))
    for position in range(start, min(start + 24, len(data))):
        data[position] ^= 0x5A
    path.write_bytes(bytes(data))
    try:
        load(path)
    except CheckmateError as error:
        failure = error
    else:
        return  # the damage is in the values of the weights, where it cannot be seen
    assert "\n" not in str(failure)
    assert failure.hint


def test_folder(tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path / "saved_model"))
    with pytest.raises(UnsupportedFormatError) as raised:
        load(tmp_path / "saved_model")
    assert str(raised.value) == (
        f"{tmp_path}/saved_model is a folder, not a .keras or .h5 file; "
        "a SavedModel has no Keras layers to train"
    )


DENSE = {"optimizer": "adam", "loss": "mse"}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "sample": ("unett", {}),
    "script": ("model.py", {}),
    "application": ("keras.applications.resnet50", {}),
    "part of an application": ("keras.applications.resnet", {}),
    "size of an application": ("keras.applications.MobileNet", {"input_shape": (64, 64)}),
    "batch": ("unet", {"batch_size": 0}),
    "size of a sample": ("unet", {"input_shape": (0, 32, 3)}),
    "policy": ("unet", {"input_shape": (32, 32, 3), "mixed_precision": "float12"}),
    "policy of a file": ("dense", {"mixed_precision": "mixed_float16"}),
    "loss": ("dense", {"loss": "msee"}),
    "optimizer": ("dense", {"optimizer": "adm"}),
    "losses": ("dense", {"loss": "mse,mae"}),
    "rank": ("dense", {"input_shape": (8, 8)}),
    "size": ("dense", {"input_shape": (9,)}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_request(name: str, tmp_path: Path) -> None:
    spec, options = REQUESTS[name]
    with pytest.raises(CheckmateError) as raised:
        load(saved(tmp_path / "dense.keras") if spec == "dense" else spec, **options)
    assert_refused(name, raised.value)


def test_sizes_of_a_sample_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match=r"^the sample 'unet' cannot be built on 100,100,3: "):
        load("unet", input_shape=(100, 100, 3))


MODELS = {
    "open image": "x = keras.Input((None, None, 3), name='image'); y = layers.Conv2D(2, 3)(x)",
    "open input": "m = keras.Sequential([layers.Dense(3)], name='open')",
    "open tokens": "x = keras.Input((None,), dtype='int32', name='ids')\n"
    "y = layers.LSTM(4)(layers.Embedding(50, 8)(x))",
    "open text": "m = keras.Sequential([layers.Embedding(50, 8), layers.LSTM(4)], name='text')",
    "open sound": "x = keras.Input((None, 40), name='sound'); y = layers.LSTM(4)(x)",
    "fixed batch": "x = keras.Input(batch_shape=(3, 8), name='three'); y = layers.Dense(2)(x)",
    "text": "x = keras.Input((), dtype='string', name='text'); y = layers.StringLookup(vocabulary=['a'])(x)",
    "sparse": "x = keras.Input((8,), sparse=True, name='few'); y = layers.Dense(2)(x)",
    "not trainable": "x = keras.Input((8,)); m = keras.Model(x, layers.Dense(2)(x)); m.trainable = False",
    "failing call": "class Fails(keras.Model):\n    def call(self, x): raise ArithmeticError('no sums today')"
    "\nm = Fails(name='fails')",
}


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, code_file: Callable[[str], Path]) -> None:
    source, options = MODELS[name], {"input_shape": (8,)} if name == "failing call" else {}
    model = "" if "m = " in source else "\nm = keras.Model(x, y)"
    path = code_file(f"{source}{model}\ndef make(): return m")
    with pytest.raises(CheckmateError) as raised:
        load(f"{path}:make", allow_code=True, **options)
    assert_refused(name, raised.value)
