"""Test that TensorFlow is imported with less work, and is whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORT = """
import gc, json, sys
from checkmate.backends.tf.environment import import_quickly
import_quickly()
looks = []
gc.collect()  # so that none is due before the import begins
gc.callbacks.append(lambda phase, info: looks.append(phase))
import {library}
found = {{"looks": len(looks), "hidden": gc.get_freeze_count(), "jax": "jax" in sys.modules}}
import tensorflow as tf
found["sum"] = float(tf.reduce_sum(tf.keras.layers.Dense(2, kernel_initializer="ones")(tf.ones((1, 3)))))
found["collects"] = gc.isenabled()
import jax
found["later"] = callable(jax.jit)
print(json.dumps(found))
"""


@pytest.mark.heavy
@pytest.mark.skipif(find_spec("jax") is None, reason="needs JAX")
@pytest.mark.parametrize("library", ["tensorflow", "keras"])
def test_nothing_is_looked_at_and_jax_is_left_out_until_it_is_asked_for(library: str) -> None:
    code = IMPORT.format(library=library)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    # At most one collection, before or after the import, which alone would start hundreds.
    assert found["looks"] <= 2
    assert (found["jax"], found["sum"]) == (False, 6.0)
    assert found["hidden"] > 100_000 and found["collects"] and found["later"]


@pytest.mark.heavy
@pytest.mark.skipif(find_spec("jax") is None, reason="needs JAX")
def test_keras_on_jax_is_still_refused_in_a_sentence() -> None:
    """Test what loads a model for TensorFlow, after the quick import."""
    code = """
    from checkmate.backends.tf.environment import import_quickly
    import_quickly()
    from checkmate.errors import CheckmateError
    from checkmate.request import ModelRequest
    from checkmate.backends.tf.models.load import load_model
    try:
        load_model(ModelRequest("lstm"))
    except CheckmateError as error:
        print(error.hint)
    """
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "KERAS_BACKEND=tensorflow" in done.stdout, done.stderr
