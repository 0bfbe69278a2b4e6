"""Start modules of this program as processes.

``python -m`` looks into the current folder first. A user's ``queue.py`` there, or another copy of this
program, would be imported instead of what this process runs with.
"""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def module_command(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this program.

    Nothing is imported from the current folder (``-P``), unless this program itself is there: a checkout that
    is not installed.
    """
    return [sys.executable, *_safe_path(), "-m", name, *arguments]


def _safe_path() -> list[str]:
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed
        return ["-P"]
    return [] if here == _ROOT else ["-P"]
