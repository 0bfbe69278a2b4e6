from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from checkmate.errors import ExitCode, UsageError
from checkmate.machine.supported import keras_backend, require_backend

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give Keras a home of its own, and let it not be imported."""
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    return tmp_path


def test_it_is_tensorflow_unless_something_else_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keras_backend() == "tensorflow"
    (home / "keras.json").write_text('{"backend": "torch"}')
    assert keras_backend() == "torch"
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert keras_backend() == "jax"
    imported = SimpleNamespace(config=SimpleNamespace(backend=lambda: "tensorflow"))
    monkeypatch.setitem(sys.modules, "keras", imported)  # type: ignore[arg-type]
    assert keras_backend() == "tensorflow"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"backend": ""}', "no json"])
def test_a_file_that_says_nothing_is_passed_over(home: Path, text: str) -> None:
    (home / "keras.json").write_text(text)
    assert keras_backend() == "tensorflow"


@pytest.mark.parametrize("backend", ["torch", "potato", "jax"])
def test_another_backend_is_refused_in_a_sentence(
    backend: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", backend)
    monkeypatch.setattr("checkmate.machine.supported.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=f"the backend '{backend}', ") as found:
        require_backend()
    assert "KERAS_BACKEND=tensorflow" in found.value.hint
    assert ("checkmate-explorer[jax]" in found.value.hint) is (backend == "jax")


@pytest.mark.parametrize(
    "command",
    [
        "profile unet -o g.json",
        "run unet --budget 60% -o out",
        "max-batch unet --budget 1GiB",
        "list devices",
    ],
)
def test_the_commands_refuse_it_before_keras_does(command: str, home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "checkmate", *command.split()],
        env={**os.environ, "KERAS_BACKEND": "potato", "PYTHONPATH": str(ROOT)},
        cwd=home,
        capture_output=True,
        text=True,
    )
    said, hint = done.stderr.splitlines()
    assert done.returncode == ExitCode.BAD_INPUT and "is set up for the backend 'potato'" in said
    assert "KERAS_BACKEND=tensorflow" in hint


def test_jax_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setattr("checkmate.machine.supported.find_spec", lambda name: object())
    assert require_backend() == "jax"
