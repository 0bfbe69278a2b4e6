"""``rematerialize`` in a process of its own: budgets of a few MiB are the whole process's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ALONE = Path(__file__).parents[1].joinpath("rematerialize_alone.py")


@pytest.mark.heavy
def test_one_line_in_user_code() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", str(ALONE)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ALONE.parents[2], check=False)
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout.splitlines()[-1]
