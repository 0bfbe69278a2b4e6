"""Test ``rematerialize`` in a user's process without a memory meter.

Such a process runs on a CPU without oneDNN, as most CPUs are.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs import run_python
from tests.quick_start import QUICK

SCRIPT = Path(__file__).parents[1].joinpath("unmetered.py")


@pytest.mark.heavy
def test_plans_are_measured_in_a_fresh_process_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CPU_ALLOCATOR_USE_BFC", raising=False)
    ran = run_python(SCRIPT, **QUICK, TF_ENABLE_ONEDNN_OPTS="0")
    found = json.loads(ran.stdout.splitlines()[-1])
    assert not found["metered"]
    assert 0 < found["peak"] <= found["allowed"] and found["recomputations"] > 0
    assert found["loss"] > 0
    said = ran.stdout + ran.stderr
    assert "the peak is measured in a fresh process" in said
    assert (
        "this process has no memory meter: set TF_CPU_ALLOCATOR_USE_BFC=true before TensorFlow is imported"
        in said
    )
