"""Test the Python functions that load a model, with each kind of model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
from keras import layers

import checkmate
from checkmate import Graph, ModelRequest
from checkmate.errors import LoadError, ModelReadError, OtherStepError
from tests.tf.small_models import convnet

pytestmark = pytest.mark.heavy  # each loads and traces a model

BATCH = 64


def wide(**compiled: Any) -> Any:
    """Return a model with a tensor that is large enough to be scheduled."""
    numbers = keras.Input((64,))
    hidden = layers.Dense(512, activation="relu")(numbers)
    model = keras.Model(numbers, layers.Dense(2, activation="softmax")(hidden), name="wide")
    if compiled:
        model.compile(**compiled)
    return model


def traced(model: Any, **step: Any) -> Graph:
    return checkmate.profile(model, costs="analytic", quiet=True, **{"batch_size": BATCH, **step})


@pytest.mark.parametrize("kind", ["model", "path", "text", "request", "code"])
def test_a_model_in_every_form_is_the_same_step(
    kind: str, tmp_path: Path, code_file: Callable[..., Path]
) -> None:
    model, file = wide(optimizer="adam", loss="mse"), tmp_path / "wide.keras"
    model.save(file)
    code = f"{code_file(f'def wide(): return keras.saving.load_model({str(file)!r})')}:wide"
    known = traced(ModelRequest(str(file), batch_size=8), batch_size=None)
    found = {
        "model": lambda: traced(model, batch_size=8),
        "path": lambda: traced(file, batch_size=8),
        "text": lambda: traced(str(file), batch_size=8),
        "request": lambda: traced(ModelRequest(code, allow_code=True), batch_size=8),
        "code": lambda: traced(code, batch_size=8, allow_code=True),
    }[kind]()
    assert (found.name, found.batch_size) == ("wide", 8) and found.fingerprint == known.fingerprint


def test_a_name_is_that_of_the_command() -> None:
    assert traced("unet", batch_size=1).name == "unet"


def test_a_model_is_traced_with_what_it_is_compiled_with() -> None:
    model = wide(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss="mse")
    weights = sum(int(keras.ops.size(each)) * 4 for each in model.trainable_variables)
    found, chosen, default = traced(model), traced(wide(), optimizer="sgd", loss="mse"), traced(wide())
    assert found.fixed["optimizer"] - chosen.fixed["optimizer"] == weights  # the momentum
    assert default.fixed["optimizer"] >= 2 * weights  # Adam
    assert not found.metadata["notes"] and "not compiled" in default.metadata["notes"][0]


def test_a_model_is_left_as_it_is_and_so_is_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = wide(optimizer="adam", loss="mse")
    before = [value.numpy().copy() for value in model.variables]
    graph = traced(model)
    assert all((value.numpy() == kept).all() for value, kept in zip(model.variables, before, strict=True))
    assert not [*tmp_path.glob("checkmate-*")]
    assert graph.metadata["request"]["name"] == "wide"


class Unregistered(layers.Layer):
    """Do nothing, in a class that Keras cannot find again."""

    def call(self, x: Any) -> Any:
        return x


class Unsavable(layers.Layer):
    """Hold a function, which Keras cannot save."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)


def squares(y: Any, predicted: Any) -> Any:
    return keras.ops.mean((y - predicted) ** 2)


def with_layer(layer: Any) -> Any:
    numbers = keras.Input((64,))
    return keras.Model(numbers, layers.Dense(2)(layer(layers.Dense(512)(numbers))), name="own")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: with_layer(Unregistered()),
            "the model 'own', as Keras saves it, uses 'Unregistered', which is not part of Keras",
        ),
        (lambda: with_layer(Unsavable(keras.ops.relu)), "the model 'own' cannot be saved: Object Unsavable "),
        (
            lambda: with_layer(layers.Lambda(lambda x: x)),
            "the model 'own', as Keras saves it, contains a Lambda layer",
        ),
        (
            lambda: wide(optimizer="adam", loss=squares),
            "the model 'wide', as Keras saves it, is compiled with the loss 'squares', which is not",
        ),
        (
            lambda: wide(optimizer="adam", loss=lambda y, predicted: keras.ops.mean(y - predicted)),
            "the model 'wide', as Keras saves it, is compiled with the loss '__lambda__', which is not",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
def test_a_model_that_cannot_be_handed_over_says_what_to_do(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(LoadError) as caught:
        traced(make())
    assert str(caught.value).startswith(sentence)
    assert '"file.py:function", allow_code=True' in caught.value.hint


def test_a_loss_by_name_takes_the_place_of_one_that_cannot_be_handed_over() -> None:
    graph = traced(wide(optimizer="adam", loss=squares), loss="mse")
    assert any("'squares' is not part of Keras" in note for note in graph.metadata["notes"])


@pytest.mark.parametrize("function", ["max_batch", "plan"])
def test_a_model_is_scaled_by_itself(function: str) -> None:
    model = wide(optimizer="adam", loss="mse")
    how: dict[str, Any] = {"options": checkmate.SolveOptions(time_limit_s=2.0), "quiet": True}
    if function == "max_batch":
        found = checkmate.max_batch(model, "16MiB", measure="never", optimizer="sgd", **how)
        assert "wide" in found.graph.name and found.batch > BATCH
        assert found.graph.fixed["optimizer"] < found.graph.fixed["parameters"]  # Adam has twice as much
    else:
        (row,) = checkmate.plan(model, ["T4"], **how)
        assert row.largest is not None and row.largest.batch > BATCH


@pytest.mark.parametrize("function", ["verify", "export", "export_within"])
def test_another_model_than_that_of_the_graph_is_told_apart(function: str, tmp_path: Path) -> None:
    graph, schedule = tmp_path / "g.json", str(tmp_path / "s.json")
    checkmate.write_graph(graph, traced(wide(optimizer="sgd", loss="mse")))
    checkmate.write_schedule(schedule, graph, checkmate.solve(graph, "100%", solver="greedy", quiet=True))
    other = with_layer(layers.Activation("relu"))
    with pytest.raises(OtherStepError, match="the model has changed"):
        {
            "verify": lambda: checkmate.verify(other, graph, schedule, quiet=True),
            "export": lambda: checkmate.export(other, graph, schedule, tmp_path / "out", quiet=True),
            "export_within": lambda: checkmate.export_within(
                other, graph, schedule, "90%", str(tmp_path / "out"), quiet=True
            ),
        }[function]()
    assert not (tmp_path / "out").exists()


def test_a_model_is_run_and_verified(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, folder = convnet(), tmp_path / "out"
    outcome = checkmate.run(model, "80%", str(folder), batch_size=32, costs="analytic")
    assert "] load: loading convnet\n" in capfd.readouterr().err
    assert outcome.report.ok and outcome.report.batch_size == 32 and (folder / "report.json").is_file()
    found = checkmate.verify(model, folder / "graph.json", str(folder / "schedule.json"), budget="90%")
    assert found.gradients["equal"] and found.model == outcome.report.model == "convnet"


def test_a_class_that_only_this_process_knows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test a class that is found here, and not in the process that measures."""
    with keras.saving.custom_object_scope({"Unregistered": Unregistered}):
        with pytest.raises(ModelReadError, match="uses 'Unregistered', which is not part of Keras"):
            checkmate.profile(with_layer(Unregistered()), batch_size=BATCH, quiet=True)
        assert traced(with_layer(Unregistered())).n > 0
