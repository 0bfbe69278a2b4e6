"""How a child process tells what it finds: a line of JSON per stage, so that what was found before a crash is not lost."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

_LONGEST = 400  # characters of an error


class Teller:
    """Writes to the process's original standard output; whatever libraries print goes to standard error."""

    def __init__(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends this process
        self._out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
        os.dup2(2, 1)

    def stage(self, name: str, work: Callable[[], Any]) -> bool:
        """Do one piece of work and tell its value, or the sentence of its error; return whether it went well."""
        self._say({"begin": name})
        try:
            found = work()
        except Exception as error:  # whatever a broken library raises is what is looked for
            self._say({"stage": name, "error": sentence_of(error)})
            return False
        self._say({"stage": name, "found": found})
        return True

    def end(self) -> None:
        """Say that all was told. What libraries do at the process's end does not count."""
        self._say({"end": True})
        sys.stderr.flush()
        os._exit(0)

    def _say(self, entry: dict[str, Any]) -> None:
        self._out.write(json.dumps(entry, default=str) + "\n")


def sentence_of(error: BaseException) -> str:
    """Return ``ImportError: …``, its first line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:_LONGEST].rstrip(": ")
