"""Test that a wrong call gets one clear sentence at once.

``wrong_calls.md`` has all of them.
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
def test_wrong_calls_get_their_sentences() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "tests.tf.wrong_calls"],
        cwd=ROOT,
        env={**os.environ, **QUICK},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-3000:]
    assert made.stdout == Path(__file__).with_name("wrong_calls.md").read_text(encoding="utf-8")
