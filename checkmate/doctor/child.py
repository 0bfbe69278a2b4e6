"""Run a child process that may crash or hang.

The result says what the child told and how it ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from checkmate.doctor.facts import Probe
from checkmate.errors import CancelledError
from checkmate.machine.own_modules import beyond_ctrl_c, module_command
from checkmate.progress import Cancelled

_POLL_S = 0.05
_LEFT_BEHIND_S = 2.0
_LONGEST_LOG = 60_000  # characters; the end counts


def probe(
    module: Sequence[str],
    *,
    limit_s: float,
    cancelled: Cancelled,
    environment: Mapping[str, str] = {},
    meanwhile: Callable[[], None] = lambda: None,
) -> Probe:
    """Run ``python -m MODULE…`` and gather what its ``Teller`` writes.

    The child is killed after ``limit_s`` seconds. ``environment`` adds variables to this process's for the
    child. ``meanwhile`` is called again and again.

    Raises:
        CancelledError: the user cancelled; the child is gone.
    """
    started = time.monotonic()
    with beyond_ctrl_c():
        process = subprocess.Popen(
            module_command(*module),
            stdin=subprocess.PIPE,  # closes when this process ends, and then the child ends
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    told, log = _PipeReader(process.stdout), _PipeReader(process.stderr)
    late = False
    try:
        while process.poll() is None and not late:
            if cancelled():
                raise CancelledError("cancelled")
            meanwhile()
            time.sleep(_POLL_S)
            late = time.monotonic() - started > limit_s
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdin.close()
    code = None if late else process.returncode
    return gathered(told.text(), code, log.text()[-_LONGEST_LOG:], time.monotonic() - started)


class _PipeReader:
    """Read a pipe to its end in a thread. No file is needed: perhaps no folder is writable."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._parts: list[bytes] = []
        self._pipe = pipe
        self._thread = threading.Thread(target=self._read, daemon=True, name="reader")
        self._thread.start()

    def text(self) -> str:
        """Return all that was written.

        A process that the child left behind may hold the pipe; it is not waited for.
        """
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
