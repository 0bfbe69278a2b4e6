"""Run the example program of JAX at a small size, as users run it."""

from __future__ import annotations

import re

import pytest

from tests.programs import ROOT, run_python

pytest.importorskip("jax")

PROGRAM = ROOT / "examples" / "jax" / "transformer.py"


@pytest.mark.heavy
def test_the_example_trains_within_its_budget() -> None:
    done = run_python(PROGRAM, "--small", "--budget", "80%")
    losses = [float(each) for each in re.findall(r"loss: ([\d.]+)", done.stdout)]
    assert len(losses) == 4 and losses[-1] < losses[0]
    reached, budget = (int(each) for each in re.findall(r"holds (\d+) of (\d+)", done.stdout)[0])
    assert reached <= budget
    assert "compiled, not run" in done.stderr
