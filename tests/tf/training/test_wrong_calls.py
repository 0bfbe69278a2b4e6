"""Test that a wrong call gets one clear sentence at once.

``wrong_calls.md`` has all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import run_python
from tests.quick_start import QUICK


@pytest.mark.heavy
def test_wrong_calls_get_their_sentences() -> None:
    made = run_python("-m", "tests.tf.wrong_calls", **QUICK)
    assert made.stdout == Path(__file__).with_name("wrong_calls.md").read_text(encoding="utf-8")
