"""Test the description of one batch: inputs, losses, labels.

The model's own training must accept the random data that is made for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from checkmate.backends.tf.models.model import LoadedModel
from checkmate.backends.tf.trace.sizes import variable_bytes
from checkmate.backends.tf.trace.trace import step_function
from checkmate.models.losses import losses_per_output
from tests.tf.conftest import MODELS, dense_model, load
from tests.tf.models import ALL


@pytest.mark.heavy
@pytest.mark.parametrize("name", ALL)
def test_keras_trains_on_the_batch_and_the_step_sees_the_same_loss(name: str) -> None:
    loaded = load(f"{MODELS}:{name}", batch_size=8, allow_code=True)
    batch = loaded.make_batch(3)
    for tensor, spec in zip(batch, loaded.specs, strict=True):
        assert tensor.shape == spec.shape
        assert tensor.dtype == spec.dtype
    x, y = loaded.pack(batch)
    before = float(
        loaded.model.compute_loss(x=x, y=y, y_pred=loaded.model(x, training=False), training=False)
    )
    assert np.isfinite(before)
    loaded.model.run_eagerly = True  # tracing takes longer than this one step
    found = np.ravel(loaded.model.train_on_batch(x, y))[0]
    assert np.isfinite(found)
    assert np.isfinite(float(step_function(loaded)(*batch)[0]))


def test_batches_are_repeatable_and_differ_by_seed() -> None:
    loaded = load(f"{MODELS}:shared_embedding", allow_code=True)
    first, again, other = (loaded.make_batch(seed)[0].numpy() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def described(loaded: LoadedModel) -> list[tuple[str, tuple[int, ...], str]]:
    rows = zip(loaded.labels.kinds, loaded.label_specs, strict=True)
    return [(kind, tuple(spec.shape), spec.dtype.name) for kind, spec in rows]


LABELS = {
    "mse": ("float", (4, 4), "float32"),
    "huber": ("float", (4, 4), "float32"),
    "kld": ("float", (4, 4), "float32"),
    "bce": ("binary", (4, 4), "float32"),
    "hinge": ("binary", (4, 4), "float32"),
    "squared_hinge": ("binary", (4, 4), "float32"),
    "tversky": ("binary", (4, 4), "float32"),
    "categorical_crossentropy": ("one_hot", (4, 4), "float32"),
    "categorical_hinge": ("one_hot", (4, 4), "float32"),
    "categorical_focal_crossentropy": ("one_hot", (4, 4), "float32"),
    "sparse_categorical_crossentropy": ("class", (4,), "int32"),
    "CategoricalCrossentropy": ("one_hot", (4, 4), "float32"),
    "SparseCategoricalCrossentropy": ("class", (4,), "int32"),
    "BinaryFocalCrossentropy": ("binary", (4, 4), "float32"),
    "SquaredHinge": ("binary", (4, 4), "float32"),
    "LogCosh": ("float", (4, 4), "float32"),
}


@pytest.mark.parametrize("loss", LABELS)
def test_labels_fit_the_loss(loss: str, tmp_path: Path) -> None:
    x = keras.Input((8,))
    model = keras.Model(x, layers.Dense(4, activation="softmax")(x))
    model.compile("sgd", loss)
    model.save(tmp_path / "classes.keras")
    loaded = load(tmp_path / "classes.keras")
    assert described(loaded) == [LABELS[loss]]
    *inputs, label = loaded.make_batch(0)
    values = label.numpy()
    if loaded.labels.kinds[0] == "one_hot":
        assert (values.sum(-1) == 1).all() and set(np.unique(values)) <= {0, 1}
    if loaded.labels.kinds[0] == "class":
        assert values.min() >= 0 and values.max() < 4
    if loaded.labels.kinds[0] == "binary":
        assert set(np.unique(values)) <= {0, 1}
    assert np.isfinite(float(step_function(loaded)(*inputs, label)[0]))


CUSTOM = (
    ("loss = keras.losses.CategoricalGeneralizedCrossEntropy()", "class", 0),
    ("loss = keras.losses.Circle()", "class", 0),
    ("class Mine(keras.losses.SparseCategoricalCrossentropy): pass\nloss = Mine(name='focus')", "class", 0),
    ("def sparse_mine(a, b): return b[:, 0]\nloss = sparse_mine", "class", 0),
    ("def my_binary_loss(a, b): return b[:, 0]\nloss = my_binary_loss", "binary", 0),
    ("def odd(a, b): return b[:, 0] - a[:, 0]\nloss = odd", "float", 1),
)


@pytest.mark.parametrize(("source", "kind", "notes"), CUSTOM)
def test_labels_for_a_custom_loss(
    source: str, kind: str, notes: int, code_file: Callable[[str], Path]
) -> None:
    path = code_file(
        f"{source}\ndef make():\n    x = keras.Input((8,))\n    m = keras.Model(x, layers.Dense(3)(x))\n"
        "    m.compile('sgd', loss)\n    return m"
    )
    loaded = load(f"{path}:make", allow_code=True)
    assert loaded.labels.kinds == (kind,)
    expected = ("labels for the loss 'odd' are assumed to be numbers in the shape of the output",)
    assert loaded.notes == (expected if notes else ())


DEFAULTS = (
    ("layers.Dense(3, activation='softmax')(x)", "categorical crossentropy"),
    ("layers.Softmax()(layers.Dense(3)(x))", "categorical crossentropy"),
    ("layers.Activation('softmax')(layers.Dense(3)(x))", "categorical crossentropy"),
    ("keras.ops.softmax(layers.Dense(3)(x))", "categorical crossentropy"),
    ("layers.Dense(3, activation='sigmoid')(x)", "binary crossentropy"),
    ("keras.ops.sigmoid(layers.Dense(3)(x))", "binary crossentropy"),
    (
        "keras.Sequential([layers.Dense(3), layers.Dense(3, activation='softmax')])(x)",
        "categorical crossentropy",
    ),
    ("layers.Dense(3)(x)", "mean squared error"),
    (
        "[layers.Dense(3, activation='softmax')(x), layers.Dense(3)(x)]",
        "categorical crossentropy, mean squared error",
    ),
)


@pytest.mark.parametrize(("output", "loss"), DEFAULTS)
def test_default_loss_follows_the_output(output: str, loss: str, code_file: Callable[[str], Path]) -> None:
    path = code_file(f"def make():\n    x = keras.Input((8,))\n    return keras.Model(x, {output})")
    assert load(f"{path}:make", allow_code=True).notes == (f"not compiled: {loss} and Adam are used",)


def test_a_requested_loss_and_optimizer_replace_those_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "dense.keras"
    dense_model(optimizer=keras.optimizers.SGD(0.25), loss="mse").save(path)
    loaded = load(path, loss="categorical_crossentropy")
    assert loaded.notes == ("compiled with mean squared error; categorical_crossentropy replaces it",)
    assert float(loaded.model.optimizer.learning_rate) == 0.25
    loaded = load(path, optimizer="rmsprop")
    assert loaded.notes == ("compiled with SGD; rmsprop replaces it",)
    assert loaded.model.loss == "mse"
    assert load(path, loss="mse").notes == ()


def test_replacing_the_optimizer_keeps_the_weights_of_losses(tmp_path: Path) -> None:
    x = keras.Input((8,))
    model = keras.Model(x, [layers.Dense(2)(x), layers.Dense(3)(x)])
    model.compile("sgd", ["mse", "mae"], loss_weights=[1.0, 0.0])
    model.save(tmp_path / "two.keras")
    plain, replaced = load(tmp_path / "two.keras"), load(tmp_path / "two.keras", optimizer="adam")
    batch = plain.make_batch(0)
    loss = float(step_function(plain)(*batch)[0])
    assert float(step_function(replaced)(*batch)[0]) == pytest.approx(loss)


def test_one_loss_per_output_on_request(tmp_path: Path) -> None:
    x = keras.Input((8,))
    keras.Model(x, [layers.Dense(2)(x), layers.Dense(3)(x)]).save(tmp_path / "two.keras")
    loaded = load(tmp_path / "two.keras", loss="mae, sparse_categorical_crossentropy", optimizer="sgd")
    assert loaded.notes == (
        "not compiled: mean absolute error, sparse categorical crossentropy and SGD are used",
    )
    assert described(loaded) == [("float", (4, 2), "float32"), ("class", (4,), "int32")]


@pytest.mark.parametrize(
    ("loss", "outputs", "names", "expected"),
    [
        ("mse", 0, ["a"], ["mse"]),
        ("mse", [0, 0], ["a", "b"], ["mse", "mse"]),
        (None, [0, 0], ["a", "b"], [None, None]),
        (["mse", None], [0, 0], ["a", "b"], ["mse", None]),
        ({"b": "mae", "a": "mse"}, [0, 0], ["a", "b"], ["mse", "mae"]),
        ({"y": "mse"}, {"x": 0, "y": 0}, ["head", "tail"], [None, "mse"]),
        ({"y": ["mse", "mae"], "x": "mape"}, {"x": 0, "y": [0, 0]}, [], ["mape", "mse", "mae"]),
        (["mse", "mae"], {"y": 0, "x": 0}, [], ["mse", "mae"]),
        ({"a": "mse"}, 0, ["a"], ["mse"]),
        (["mse"], 0, ["a"], ["mse"]),
    ],
)
def test_losses_are_paired_with_outputs(
    loss: Any, outputs: Any, names: list[str], expected: list[Any]
) -> None:
    assert losses_per_output(loss, outputs, names) == expected


def test_output_without_a_loss_takes_no_label() -> None:
    loaded = load(f"{MODELS}:output_without_loss", allow_code=True)
    assert len(loaded.label_specs) == 1
    assert loaded.pack(loaded.make_batch(0))[1][1] is None


TOKENS = (
    ("x = keras.Input((5,)); y = layers.Embedding(9, 2)(x)", (9,)),
    ("x = keras.Input((5,), dtype='int32'); y = layers.Embedding(9, 2)(x)", (9,)),
    ("m = keras.Sequential([keras.Input((5,)), layers.Embedding(9, 2)])", (9,)),
    ("x = keras.Input((5,), dtype='int32'); y = layers.Embedding(9, 2)(layers.Reshape((5,))(x))", (9,)),
    ("x = keras.Input((5,), dtype='int32'); y = keras.Sequential([layers.Embedding(9, 2)])(x)", (9,)),
    (
        "class Two(layers.Layer):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.tables = {'a': layers.Embedding(9, 2), 'b': [layers.Embedding(7, 2)]}\n"
        "    def build(self, shape): self.tables['a'].build(); self.tables['b'][0].build()\n"
        "    def call(self, x): return self.tables['a'](x) + self.tables['b'][0](x)\n"
        "x = keras.Input((5,)); y = Two()(x)",
        (7,),
    ),
    ("x = keras.Input((5,), dtype='int32'); y = layers.CategoryEncoding(2)(x)", (2,)),
    ("x = keras.Input((5,)); y = layers.Dense(2)(x)", (0,)),
    (
        "x = [keras.Input((5,)), keras.Input((5,), dtype='int32')]\n"
        "y = layers.Add()([layers.Dense(2)(x[0]), "
        "layers.GlobalMaxPooling1D()(layers.Embedding(9, 2)(x[1]))])",
        (0, 9),
    ),
    (
        "class Sub(keras.Model):\n"
        "    def __init__(self):\n        super().__init__()\n        self.table = layers.Embedding(9, 2)\n"
        "    def call(self, x): return self.table(x)\n"
        "m = Sub(); m(keras.ops.zeros((1, 5), 'int32'))",
        (9,),
    ),
)


@pytest.mark.parametrize(("source", "vocabularies"), TOKENS)
def test_token_ids_stay_within_the_vocabulary(
    source: str, vocabularies: tuple[int, ...], code_file: Callable[[str], Path]
) -> None:
    build = "" if "m = " in source else "m = keras.Model(x, layers.Dense(1)(y))"
    loaded = load(
        f"{code_file(f'{source}{chr(10)}{build}{chr(10)}def make(): return m')}:make", allow_code=True
    )
    assert loaded.inputs.vocabularies == vocabularies
    batch = loaded.make_batch(0)
    for tensor, size in zip(batch, vocabularies, strict=False):
        assert not size or (tensor.numpy().min() >= 0 and tensor.numpy().max() < size)
    assert loaded.model(loaded.pack(batch)[0]).shape[0] == 4


def test_mask_input_is_boolean(code_file: Callable[[str], Path]) -> None:
    path = code_file(
        "def make():\n    x, mask = keras.Input((6, 4)), keras.Input((6,), dtype='bool')\n"
        "    return keras.Model([x, mask], layers.Dense(1)(layers.LSTM(3)(x, mask=mask)))"
    )
    _, mask, _ = load(f"{path}:make", allow_code=True).make_batch(0)
    assert mask.dtype == tf.bool
    assert 0 < np.count_nonzero(mask.numpy()) < mask.numpy().size


SUBCLASSED = (
    ("d(x['a']) + d(x['b'])", "{'a': z((2, 8)), 'b': z((2, 8))}", {"a": 0, "b": 1}),
    ("d(x[0]) + d(x[1])", "[z((2, 8)), z((2, 8))]", [0, 1]),
    ("d(x)", "z((2, 8))", 0),
)


@pytest.mark.parametrize(("call", "batch", "structure"), SUBCLASSED)
def test_subclassed_model_takes_the_shapes_it_was_built_on(
    call: str, batch: str, structure: Any, code_file: Callable[[str], Path]
) -> None:
    path = code_file(
        "z = keras.ops.zeros\nclass Sub(keras.Model):\n"
        "    def __init__(self):\n        super().__init__()\n        self.d = layers.Dense(3)\n"
        f"    def call(self, x):\n        d = self.d\n        return {{'sum': {call}}}\n"
        f"def make():\n    m = Sub()\n    m({batch})\n    m.compile('sgd', {{'sum': 'mae'}})\n    return m"
    )
    loaded = load(f"{path}:make", allow_code=True)
    assert loaded.inputs.structure == structure
    assert loaded.labels.structure == {"sum": 0}
    assert all(spec.shape == (4, 8) for spec in loaded.input_specs)
    assert np.isfinite(float(step_function(loaded)(*loaded.make_batch())[0]))


def test_bytes_of_weights_and_optimizer(tmp_path: Path) -> None:
    dense_model(optimizer="adam", loss="mse").save(tmp_path / "dense.keras")
    loaded = load(tmp_path / "dense.keras")
    weights = (8 * 6 + 6 + 6 * 4 + 4) * 4
    assert variable_bytes(loaded.model.variables) == weights
    # Two slots per weight; the iteration (int64) and the learning rate (float32).
    assert variable_bytes(loaded.model.optimizer.variables) == 2 * weights + 12
