"""Make wrong calls, and write what each of them says as a table.

``python -m tests.tf.wrong_calls > tests/tf/training/wrong_calls.md`` writes it. Each call must end
with an expected error before anything is measured.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import checkmate
from checkmate.cli.main import main as command
from checkmate.errors import CheckmateError

HEAD = """# Wrong calls

What the program says to a wrong call: what is wrong, and what to do. Nothing is measured before.

This is written by `python -m tests.tf.wrong_calls > tests/tf/training/wrong_calls.md`, which makes each of
the calls. `…` stands for what Keras or TensorFlow said, and for names.
"""

PYTHON = (
    "rematerialize(model, 0.6)",
    'rematerialize(model, "60")',
    'rematerialize(model, "60 %%")',
    "rematerialize(uncompiled, '1GiB')",
    "rematerialize('model.keras', '1GiB')",
    "rematerialize(step, '1GiB')",
    "rematerialize(compiled(run_eagerly=True), '1GiB')",
    "rematerialize(model, '1GiB', on_miss='nearest')",
    "rematerialize(model, '1GiB', options=30)",
    "rematerialize(model, '1GiB', example=(x, y[:8]))",
    "rematerialize(model, '1GiB', example=(x, y, None, None))",
    "rematerialize(model, '1GiB', example=dataset)",
    "rematerialize(model, '1GiB', example=(x[:0], y[:0]))",
    "rematerialize(frozen, '1GiB', example=(x, y))",
    "train_step(own_step, '1GiB')",
    "rematerialize_function(step(x), '1GiB')",
    "rematerialize_function(model, '1GiB')",
    "rematerialize_function(generator, '1GiB', example=x)",
    "rematerialize_function(concrete, '1GiB')",
    "rematerialize_function(calls_compiled, '1GiB', example=x)",
    "rematerialize_function(step, '1GiB', example=(x, y))",
    "rematerialize_function(calls_python, '1GiB', example=x)",
)

COMMANDS = (
    "run train.py:make -o out --budget 60%",
    "run train.py --allow-code -o out --budget 60%",
    "run train.py:mke --allow-code -o out --budget 60%",
    "run trian.py:make --allow-code -o out --budget 60%",
    "run fails.py:make --allow-code -o out --budget 60%",
    "run train.py:generator --allow-code -o out --budget 60%",
    "run train.py:step --allow-code -o out --budget 60%",
    "run train.py:words --allow-code --input-shape 32,32,3 -o out --budget 60%",
    "run train.py:large --allow-code -o out --budget 1MiB",
    "profile train.py:make --allow-code -o nowhere/g.json",
    "profile train.py:make --allow-code --optimizer adamm -o g.json",
    "profile unt -o g.json",
)

FILE = """import keras
from keras import layers

def make(width=8, **options):
    inputs = keras.Input((32,), name="numbers")
    model = keras.Model(inputs, layers.Dense(4)(layers.Dense(width)(inputs)), name="mine")
    model.compile(**{"optimizer": "adam", "loss": "mse", **options})
    return model

def large():
    return make(width=2 ** 16)

def generator():
    yield make()

def step():
    return lambda images: images

def words():
    inputs = keras.Input((64,), dtype="int32", name="words")
    model = keras.Model(inputs, layers.Dense(2)(layers.Flatten()(layers.Embedding(9, 8)(inputs))))
    model.compile("adam", "mse")
    return model
"""


VARIES = (
    (r" could not be traced: .*", " could not be traced: …"),
    (r"'__inference_\w+'", "'…'"),
    (r"(that op )'[^']*'( needs by itself) \(.*\)", r"\1'…'\2"),
    (r"(there is no folder )\S*/", r"\1…/"),
)


class OwnStep(keras.Model):  # type: ignore[misc]
    """A model with a ``train_step`` of its own."""

    def train_step(self, data: Any) -> dict[str, Any]:
        return {"loss": tf.reduce_mean(data[0])}


def names() -> dict[str, Any]:
    """Return what the calls in Python name."""
    weight = tf.Variable(tf.ones((32, 4)))

    def compiled(**options: Any) -> Any:
        inputs = keras.Input((32,), name="numbers")
        model = keras.Model(inputs, layers.Dense(4, name="answer")(inputs), name="mine")
        if options:
            model.compile(**{"optimizer": "adam", "loss": "mse", **options})
        return model

    def step(batch: Any) -> Any:
        loss = tf.reduce_mean(tf.matmul(batch, weight))
        weight.assign_sub(0.1 * weight)
        return loss

    def generator(batch: Any) -> Iterator[Any]:
        yield tf.reduce_mean(batch)

    def calls_compiled(batch: Any) -> Any:
        return tf.function(step, jit_compile=True)(batch)

    def calls_python(batch: Any) -> Any:
        return tf.py_function(lambda value: value, [tf.reduce_mean(batch)], tf.float32)

    own, frozen = OwnStep(name="own"), compiled()
    own.compile("adam")
    frozen.trainable = False
    frozen.compile("adam", "mse")
    x, y = np.zeros((16, 32), np.float32), np.zeros((16, 4), np.float32)
    public = {
        each: getattr(checkmate, each) for each in ("rematerialize", "rematerialize_function", "train_step")
    }
    return {
        **public,
        **{
            "tf": tf,
            "x": x,
            "y": y,
            "model": compiled(loss="mse"),
            "uncompiled": compiled(),
            "own_step": own,
        },
        **{"frozen": frozen, "compiled": compiled, "dataset": tf.data.Dataset.from_tensors((x, y))},
        **{"step": step, "generator": generator, "calls_python": calls_python},
        "calls_compiled": calls_compiled,
        "concrete": tf.function(step).get_concrete_function(tf.constant(x)),
    }


def said_by_python(call: str, known: dict[str, Any]) -> tuple[str, str]:
    """Return the sentence and the hint of the error that ``call`` raises."""
    heard = io.StringIO()
    with contextlib.redirect_stderr(heard):
        try:
            eval(call, known)
        except CheckmateError as error:
            found = str(error), error.hint
        else:
            raise AssertionError(f"{call} raised no error")
    assert "measur" not in heard.getvalue(), (call, heard.getvalue())
    return found


def said_by_command(line: str) -> tuple[str, str]:
    """Return the sentence and the hint that ``checkmate line`` ends with."""
    heard = io.StringIO()
    with contextlib.redirect_stderr(heard), contextlib.redirect_stdout(io.StringIO()):
        code = command(shlex.split(line))
    text = heard.getvalue()
    assert code in (2, 3) and "measure: " not in text and "Traceback" not in text, (line, code, text)
    sentence, _, hint = text[text.rindex("checkmate: ") :].partition("\n")
    return sentence.removeprefix("checkmate: "), hint.strip()


def row(call: str, sentence: str, hint: str) -> str:
    """Return a line of the table, without what differs between releases.

    What differs between runs is left out too.
    """
    for varies, instead in VARIES:
        sentence = re.sub(varies, instead, sentence)
    assert sentence and hint and "\n" not in sentence + hint, (call, sentence, hint)
    cells = (f"`{call}`", *(text.replace("|", "\\|").replace("<", "&lt;") for text in (sentence, hint)))
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """Return the page, made of the answers to all calls."""
    known = names()
    table = "|---|---|---|"
    python = [row(call, *said_by_python(call, known)) for call in PYTHON]
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("train.py").write_text(FILE)
            Path("fails.py").write_text('raise RuntimeError("no licence")\n')
            commands = [row(f"checkmate {line}", *said_by_command(line)) for line in COMMANDS]
        finally:
            os.chdir(here)
    heads = [f"| {what} | it says | what to do |" for what in ("call", "command")]
    parts = [HEAD, "## Python\n", heads[0], table, *python, "\n## Commands\n", heads[1], table, *commands]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
