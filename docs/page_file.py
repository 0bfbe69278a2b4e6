"""Write or check a generated page."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check(path: Path, text: str, script: str) -> int:
    """Write ``text`` to ``path``, or check it; return the exit code.

    With ``--check`` on the command line nothing is written: 1 says that the page is out of date. ``script``
    makes the page, and is named then.
    """
    if "--check" not in sys.argv[1:]:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{path} is out of date; run: python {script}\n")
    return 1
