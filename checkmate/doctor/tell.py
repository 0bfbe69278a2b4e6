"""Let a child process tell what it finds, one JSON line per stage.

So nothing that was found before a crash is lost.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from typing import Any

_LONGEST = 400  # characters of an error


class Teller:
    """Write to the process's original standard output. Whatever libraries print goes to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
        os.dup2(2, 1)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)  # a crash keeps what was printed

    def stage(self, name: str, work: Callable[[], Any]) -> bool:
        """Do one piece of work and tell its value or its error. Return whether it succeeded."""
        self._say({"begin": name})
        try:
            found = work()
        except Exception as error:  # a broken library may raise anything
            self._say({"stage": name, "error": sentence_of(error)})
            return False
        self._say({"stage": name, "found": found})
        return True

    def end(self) -> None:
        """Say that everything was told. What libraries do at the end of the process does not count."""
        self._say({"end": True})
        sys.stderr.flush()
        os._exit(0)

    def _say(self, entry: dict[str, Any]) -> None:
        self._out.write(json.dumps(entry, default=str) + "\n")


def sentence_of(error: BaseException) -> str:
    """Return the first line of an error such as ``ImportError: …``."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:_LONGEST].rstrip(": ")
