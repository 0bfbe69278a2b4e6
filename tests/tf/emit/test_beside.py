"""Test what an export holds beside its scheduled step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from checkmate.backends.tf.emit.beside import plain_step
from checkmate.backends.tf.emit.saved_model import measure_reloaded, save_function, save_step, with_names
from checkmate.backends.tf.emit.side_by_side import in_turn
from checkmate.backends.tf.live.measure import restored
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.ir import Schedule
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from tests.tf.conftest import folded_model
from tests.tf.prepared import prepared, request_of, small
from tests.tf.schedules import recompute_forward

BATCH = 64


@pytest.fixture(scope="module")
def folded() -> FoldedStep:
    inputs = keras.Input((64,))
    outputs = layers.Dense(4, name="answer")(layers.Dense(64, activation="tanh")(inputs))
    model = keras.Model(inputs, outputs)
    model.compile("adam", "mse", metrics=["mae"])
    return folded_model(model, (BATCH, 64), (BATCH, 4))


@pytest.fixture(scope="module")
def export(folded: FoldedStep, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return saved(folded, tmp_path_factory.mktemp("beside"))


def saved(folded: FoldedStep, folder: Path) -> Any:
    save_step(folded, Schedule.plain(folded.graph), folder / "saved_model")
    return tf.saved_model.load(str(folder / "saved_model"))


def batch_of(size: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(size)
    return random.random((size, 64), np.float32), random.random((size, 4), np.float32)


def test_variables_are_named_in_kerass_order(folded: FoldedStep, export: Any) -> None:
    model = folded.traced.loaded.model
    assert list(export.weights) == [weight.path for weight in model.weights]
    assert [each.shape for each in export.optimizer.values()] == [
        tuple(each.shape) for each in model.optimizer.variables
    ]
    assert export.optimizer["learning_rate"].numpy() == np.float32(1e-3) and not export.seeds
    everything = [*export.weights.values(), *export.optimizer.values()]
    assert [id(each) for each in export.state] == [id(each) for each in everything]


@pytest.mark.parametrize("size", [1, BATCH, 2 * BATCH + 1])
def test_any_number_of_examples_is_predicted_and_evaluated(
    folded: FoldedStep, export: Any, size: int
) -> None:
    model, (x, y) = folded.traced.loaded.model, batch_of(size)
    for found, weight in zip(export.weights.values(), model.weights, strict=True):
        weight.assign(found)
    assert np.array_equal(export.predict(x)["answer"], model.predict_on_batch(x))
    before = [variable.numpy() for variable in export.state]
    for _ in range(2):  # each batch is evaluated by itself
        model.reset_metrics()
        expected = model.test_on_batch(x, y, return_dict=True)
        found = {name: float(value) for name, value in export.evaluate(x, y).items()}
        assert found == {name: float(value) for name, value in expected.items()} and len(found) == 2
    assert all(map(np.array_equal, before, export.state))


def test_numpys_types_are_cast_and_a_smaller_batch_trains(export: Any) -> None:
    for size in (BATCH, BATCH - 2):
        after: list[list[np.ndarray]] = []
        for dtype in (np.float32, np.float64):
            with restored(export.state):
                found = export.train_step(*(each.astype(dtype) for each in batch_of(size)))
                assert found["answer"].shape == (size, 4) and float(found["loss"]) > 0
                after.append([variable.numpy() for variable in export.state])
        assert all(map(np.array_equal, *after))
        assert not all(map(np.array_equal, after[0], export.state))


def test_a_larger_batch_is_refused_by_a_sentence_and_trains_nothing(export: Any) -> None:
    before = [variable.numpy() for variable in export.state]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"exported for {BATCH} examples; it takes fewer"
    ):
        export.train_step(*batch_of(BATCH + 1))
    assert all(map(np.array_equal, before, export.state))


def test_a_function_of_an_open_batch_takes_no_other(export: Any) -> None:
    specs = [tf.TensorSpec((None, size), tf.float32) for size in (64, 4)]
    step = tf.function(lambda x, y: export.train_step(x, y)["loss"], input_signature=specs, autograph=False)
    assert float(step(*batch_of(BATCH))) > 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible with expected shape"):
        step(*batch_of(BATCH - 1))


def test_a_step_for_one_size_alone_says_so(code_file: Callable[[str], Path], tmp_path: Path) -> None:
    source = (
        "import numpy as np\nimport tensorflow as tf\n"
        "network = layers.Dense(64)\n"
        "def step(images):\n"
        "    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_sum(network(images) ** 2) / float(images.shape[0])\n"
        "    for weight, slope in zip(network.weights, tape.gradient(loss, network.weights)):\n"
        "        weight.assign_sub(0.1 * slope)\n"
        "    return loss\n"
        "def make():\n"
        "    network.build((64, 64))\n"
        "    return tf.function(step), (np.ones((64, 64), np.float32),)"
    )
    request = ModelRequest(f"{code_file(source)}:make", batch_size=64, device="cpu", allow_code=True)
    export = saved(prepared(request), tmp_path)
    assert float(export.train_step(np.ones((64, 64), np.float32))["loss"]) > 0
    assert len(export.weights) == 2 and not hasattr(export, "predict") and not hasattr(export, "evaluate")
    with pytest.raises(tf.errors.InvalidArgumentError, match="takes 64 examples at a time"):
        export.train_step(np.ones((63, 64), np.float32))


TABLES = """
import numpy as np
import tensorflow as tf

words = np.array([["a", "c"], ["zz", "b"]] * 32)

def model():
    text = keras.Input((2,), dtype="string")
    found = layers.Embedding(6, 64)(layers.StringLookup(vocabulary=["a", "b", "c"])(text))
    made = keras.Model(text, layers.Dense(1, name="answer")(layers.Flatten()(found)))
    made.compile("sgd", "mse")
    return made, (words, np.ones((64, 1), np.float32))

def step_of(table):
    weights = tf.Variable(tf.ones((2, 64)))
    def step(given):
        with tf.GradientTape() as tape:
            numbers = tf.ensure_shape(table.lookup(given), given.shape)
            loss = tf.reduce_mean(tf.matmul(numbers, weights) ** 2)
        weights.assign_sub(0.01 * tape.gradient(loss, weights))
        return loss
    return tf.function(step), (words,)

def table():
    values = tf.lookup.KeyValueTensorInitializer(["a", "b"], [3.0, 5.0])
    return step_of(tf.lookup.StaticHashTable(values, 1.0))

def mutable():
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, 1.0)
    table.insert(tf.constant(["a", "b"]), tf.constant([3.0, 5.0]))
    return step_of(table)
"""


@pytest.mark.parametrize("name", ["model", "table", "mutable"])
def test_tables_are_exported_too(name: str, code_file: Callable[[str], Path], tmp_path: Path) -> None:
    request = ModelRequest(f"{code_file(TABLES)}:{name}", batch_size=64, device="cpu", allow_code=True)
    folded = prepared(request)
    export, own = saved(folded, tmp_path), folded.traced.loaded.own
    assert own is not None
    losses = set()
    for words in (own.values[0], np.array([["b", "a"], ["c", "b"]] * 32)):
        given = (words, *own.values[1:])
        if name == "model":
            predicted = folded.traced.loaded.model.predict_on_batch(tf.constant(words))
            assert export.predict(words)["answer"].numpy() == pytest.approx(predicted, rel=1e-5)
        losses.add(expected := float(keras.tree.flatten(own.call(*map(tf.constant, given)))[0]))
        assert float(export.train_step(*given)["loss"]) == pytest.approx(expected, rel=1e-5)
    assert len(losses) == 2


UNTRACED = """
class Mine(keras.Model):
    def __init__(self):
        super().__init__(name="mine")
        self.inner = layers.Dense(64)
    def call(self, x):
        return self.inner(x)
    def test_step(self, data):
        raise ArithmeticError("no sums today")
def make():
    model = Mine()
    model.compile("sgd", "mse")
    return model
"""


def test_what_cannot_be_traced_is_left_out_and_said_to_be(
    code_file: Callable[[str], Path], tmp_path: Path
) -> None:
    options = {"device": "cpu", "allow_code": True, "input_shape": (64,)}
    folded = prepared(ModelRequest(f"{code_file(UNTRACED)}:make", batch_size=BATCH, **options))
    told = save_step(folded, Schedule.plain(folded.graph), tmp_path / "whole")
    assert told == ("the export has no evaluate, which could not be traced: no sums today",)
    export = tf.saved_model.load(str(tmp_path / "whole"))
    assert hasattr(export, "predict") and not hasattr(export, "evaluate")
    assert not save_step(folded, Schedule.plain(folded.graph), tmp_path / "alone", alone=True)


def recomputing() -> FoldedStep:
    class Recomputed(layers.Dense):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return tf.recompute_grad(super().call)(x)

    inputs = keras.Input((64,))
    model = keras.Model(inputs, layers.Dense(4)(Recomputed(64, activation="tanh")(inputs)))
    model.compile("sgd", "mse")
    return folded_model(model, (BATCH, 64), (BATCH, 4))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_with_recomputation_of_its_own_is_exported(compiled: bool, tmp_path: Path) -> None:
    folded, losses = recomputing(), []
    body = with_names(folded, plain_step(folded))
    save_function(folded, body, tmp_path, compiled=compiled)
    export = tf.saved_model.load(str(tmp_path))
    for size in (BATCH, BATCH - 2):
        x, y = batch_of(size)
        with restored(export.state):
            before = float(export.evaluate(x, y)["loss"])
            assert float(export.train_step(x, y)["loss"]) == pytest.approx(before, rel=1e-5)
            losses.append(float(export.evaluate(x, y)["loss"]) < before)
    assert losses == [True, True]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["convnet", "two_heads"])
def test_what_is_beside_takes_no_memory_of_the_step(name: str, tmp_path: Path) -> None:
    """Test models whose reloaded step shows the same bytes each time, but for single buffers."""
    folded = small(name)

    def peaks(*, alone: bool, runs: int) -> Iterator[int]:
        folder = tmp_path / str(alone)
        # Steps side by side hold now more, now less.
        save_step(in_turn(folded), recompute_forward(folded.graph), folder, alone=alone)
        batch = folded.traced.loaded.make_batch()
        for _ in range(runs):
            yield measure_reloaded(folder, batch, report=silent, cancelled=never)["peak_bytes"]

    least = min(peaks(alone=True, runs=2))
    # A run may show one more buffer, but not each run; a lucky one shows one less.
    assert any(peak <= (1 + 1e-4) * least for peak in peaks(alone=False, runs=8))
    assert least > 2**20


@pytest.mark.heavy
def test_a_model_that_cannot_be_called_has_named_weights_and_no_predict(tmp_path: Path) -> None:
    folded = prepared(request_of("step_models", "autoencoder", 8))
    export, model = saved(folded, tmp_path), folded.traced.loaded.model
    assert list(export.weights) == [weight.path for weight in model.weights] and len(export.seeds) == 1
    assert not hasattr(export, "predict") and not hasattr(export, "evaluate")
    images = np.zeros((5, 32, 32, 3), np.float32)
    assert np.isfinite(export.train_step(images)["error"].numpy())
    assert isinstance(model, keras.Model)
