"""Compile the search, once for a machine, in a process of its own: LLVM cannot be interrupted."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from checkmate.processes.children import end_child, module_command, start_child
from checkmate.progress import Cancelled, never
from checkmate.solvers.compile.cache import is_compiled

Say = Callable[[str], None]

_SAY_S, _POLL_S = 0.5, 0.02


def say_nothing(sentence: str) -> None: ...


def compile_first(say: Say = say_nothing, cancelled: Cancelled = never) -> None:
    """Compile the search if needed, unless cancelled; ``say`` is told about it twice a second."""
    if is_compiled():
        return
    begun, said = time.perf_counter(), -_SAY_S
    # Where no process starts or the cache cannot be written to, the first call of a kernel compiles.
    with suppress(OSError):
        child = start_child(
            module_command("checkmate.solvers.compile.machine_code"), stdout=subprocess.DEVNULL
        )
        try:
            while child.poll() is None and not cancelled():
                seconds = time.perf_counter() - begun
                if seconds - said >= _SAY_S:
                    said = seconds
                    say(f"compiling the search, once for this machine: {seconds:.0f} s")
                time.sleep(_POLL_S)
        finally:
            end_child(child)
    if not cancelled():
        say(f"compiled the search, once for this machine, in {time.perf_counter() - begun:.0f} s")


def load_kernels(cancelled: Cancelled = never, say: Say = say_nothing) -> bool:
    """Load the kernels, compiled first if needed; False if cancelled before that. Not the user's time."""
    from checkmate.solvers.compile.machine_code import machine_code

    compile_first(say, cancelled)
    if cancelled():
        return False
    machine_code()
    return True
