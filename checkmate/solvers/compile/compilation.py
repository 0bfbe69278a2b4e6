"""Compile the search while this process does something else.

Another process compiles, since LLVM cannot be interrupted. It ends by itself, also after its parent, so that
the next solve finds what this one did not wait for.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from checkmate.processes.children import end_child, module_command, start_child
from checkmate.progress import Cancelled, never
from checkmate.solvers.compile.cache import is_compiled

Say = Callable[[str], None]

_SAY_S, _POLL_S = 0.5, 0.02


def say_nothing(sentence: str) -> None: ...


class Compilation:
    """A compilation that begins at once; ``close`` ends it early."""

    def __init__(self) -> None:
        self._begun, self._ended = time.perf_counter(), 0.0
        self._given_up = False
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="compile")
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def seconds(self) -> float:
        """Of wall time, so far or until it ended."""
        return (self._ended or time.perf_counter()) - self._begun

    @property
    def sentence(self) -> str:
        if self.running:
            return f"compiling the search, once for this machine: {self.seconds:.0f} s"
        return f"compiled the search, once for this machine, in {self.seconds:.0f} s"

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def close(self) -> None:
        self._given_up = True
        if self._child is not None:
            self._child.kill()

    def _run(self) -> None:
        # Where no process starts or the cache cannot be written to, the first call of a kernel compiles.
        with suppress(OSError):
            child = self._child = start_child(
                module_command("checkmate.solvers.compile.machine_code"), stdout=subprocess.DEVNULL
            )
            if not self._given_up:
                child.wait()
            end_child(child)
        self._ended = time.perf_counter()


def compile_first(say: Say = say_nothing, cancelled: Cancelled = never) -> None:
    """Compile the search if needed, unless cancelled; ``say`` is told about it twice a second."""
    if is_compiled():
        return
    compilation = Compilation()
    try:
        wait_for(compilation, say, cancelled)
    finally:
        compilation.close()


def load_kernels(cancelled: Cancelled = never, say: Say = say_nothing) -> bool:
    """Load the kernels, compiled first if needed; False if cancelled before that. Not the user's time."""
    from checkmate.solvers.compile.machine_code import machine_code

    compile_first(say, cancelled)
    if cancelled():
        return False
    machine_code()
    return True


def wait_for(compilation: Compilation, say: Say, cancelled: Cancelled) -> None:
    said = -_SAY_S
    while compilation.running and not cancelled():
        if compilation.seconds - said >= _SAY_S:
            said = compilation.seconds
            say(compilation.sentence)
        compilation.wait(_POLL_S)
    if not compilation.running:
        say(compilation.sentence)
