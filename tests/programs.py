"""Run Python programs in processes of their own, as users do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_python(*arguments: object, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``python`` with the program's modules and the tests', and require its exit code."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, (done.returncode, done.stdout[-8000:], done.stderr[-4000:])
    return done
