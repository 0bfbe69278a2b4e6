"""Test that ``profile``, ``run`` and ``export`` refuse a program in the same words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkmate.cli.main import main
from checkmate.errors import ExitCode

PROGRAMS = """
import keras
import numpy as np
import tensorflow as tf
from keras import layers

X = np.ones((16, 64), np.float32)
KERNEL = tf.Variable(tf.ones((64, 64)))

class Calls(layers.Layer):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, x):
        return self.function(x)

    def compute_output_shape(self, shape):
        return shape

def model(*shape, middle=lambda x: x, loss="mse", **options):
    inputs = keras.Input(shape or (64,), **options)
    body = layers.Dense(64)(Calls(middle)(layers.Dense(64)(inputs)))
    made = keras.Model(inputs, layers.Dense(4)(body))
    made.compile("sgd", loss)
    return made

def step(loss):
    def train(x):
        with tf.GradientTape() as tape:
            found = tf.reduce_mean(tf.matmul(loss(x), KERNEL) ** 2)
        KERNEL.assign_sub(tape.gradient(found, KERNEL))
        return found
    return train

def where(x):
    positive = tf.boolean_mask(x, x > 0)[None, :, None]
    return x + tf.reduce_mean(tf.nn.conv1d(positive, tf.ones((3, 1, 64)), 1, "SAME"))

def queued(x):
    queue = tf.queue.FIFOQueue(8, [tf.float32], [()])
    with tf.control_dependencies([queue.enqueue(tf.reduce_mean(x))]):
        return tf.identity(x)

def written(x):
    tf.io.write_file("never", "a")
    return x

def python(x):
    found = tf.py_function(lambda given: given, [x], tf.float32)
    found.set_shape(x.shape)
    return x + tf.stop_gradient(found)

def good(): return model()
def sparse(): return model(sparse=True)
def ragged(): return model(None, 64, ragged=True)
def open_size(): return model(None, 64)
def data_sized(): return model(middle=where)
def python_layer(): return model(middle=python)
def queue_layer(): return model(middle=queued)
def writing_layer(): return model(middle=written)
def wrong_loss(): return model(loss=lambda y, p: tf.matmul(p, tf.ones((3, 3))))
def fails(): raise RuntimeError("no licence")
def python_step(): return step(python), (X,)
def compiled_step(): return step(tf.function(tf.tanh, jit_compile=True)), (X,)

def text():
    inputs = keras.Input((), dtype="string")
    words = layers.TextVectorization(output_sequence_length=4, vocabulary=["a", "b"])(inputs)
    made = keras.Model(inputs, layers.Dense(4)(layers.Flatten()(layers.Embedding(4, 64)(words))))
    made.compile("sgd", "mse")
    return made
"""

REFUSED = {
    "sparse": "is sparse, of which no batch can be made",
    "ragged": "is ragged, of which no batch can be made",
    "text": "takes text, of which no batch can be made",
    "open_size": "with sizes left open besides the batch",
    "data_sized --target xla": "so its size is not known before it runs",
    "python_layer": "calls Python code each time",
    "queue_layer": "keeps state outside of variables (QueueEnqueueV2)",
    "writing_layer": "writes to files (WriteFile)",
    "wrong_loss": "could not be traced",
    "fails": "failed with RuntimeError: no licence",
    "python_step": "calls Python code each time",
    "compiled_step": "which is compiled with jit_compile=True",
}
Said = Callable[[str], list[tuple[int, str]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the programs, and with a graph and a schedule of the good one."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "programs.py").write_text(PROGRAMS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in (
            "profile programs.py:good --allow-code --costs analytic -o g.json --quiet",
            "solve g.json --budget 100% --solver keep-all -o s.json --quiet",
        ):
            assert main(shlex.split(command)) == ExitCode.DONE
    return folder


@pytest.fixture
def said(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Return how each command ends on a program: its exit code, and what it says."""
    monkeypatch.chdir(folder)

    def each(program: str) -> list[tuple[int, str]]:
        model, found = f"programs.py:{program} --allow-code --quiet", []
        for command in (
            f"profile {model} --costs analytic -o new.json",
            f"run {model} --costs analytic --budget 70% -o out",
            f"export {model} s.json -g g.json -o out",
        ):
            code = main(shlex.split(command))
            found.append((code, capsys.readouterr().err))
        assert not (folder / "new.json").exists() and not (folder / "out").exists()
        return found

    return each


@pytest.mark.parametrize("program", REFUSED)
def test_a_program_that_cannot_be_planned_is_refused_alike(program: str, said: Said) -> None:
    # Keras and TensorFlow number what they name, on and on.
    first, *others = [(code, re.sub(r"_\d+", "_N", text)) for code, text in said(program)]
    code, text = first
    sentence, hint = text.splitlines()
    assert code == ExitCode.BAD_INPUT and REFUSED[program] in sentence and hint.strip()
    assert others == [first] * 2


def test_so_is_one_that_meets_a_fault(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    def fold(*_: Any, **__: Any) -> Any:
        raise KeyError("seeded")

    monkeypatch.setattr("checkmate.backends.tf.trace.of_request.fold", fold)
    for code, text in said("good"):
        sentence, hint = text.splitlines()
        report = Path(hint.partition("please report this fault of checkmate, and attach ")[2])
        assert (code, sentence) == (ExitCode.UNEXPECTED, "checkmate: unexpected KeyError: 'seeded'")
        assert "layers: " in report.read_text() and "ops as traced: " in report.read_text()
