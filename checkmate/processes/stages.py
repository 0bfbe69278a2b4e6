"""Children that may crash or hang at any of their stages: what each stage found, and how the child ended.

The child tells what it finds, one JSON line a stage, so nothing that was found before a crash is lost.
Nothing here imports a library that may be broken.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from checkmate.processes.children import end_child, module_command, start_child, watch
from checkmate.processes.own import take_stdout
from checkmate.progress import Cancelled, stop_if

_POLL_S = 0.05
_LEFT_BEHIND_S = 2.0
_LONGEST_LOG = 60_000  # characters; the end counts
_LONGEST = 400  # characters of an error
_SIGNALS = {
    "SIGILL": "illegal instruction",
    "SIGSEGV": "segmentation fault",
    "SIGABRT": "abort",
    "SIGBUS": "bus error",
    "SIGKILL": "killed, often because memory ran out",
}


@dataclass(frozen=True)
class Probe:
    """What one child process found, and how it ended.

    ``found``, ``errors``: by stage, its value or the sentence of its failure. ``stage``: in which the child
    ended, if it did not reach its end. ``code``: its exit code, or minus the signal's number; None: stopped
    at its time limit. ``log``: its standard error.
    """

    found: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    stage: str = ""
    code: int | None = 0
    log: str = ""
    seconds: float = 0.0

    @property
    def crashed(self) -> bool:
        return self.code != 0

    def why(self) -> str:
        """How the child ended, as the end of a sentence; empty where it did not crash."""
        if self.code is None:
            return f"no answer within {self.seconds:.0f} s"
        if self.code >= 0:
            return f"exit code {self.code}" if self.code else ""
        try:
            name = signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"
        return f"{name}, {_SIGNALS[name]}" if name in _SIGNALS else name


def probe(
    module: Sequence[str],
    *,
    limit_s: float,
    cancelled: Cancelled,
    environment: Mapping[str, str] = {},
) -> Probe:
    """Run ``python -m MODULE…`` for at most ``limit_s`` seconds, and gather what its ``Teller`` writes.

    ``environment`` adds variables for the child.

    Raises:
        CancelledError: the user cancelled; the child is gone.
    """

    def look(seconds: float) -> None:
        stop_if(cancelled)
        if seconds > limit_s:
            raise TimeoutError

    started = time.monotonic()
    command, variables = module_command(*module), {**os.environ, **environment}
    child = start_child(command, stderr=subprocess.PIPE, environment=variables)
    assert child.stdout is not None and child.stderr is not None
    told, log = _PipeReader(child.stdout), _PipeReader(child.stderr)
    code: int | None = None
    try:
        code = watch(child, look, _POLL_S)
    except TimeoutError:
        pass
    finally:
        end_child(child)
    return gathered(told.text(), code, log.text()[-_LONGEST_LOG:], time.monotonic() - started)


class _PipeReader:
    """Reads a pipe to its end in a thread. A file is no alternative: perhaps no folder is writable."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._parts: list[bytes] = []
        self._pipe = pipe
        self._thread = threading.Thread(target=self._read, daemon=True, name="reader")
        self._thread.start()

    def text(self) -> str:
        """Do not wait for the pipe's end: a process that the child left behind may hold it open."""
        self._thread.join(_LEFT_BEHIND_S)
        return b"".join(self._parts).decode("utf-8", "replace")

    def _read(self) -> None:
        while part := os.read(self._pipe.fileno(), 2**16):
            self._parts.append(part)
        self._pipe.close()


def gathered(told: str, code: int | None, log: str, seconds: float) -> Probe:
    """Return what the lines of JSON in ``told`` say. A truncated line does not count."""
    found: dict[str, Any] = {}
    errors: dict[str, str] = {}
    stage = ""
    for line in told.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if "begin" in entry:
            stage = str(entry["begin"])
        elif "found" in entry:
            found[entry["stage"]], stage = entry["found"], ""
        elif "error" in entry:
            errors[entry["stage"]], stage = str(entry["error"]), ""
        elif "end" in entry:
            code = 0  # everything was told; what follows does not count
    return Probe(found, errors, stage, code, log, seconds)


class Teller:
    """Writes to the process's original standard output. What libraries print goes to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(take_stdout(), "w", buffering=1, encoding="utf-8")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)  # a crash keeps what was printed

    def stage(self, name: str, work: Callable[[], Any]) -> bool:
        """Tell a piece of work's value or error; return whether it succeeded."""
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
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:_LONGEST].rstrip(": ")
