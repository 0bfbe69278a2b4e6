"""Test models of the form ``file.py:function``.

The file is run only if that is allowed, as ``python file.py`` would run it. Its failures are reported with
their place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import pytest

from checkmate.errors import CheckmateError, LoadError, ModelReadError, UnsafeModelError
from tests.tf.conftest import assert_refused, load

MODEL = "x = keras.Input((8,)); m = keras.Model(x, layers.Dense(2, name='last')(x), name='small')"
Write = Callable[..., Path]


def test_uncompiled_model(code_file: Write) -> None:
    path = code_file(f"def make():\n    {MODEL}\n    return m")
    loaded = load(f"{path}:make", allow_code=True)
    assert loaded.name == "make"
    assert loaded.notes == ("not compiled: mean squared error and Adam are used",)
    assert not loaded.jit_compiled


def test_compiled_model_is_left_as_it_is(code_file: Write) -> None:
    source = f"{MODEL}; m.compile(keras.optimizers.SGD(0.5), 'huber', metrics=['mae'])\ndef make(): return m"
    loaded = load(f"{code_file(source)}:make", allow_code=True)
    assert loaded.notes == ()
    assert loaded.model.loss == "huber"
    assert float(loaded.model.optimizer.learning_rate) == 0.5


@pytest.mark.parametrize("named", ["m", "Own"])
def test_a_model_or_a_class_in_place_of_a_function(code_file: Write, named: str) -> None:
    source = (
        f"{MODEL}\nclass Own(keras.Model):\n    def __init__(self):\n        super().__init__()\n"
        "        self.d = layers.Dense(2)\n    def call(self, x):\n        return self.d(x)"
    )
    loaded = load(f"{code_file(source)}:{named}", allow_code=True, input_shape=(8,))
    assert loaded.input_specs[0].shape == (4, 8)


def test_file_may_import_its_neighbours_and_define_dataclasses(code_file: Write) -> None:
    code_file("WIDTH = 3", "neighbour_of_mine.py")
    source = (
        "from dataclasses import dataclass\nimport neighbour_of_mine\n"
        "@dataclass\nclass Size:\n    width: 'int' = neighbour_of_mine.WIDTH\n"
        "def make():\n    x = keras.Input((8,))\n    return keras.Model(x, layers.Dense(Size().width)(x))"
    )
    assert load(f"{code_file(source)}:make", allow_code=True).label_specs[0].shape == (4, 3)


def test_what_it_prints_stays_off_standard_output(
    code_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = code_file(f"print(1)\n{MODEL}\ndef make():\n    m.summary()\n    return m")
    load(f"{path}:make", allow_code=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "small" in captured.err


def test_dtype_policy_applies_to_what_is_built(code_file: Write) -> None:
    path = code_file(f"def make():\n    {MODEL}\n    return m")
    loaded = load(f"{path}:make", allow_code=True, mixed_precision="mixed_bfloat16")
    assert loaded.model.get_layer("last").compute_dtype == "bfloat16"
    assert loaded.notes[0] == "built under the dtype policy mixed_bfloat16"
    assert keras.config.dtype_policy().name == "float32"


def test_policy_that_the_code_sets_does_not_stay(code_file: Write) -> None:
    path = code_file(
        f"def make():\n    keras.config.set_dtype_policy('mixed_float16')\n    {MODEL}\n    return m"
    )
    loaded = load(f"{path}:make", allow_code=True)
    assert loaded.model.get_layer("last").compute_dtype == "float16"
    assert keras.config.dtype_policy().name == "float32"


def test_code_does_not_run_unless_allowed(code_file: Write, tmp_path: Path) -> None:
    path = code_file(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    with pytest.raises(UnsafeModelError) as raised:
        load(f"{path}:make")
    assert str(raised.value) == f"{path}:make would run the code in {path}, which may do anything"
    assert raised.value.hint == "allow_code=True runs it; use it only for a file you trust"
    assert not (tmp_path / "ran").exists()


def test_missing_file() -> None:
    with pytest.raises(LoadError) as raised:
        load("nowhere.py:make", allow_code=True)
    assert str(raised.value) == "there is no file nowhere.py"


BAD = {
    "another name": "def build(): pass",
    "a similar name": "def mike(): pass",
    "a number": "make = 3",
    "returns a number": "def make(): return 3",
    "returns nothing": "def make(): pass",
    "fails": "def make():\n    return {}['key']",
    "imports what is not there": "import keras_that_is_not_there",
    "no Python": "def make(:",
    "exits": "def make():\n    raise SystemExit(3)",
    "wants an argument": "def make(width): pass",
    "builds what does not fit": "def make():\n    x = keras.Input((8,))\n    return layers.Conv2D(2, 3)(x)",
}


@pytest.mark.parametrize("name", BAD)
def test_code_that_gives_no_model(name: str, code_file: Write) -> None:
    keras.utils.clear_session()  # so that the layer in the sentence is the first of its kind
    path = code_file(BAD[name])
    with pytest.raises(CheckmateError) as raised:
        load(f"{path}:make", allow_code=True)
    assert_refused(name, raised.value, path=path)
    assert isinstance(raised.value, LoadError) or raised.value.__cause__ is not None


def test_neighbours_error_is_placed_in_the_users_own_file(code_file: Write) -> None:
    code_file("def fail():\n    raise OSError('no luck')", "unlucky.py")
    path = code_file("import unlucky\ndef make():\n    unlucky.fail()")
    with pytest.raises(ModelReadError, match=r"(?m)failed with OSError: no luck \(mine.py, line 5\)$"):
        load(f"{path}:make", allow_code=True)
