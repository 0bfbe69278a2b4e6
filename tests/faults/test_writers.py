"""Test that twenty processes that write to one place lose nothing."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.faults.writers import PLACES, ROUNDS

WRITERS = 20


def test_twenty_writers_at_once() -> None:
    command = [sys.executable, "-m", "tests.faults.writers", str(WRITERS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1), ended.stderr[-2000:]
    found = json.loads(ended.stdout)
    assert set(found) == set(PLACES)
    for name, (kept, refused, broken) in found.items():
        assert broken == [], name
        assert kept + refused == WRITERS * ROUNDS and kept > 0
