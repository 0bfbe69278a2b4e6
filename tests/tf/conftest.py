"""Define the fixtures of the tests that load TensorFlow."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import pytest
from keras import layers

from checkmate.backends.tf.devices import kernels_here
from checkmate.backends.tf.models.load import load_model
from checkmate.backends.tf.models.model import LoadedModel, keras_model
from checkmate.backends.tf.trace.coarsen import FoldedStep, fold
from checkmate.backends.tf.trace.trace import trace_step
from checkmate.errors import CheckmateError
from checkmate.ir import Device
from checkmate.models.arrays import FLOAT, ArraySpec
from checkmate.models.inputs import Inputs
from checkmate.models.losses import Labels
from checkmate.request import ModelRequest
from tests.tf.task_process import TaskProcess

MODELS = Path(__file__).with_name("models.py")
_REFUSED = Path(__file__).parent / "loading" / "refused.txt"


@pytest.fixture(autouse=True)
def process_left_as_found() -> Iterator[None]:
    """Check that no test changes the process for the next. No dtype policy, import path or unsafe mode of
    Keras may stay."""
    random.seed(20)  # Keras draws its default seeds from here
    policy, path = keras.config.dtype_policy().name, list(sys.path)
    yield
    assert keras.config.dtype_policy().name == policy
    assert sys.path == path


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskProcess]:
    """Return a process with Eigen's kernels for the tests of one file."""
    started = TaskProcess(tmp_path_factory.mktemp("process"))
    yield started
    started.close()


def load(spec: Path | str, **options: Any) -> LoadedModel:
    """Load what ``spec`` names, for a batch of 4 unless told otherwise."""
    return load_model(ModelRequest(str(spec), **{"batch_size": 4, **options}))


def assert_refused(name: str, error: CheckmateError, **named: object) -> None:
    """Compare type, sentence and hint with what ``loading/refused.txt`` says under ``name``."""
    entries = _REFUSED.read_text(encoding="utf-8").strip().split("\n\n")
    wanted = dict(entry.split("\n", 1) for entry in entries)[name].format(**named)
    assert f"{type(error).__name__}: {error}\n{error.hint}" == wanted


def folded_model(model: Any, input_shape: tuple[int, ...], label_shape: tuple[int, ...]) -> FoldedStep:
    """Return the folded step of a compiled model on float inputs and labels of these shapes."""
    model.optimizer.build(model.trainable_variables)
    x, y = ArraySpec(input_shape, "float32"), ArraySpec(label_shape, "float32")
    inputs, labels = Inputs((x,), 0, (0,)), Labels((y,), (FLOAT,), (0,), 0)
    loaded = keras_model(model, "made", input_shape[0], inputs, labels)
    return fold(trace_step(loaded), kernels_here("cpu"), fixed={}, device=Device("cpu", "cpu"), metadata={})


def dense_model(**compile_options: Any) -> Any:
    """Return a model from eight numbers to four. It is compiled if options are given."""
    inputs = keras.Input((8,), name="numbers")
    model = keras.Model(
        inputs, layers.Dense(4, name="answer")(layers.Dense(6, activation="relu")(inputs)), name="dense"
    )
    if compile_options:
        model.compile(**compile_options)
    return model


@pytest.fixture
def code_file(tmp_path: Path) -> Callable[[str], Path]:
    """Write Python source to a file and return its path."""

    def write(source: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.write_text(f"import keras\nfrom keras import layers\n{source}\n", encoding="utf-8")
        return path

    return write
