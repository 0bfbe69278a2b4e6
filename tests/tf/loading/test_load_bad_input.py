"""Test that loading bad input ends in one sentence and a hint.

The sentence says what was found, the hint what to do.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import keras
import pytest
import tensorflow as tf
from keras import layers

from checkmate.errors import (
    CheckmateError,
    DynamicShapeError,
    LoadError,
    ModelReadError,
    TraceError,
    UnsafeModelError,
    UnsupportedFormatError,
    UsageError,
)
from tests.tf.conftest import dense_model, load

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


@dataclass(frozen=True)
class BadFile:
    name: str
    make: Callable[[Path], Path]
    error: type[CheckmateError]
    sentence: str
    hint: str


FILES = (
    BadFile(
        "cut.keras",
        lambda p: cut(saved(p)),
        ModelReadError,
        "{path} is a zip archive that is cut short or damaged, so no .keras model can be read from it",
        AGAIN,
    ),
    BadFile(
        "cut.h5",
        lambda p: cut(saved(p)),
        ModelReadError,
        "{path} is cut short: it has {size} of its {whole} bytes",
        AGAIN,
    ),
    BadFile("empty.keras", lambda p: written(p, b""), ModelReadError, "{path} is empty", AGAIN),
    BadFile(
        "text.keras",
        lambda p: written(p, b"hello, this is a letter"),
        UnsupportedFormatError,
        "{path} is neither a .keras nor an .h5 model file",
        SAVE,
    ),
    BadFile(
        "other.keras",
        lambda p: zipped(p, readme__txt="hello"),
        UnsupportedFormatError,
        "{path} is a zip archive without config.json (readme.txt), not a .keras model",
        SAVE,
    ),
    BadFile(
        "torch.pt",
        lambda p: zipped(p, **{"archive/data.pkl": ""}),
        UnsupportedFormatError,
        "{path} is a PyTorch file, not a .keras model",
        TORCH,
    ),
    BadFile(
        "config.keras",
        lambda p: zipped(p, config__json="[1, 2"),
        ModelReadError,
        "the config.json in {path} is not valid JSON",
        AGAIN,
    ),
    BadFile(
        "hub.keras",
        lambda p: zipped(p, config__json='{"vocab_size": 3}'),
        UnsupportedFormatError,
        "the config.json in {path} describes no Keras model",
        SAVE,
    ),
    BadFile(
        "bare.keras",
        lambda p: zipped(p, config__json='{"class_name": "Functional"}'),
        ModelReadError,
        "{path} is a .keras archive without weights",
        AGAIN,
    ),
    BadFile(
        "lite.keras",
        lambda p: written(p, b"\x1c\0\0\0TFL3\0\0\0\0"),
        UnsupportedFormatError,
        "{path} is a TensorFlow Lite file, which cannot be trained, not a .keras or .h5 model",
        "use the Keras model it was made from",
    ),
    BadFile(
        "graph.json",
        lambda p: written(p, b'{"format": "checkmate-graph"}'),
        UnsupportedFormatError,
        "{path} is JSON text, not a .keras or .h5 model",
        "a graph file goes to checkmate info, solve or explore; a model is a .keras or .h5 file",
    ),
    BadFile(
        "pickle.keras",
        lambda p: written(p, b"\x80\x04\x95\x00"),
        UnsupportedFormatError,
        "{path} is a Python pickle, which is never opened, not a .keras or .h5 model",
        SAVE,
    ),
    BadFile(
        "just.weights.h5",
        weights_only,
        ModelReadError,
        "{path} holds weights only, not a model",
        "save the whole model with model.save('model.keras')",
    ),
    *(
        BadFile(
            f"lambda{suffix}",
            with_lambda,
            UnsafeModelError,
            "{path} contains a Lambda layer, whose Python code would run when it is opened",
            "--allow-code opens it and runs that code; use it only for a file you trust",
        )
        for suffix in (".keras", ".h5")
    ),
    *(
        BadFile(
            f"custom{suffix}",
            with_custom_layer,
            ModelReadError,
            "{path} uses 'Homemade', which is not part of Keras, and its code is not in the file",
            "write a function that loads the model where that class is defined, and pass file.py:function",
        )
        for suffix in (".keras", ".h5")
    ),
    *(
        BadFile(
            f"loss{suffix}",
            with_custom_loss,
            ModelReadError,
            "{path} is compiled with the loss 'homemade', which is not part of Keras, "
            "and its code is not in the file",
            "use another one with --loss NAME, or pass a file.py:function that defines it",
        )
        for suffix in (".keras", ".h5")
    ),
    BadFile(
        "training.h5",
        with_damaged_training,
        ModelReadError,
        "the training configuration in {path} cannot be read",
        "save the model again",
    ),
)


@pytest.mark.parametrize("bad", FILES, ids=lambda bad: bad.name)
def test_file(bad: BadFile, tmp_path: Path) -> None:
    whole = saved(tmp_path / "whole.h5").stat().st_size
    path = bad.make(tmp_path / bad.name)
    with pytest.raises(CheckmateError) as raised:
        load(path)
    assert type(raised.value) is bad.error
    assert str(raised.value) == bad.sentence.format(path=path, size=path.stat().st_size, whole=whole)
    assert raised.value.hint == bad.hint
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
REQUESTS: tuple[tuple[str, dict[str, Any], type[CheckmateError], str, str], ...] = (
    ("unett", {}, LoadError, "there is no file or sample 'unett'", "did you mean the sample unet?"),
    (
        "model.py",
        {},
        LoadError,
        "there is no file or sample 'model.py'",
        "name the function too: model.py:function",
    ),
    (
        "keras.applications.resnet50",
        {},
        LoadError,
        "keras.applications has no model 'resnet50'",
        "did you mean keras.applications.ResNet50?",
    ),
    (
        "keras.applications.resnet",
        {},
        LoadError,
        "keras.applications has no model 'resnet'",
        "did you mean keras.applications.ResNet50?",
    ),
    (
        "keras.applications.MobileNet",
        {"input_shape": (64, 64)},
        UsageError,
        "keras.applications.MobileNet cannot be built with --input-shape 64,64: "
        "`input_shape` must be a tuple of three integers",
        "give height, width and channels, e.g. --input-shape 224,224,3",
    ),
    ("unet", {"batch_size": 0}, UsageError, "the batch size is 0", "use 1 or more"),
    (
        "unet",
        {"input_shape": (0, 32, 3)},
        UsageError,
        "--input-shape 0,32,3 has a size below 1",
        "e.g. --input-shape 224,224,3",
    ),
    (
        "unet",
        {"input_shape": (32, 32, 3), "mixed_precision": "float12"},
        UsageError,
        "'float12' is not a dtype policy of Keras",
        "use mixed_float16 or mixed_bfloat16",
    ),
    (
        "dense",
        {"mixed_precision": "mixed_float16"},
        UsageError,
        "--mixed-precision cannot change a saved model, whose layers carry their own dtype policies",
        "set the policy where the model is built, and save it again",
    ),
    ("dense", {"loss": "msee"}, UsageError, "Keras has no loss 'msee'", "did you mean --loss mse?"),
    (
        "dense",
        {"optimizer": "adm"},
        UsageError,
        "Keras has no optimizer 'adm'",
        "did you mean --optimizer adam?",
    ),
    (
        "dense",
        {"loss": "mse,mae"},
        UsageError,
        "--loss names 2 losses and the model has 1 output",
        "give one for all, or one per output, separated by commas",
    ),
    (
        "dense",
        {"input_shape": (8, 8)},
        UsageError,
        "--input-shape 8,8 does not fit the input 'numbers' of shape 8",
        "give the sizes that the model leaves open, with the fixed ones as they are, in its order",
    ),
    (
        "dense",
        {"input_shape": (9,)},
        UsageError,
        "the model 'dense' cannot take --input-shape 9: "
        "Layer dense weight shape (9, 6) is not compatible with provided weight shape (8, 6)",
        "its own shape is 8",
    ),
)


@pytest.mark.parametrize(("spec", "options", "error", "sentence", "hint"), REQUESTS)
def test_request(
    spec: str, options: dict[str, Any], error: type[CheckmateError], sentence: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckmateError) as raised:
        load(saved(tmp_path / "dense.keras") if spec == "dense" else spec, **options)
    assert (type(raised.value), str(raised.value), raised.value.hint) == (error, sentence, hint)


def test_sizes_of_a_sample_that_do_not_fit() -> None:
    with pytest.raises(
        UsageError, match=r"^the sample 'unet' cannot be built with --input-shape 100,100,3: "
    ):
        load("unet", input_shape=(100, 100, 3))


MODELS: tuple[tuple[str, dict[str, Any], type[CheckmateError], str, str], ...] = (
    (
        "x = keras.Input((None, None, 3), name='image'); m = keras.Model(x, layers.Conv2D(2, 3)(x))",
        {},
        DynamicShapeError,
        "the input 'image' has shape ?,?,?,3, with sizes left open besides the batch",
        "pass --input-shape, the sizes after the batch, e.g. --input-shape 224,224,3",
    ),
    (
        "m = keras.Sequential([layers.Dense(3)], name='open')",
        {},
        DynamicShapeError,
        "the model 'open' does not say what input it takes",
        "pass --input-shape, the sizes after the batch, e.g. --input-shape 224,224,3",
    ),
    (
        "x = keras.Input((None,), dtype='int32', name='ids'); y = layers.Embedding(50, 8)(x); "
        "m = keras.Model(x, layers.LSTM(4)(y))",
        {},
        DynamicShapeError,
        "the input 'ids' has shape ?,?, with sizes left open besides the batch",
        "pass --input-shape, the number of tokens, e.g. --input-shape 128",
    ),
    (
        "m = keras.Sequential([layers.Embedding(50, 8), layers.LSTM(4)], name='text')",
        {},
        DynamicShapeError,
        "the model 'text' does not say what input it takes",
        "pass --input-shape, the number of tokens, e.g. --input-shape 128",
    ),
    (
        "x = keras.Input((None, 40), name='sound'); m = keras.Model(x, layers.LSTM(4)(x))",
        {},
        DynamicShapeError,
        "the input 'sound' has shape ?,?,40, with sizes left open besides the batch",
        "pass --input-shape, the sizes after the batch, e.g. --input-shape 128,40",
    ),
    (
        "x = keras.Input(batch_shape=(3, 8), name='three'); m = keras.Model(x, layers.Dense(2)(x))",
        {},
        UsageError,
        "the input 'three' has a fixed batch of 3, not 4",
        "use -b 3",
    ),
    (
        "x = keras.Input((), dtype='string', name='text'); "
        "m = keras.Model(x, layers.StringLookup(vocabulary=['a'])(x))",
        {},
        TraceError,
        "the input 'text' takes text, which has no size to plan with",
        "build the model without its text layers, on token ids",
    ),
    (
        "x = keras.Input((8,), sparse=True, name='few'); m = keras.Model(x, layers.Dense(2)(x))",
        {},
        TraceError,
        "the input 'few' is sparse, so its size is not known",
        "build the model on a dense input",
    ),
    (
        "x = keras.Input((8,)); m = keras.Model(x, layers.Dense(2)(x), name='still'); m.trainable = False",
        {},
        TraceError,
        "'make' has no trainable weights, so there is no training step",
        "set trainable = True where the model is built",
    ),
    (
        "class Fails(keras.Model):\n    def call(self, x): raise ArithmeticError('no sums today')\n"
        "m = Fails(name='fails')",
        {"input_shape": (8,)},
        TraceError,
        "the model 'fails' cannot be called with a float32 tensor of shape 4,8: "
        "ArithmeticError: no sums today",
        "call it once on a batch where it is built, or pass --input-shape",
    ),
)


@pytest.mark.parametrize(("source", "options", "error", "sentence", "hint"), MODELS)
def test_model(
    source: str,
    options: dict[str, Any],
    error: type[CheckmateError],
    sentence: str,
    hint: str,
    code_file: Callable[[str], Path],
) -> None:
    path = code_file(f"{source}\ndef make(): return m")
    with pytest.raises(CheckmateError) as raised:
        load(f"{path}:make", allow_code=True, **options)
    assert (type(raised.value), str(raised.value), raised.value.hint) == (error, sentence, hint)
