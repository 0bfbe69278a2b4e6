"""Test the rows of the benchmark of Keras on JAX, and the example program, as users run it."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

from tests.benchmarks.jax_donated import relative_difference
from tests.programs import ROOT, run_python

_KERAS = """
import json
from tests.benchmarks.jax_keras import rows_of
print(json.dumps(list(rows_of("dense", shares=(75,)))))
"""


def test_a_difference_is_relative_to_each_array() -> None:
    one = {"large": np.full(4, 100.0), "small": np.full(4, 1.0), "none": np.zeros(4)}
    assert relative_difference(one, one) == 0
    assert relative_difference(one, {**one, "small": np.full(4, 1.5)}) == 0.5
    assert relative_difference(one, {**one, "none": np.full(4, 1e-3)}) == pytest.approx(0.1)


@pytest.mark.heavy
def test_the_rows_of_a_keras_model() -> None:
    """Test in a process of its own: Keras chooses its backend once."""
    done = run_python("-c", _KERAS, KERAS_BACKEND="jax")
    rows = json.loads(done.stdout.splitlines()[-1])
    check(rows)
    assert {"keras.remat", 'RematScope("full")'} <= {row["way"] for row in rows}


def check(rows: list[dict[str, Any]]) -> None:
    """Check that all ways computed the same step, and the share its budget."""
    plain, ours, *peers = rows
    assert (plain["way"], ours["way"]) == ("plain", "75 %")
    assert ours["temporary"] <= ours["budget"] == 0.75 * plain["temporary"]
    assert all(row["difference"] < 1e-4 for row in [ours, *peers] if "problem" not in row)
    assert all(row["compile_seconds"] > 0 for row in rows if "problem" not in row)


@pytest.mark.heavy
def test_the_example_trains_within_its_budget() -> None:
    done = run_python(ROOT / "examples" / "on_jax" / "transformer.py", "--small", "--budget", "80%")
    losses = [float(each) for each in re.findall(r"loss: ([\d.]+)", done.stdout)]
    assert len(losses) == 4 and losses[-1] < losses[0]
    reached, budget = (int(each) for each in re.findall(r"holds (\d+) of (\d+)", done.stdout)[0])
    assert reached <= budget
    assert "compiled, not run" in done.stderr
