"""Test every step of every operation that writes. The old content is intact, or the new one is whole."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.faults.operations import OPERATIONS

LEAST = 200  # faults of each operation
FEW = ("journal", "kept plan")  # the others are seconds each
OTHERS = [
    pytest.param(name, marks=(pytest.mark.heavy, pytest.mark.whole)) for name in OPERATIONS if name not in FEW
]


@pytest.mark.parametrize("name", [*FEW, *OTHERS])
def test_a_fault_at_any_step_leaves_the_old_or_the_new(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.faults.hit", name], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    told = json.loads(ended.stdout)
    assert told["broken"] == [], ended.stderr[-2000:]
    assert sum(told["tried"].values()) >= LEAST
