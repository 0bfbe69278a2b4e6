"""Test what is said of a model's name before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkmate.catalog.model_names import require_named
from checkmate.errors import LoadError
from checkmate.request import ModelRequest


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("def make(): ...\ndef other(size=3, *, deep=True): ...\n", "one of: {0}:make, {0}:other"),
        ("def of(size): ...\ndef by(*, size): ...\ndef _own(): ...\n", "write {0}:function"),
        ("x = (\n", "write {0}:function"),
        ("import no_such_module\ndef make(): ...\n", "one of: {0}:make"),  # it is not run
    ],
)
def test_code_without_a_function_names_those_that_are_there(tmp_path: Path, code: str, hint: str) -> None:
    path = tmp_path / "net.py"
    path.write_text(code)
    with pytest.raises(LoadError, match="is Python code; name the function in it") as caught:
        require_named(ModelRequest(str(path)))
    assert caught.value.hint == hint.format(path)
