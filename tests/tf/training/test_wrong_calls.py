"""Test that a wrong call gets one clear sentence at once.

The page says the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.quick_start import QUICK

ROOT = Path(__file__).parents[3]


@pytest.mark.heavy
def test_the_page_of_wrong_calls_says_what_they_get() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "tests.tf.wrong_calls"],
        cwd=ROOT,
        env={**os.environ, **QUICK},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-3000:]
    assert made.stdout == (ROOT / "docs/pages/reference/wrong-calls.md").read_text(encoding="utf-8")
