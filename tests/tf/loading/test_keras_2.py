"""Test that a model of Keras 2 (``tf_keras``) is named wherever it comes in.

Here it is made up: the files have what Keras 2 writes otherwise than Keras 3; its classes are told by their
module."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import keras
import pytest

import checkmate
from checkmate.errors import CheckmateError, LoadError, ModelReadError, UnsupportedFormatError, UsageError
from tests.tf.conftest import dense_model, load

CODE = """
import numpy as np

class Model:
    __module__ = "tf_keras.src.engine.training"
    def __call__(self, x): return x

class Own(Model):
    __module__ = "mine"

model = Own()
def build(): return model
def pair(): return model, np.zeros(3)
"""


def version_2(path: Path) -> Path:
    """Rewrite a file of Keras 3: another version, and the axis of a normalization as a list."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    metadata = json.loads(files["metadata.json"]) | {"keras_version": "2.21.0"}
    files["metadata.json"] = json.dumps(metadata).encode()
    files["config.json"] = files["config.json"].replace(b'"axis": -1', b'"axis": [1]')
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def hdf5(path: Path, optimizer: str) -> Path:
    dense_model(optimizer="adam", loss="mse").save(path)
    with h5py.File(path, "a") as file:
        file.attrs["keras_version"] = b"2.15.0"
        config = json.loads(file.attrs["training_config"])
        config["optimizer_config"]["class_name"] = optimizer
        file.attrs["training_config"] = json.dumps(config)
    return path


def refusal(kind: type[CheckmateError], call: Any) -> CheckmateError:
    with pytest.raises(kind) as caught:
        call()
    assert "Keras 2 (tf_keras)" in str(caught.value) and "\n" not in str(caught.value)
    return caught.value


def test_a_keras_archive_that_keras_3_cannot_read(tmp_path: Path) -> None:
    layers = [keras.Input((8,)), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
    keras.Sequential(layers).save(tmp_path / "model.keras")
    error = refusal(ModelReadError, lambda: load(version_2(tmp_path / "model.keras")))
    assert "cannot read it: " in str(error) and "rematerialize_function" in error.hint


def test_an_hdf5_file(tmp_path: Path) -> None:
    error = refusal(ModelReadError, lambda: load(hdf5(tmp_path / "model.h5", "Custom>Adam")))
    assert "'Custom>Adam'" in str(error) and "optimizer=" in error.hint
    assert "the file was saved by Keras 2 (tf_keras)" in load(tmp_path / "model.h5", optimizer="adam").notes
    assert not any("Keras 2" in note for note in load(keras_3(tmp_path)).notes)


def keras_3(folder: Path) -> Path:
    dense_model(optimizer="adam", loss="mse").save(folder / "three.h5")
    return folder / "three.h5"


def test_a_saved_model(tmp_path: Path) -> None:
    (tmp_path / "keras_metadata.pb").touch()
    refusal(UnsupportedFormatError, lambda: load(tmp_path))


@pytest.mark.parametrize("name", ["model", "build", "pair"])
def test_code(tmp_path: Path, name: str) -> None:
    (tmp_path / "two.py").write_text(CODE)
    refusal(LoadError, lambda: load(f"{tmp_path}/two.py:{name}", allow_code=True))


@pytest.mark.parametrize(
    "call",
    [
        checkmate.rematerialize,
        checkmate.train_step,
        checkmate.rematerialize_function,
        lambda model, budget: checkmate.profile(model),
        lambda model, budget: checkmate.run(model, budget, "out"),
        lambda model, budget: checkmate.max_batch(model, budget),
    ],
    ids=["rematerialize", "train_step", "rematerialize_function", "profile", "run", "max_batch"],
)
def test_an_object(call: Any) -> None:
    made: dict[str, Any] = {}
    exec(CODE, made)
    error = refusal(UsageError, lambda: call(made["model"], "1GiB"))
    assert str(error).startswith("Own is a model of ")
