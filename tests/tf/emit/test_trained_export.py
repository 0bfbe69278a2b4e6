"""Test that an export trains without Keras, and gives its weights back to the Keras model, to the bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkmate.backends.tf.environment import EXACT
from tests.programs import run_python
from tests.quick_start import QUICK


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("file", "name", "policy"),
    [
        ("small_models", "convnet", "float32"),
        ("step_models", "reader", "float32"),
        ("small_models", "recurrent", "float32"),
        ("small_models", "residual", "mixed_float16"),
        ("small_models", "encoder", "mixed_bfloat16"),
    ],
)
def test_an_export_trains_as_fit_does(file: str, name: str, policy: str, tmp_path: Path) -> None:
    program = "-m", "tests.tf.emit.trained_export", file, name, policy
    done = run_python(*program, tmp_path / "out", **QUICK, **EXACT)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("recomputations") > 0
    assert all(found.values()) and {"weights", "predictions", "smaller", "evaluated"} <= found.keys(), found
