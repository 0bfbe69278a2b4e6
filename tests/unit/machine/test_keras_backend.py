"""Test that Keras's backend is told as Keras itself would choose it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from checkmate.machine.keras_backend import keras_backend


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
