"""Compile the search, once per machine, by several processes.

In this process, compiling would hold Python's global lock most of the time. The kernels that many others wait
for come first: a process takes the next one whose parts are all there. What the processes cannot do is done
here.
"""

from __future__ import annotations

import select
import subprocess
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from checkmate.errors import CheckmateError
from checkmate.ipc.messages import MessageReader
from checkmate.machine.cores import usable_cores
from checkmate.machine.own_modules import beyond_ctrl_c, module_command
from checkmate.progress import Cancelled, never
from checkmate.solvers.compile.cache import is_compiled, make_folder, note_compiled
from checkmate.solvers.compile.messages import COMPILE_MESSAGES, Compile, KernelDone

if TYPE_CHECKING:
    from checkmate.solvers.compile.parts import KernelParts

Say = Callable[[str], None]

_MOST_PROCESSES = 4  # more would wait for each other
_SAY_S, _POLL_S = 0.5, 0.02
_SILENT_S = 120.0  # for one kernel, after which a process is given up


def say_nothing(sentence: str) -> None:
    """Ignore the sentence."""


class Compilation:
    """A compilation that begins at once; ``close`` ends it early.

    What was compiled by then stays in the cache.
    """

    def __init__(self, *, processes: int | None = None) -> None:
        self._processes = min(_MOST_PROCESSES, usable_cores()) if processes is None else processes
        self._begun, self._ended = time.perf_counter(), 0.0
        self._parts: KernelParts | None = None
        self._lock = threading.Condition()
        self._done: set[str] = set()
        self._taken: set[str] = set()
        self._serving: list[subprocess.Popen[bytes]] = []
        self._given_up = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="compile")
        self._thread.start()

    @property
    def running(self) -> bool:
        """Return whether the search cannot run yet."""
        return self._thread.is_alive()

    @property
    def seconds(self) -> float:
        """Return the seconds of wall time that it took, or has taken so far."""
        return (self._ended or time.perf_counter()) - self._begun

    @property
    def sentence(self) -> str:
        """Return a sentence for the user on what is being done."""
        if not self.running:
            return f"compiled the search, once for this machine, in {self.seconds:.0f} s"
        parts = self._parts
        how_far = "" if parts is None else f", {len(self._done)} of {len(parts.kernels)} parts"
        return f"compiling the search, once for this machine: {self.seconds:.0f} s{how_far}"

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, at most ``seconds``."""
        self._thread.join(seconds)

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._given_up = True
            for child in self._serving:
                child.kill()
            self._lock.notify_all()

    def _run(self) -> None:
        """Compile, and note when that ended."""
        try:
            self._compile()
        except Exception:  # the edge of this thread
            # Whoever searches compiles for itself, and meets the same error.
            self.close()
        self._ended = time.perf_counter()

    def _compile(self) -> None:
        """Compile what is missing, load it and note that it is there."""
        from checkmate.solvers.compile.parts import find_parts

        self._parts = parts = find_parts()
        if make_folder() and self._processes:
            self._share_out(parts)
        if self._given_up:
            return
        if len(self._done) < len(parts.kernels):
            for name in parts.kernels:
                parts.compile(name)
        parts.load()
        note_compiled()

    def _share_out(self, parts: KernelParts) -> None:
        """Have several processes compile until nothing is left."""
        threads = [
            threading.Thread(target=self._serve, args=(parts,), daemon=True, name="to compiler")
            for _ in range(self._processes)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _serve(self, parts: KernelParts) -> None:
        """Have a process compile kernels, until one fails or none is left."""
        with self._lock:
            if self._given_up:
                return
            with beyond_ctrl_c():
                child = subprocess.Popen(
                    module_command("checkmate.solvers.compile.child"),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                )
            self._serving.append(child)
        answers = COMPILE_MESSAGES.reader()
        try:
            while (name := self._take(parts)) is not None:
                made = _compiled_by(child, answers, name)
                with self._lock:
                    self._taken.discard(name)
                    self._done.update({name} if made else set())
                    self._lock.notify_all()
                if not made:
                    return
        finally:
            with child:  # this closes its pipes
                child.kill()
            with self._lock:
                self._serving.remove(child)
                self._lock.notify_all()

    def _take(self, parts: KernelParts) -> str | None:
        """Return the kernel to compile next; None if none is left."""
        with self._lock:
            while not self._given_up:
                open_ = [name for name in parts.kernels if name not in self._done and name not in self._taken]
                ready = [name for name in open_ if parts.needs[name] <= self._done]
                if ready:
                    name = max(ready, key=parts.heights.__getitem__)
                    self._taken.add(name)
                    return name
                if not open_:
                    return None
                self._lock.wait()
            return None


def compile_first(say: Say = say_nothing, cancelled: Cancelled = never) -> float:
    """Compile the search if needed; return the seconds that took.

    ``say`` is told about it twice a second. If cancelled, this returns early; what was compiled stays in the
    cache.
    """
    if is_compiled():
        return 0.0
    compilation = Compilation()
    try:
        wait_for(compilation, say, cancelled)
    finally:
        compilation.close()
    return compilation.seconds


def wait_for(compilation: Compilation, say: Say, cancelled: Cancelled) -> None:
    """Wait until the compilation has ended or is cancelled; tell ``say``."""
    said = -_SAY_S
    while compilation.running and not cancelled():
        if compilation.seconds - said >= _SAY_S:
            said = compilation.seconds
            say(compilation.sentence)
        compilation.wait(_POLL_S)
    if not compilation.running:
        say(compilation.sentence)


def _compiled_by(child: subprocess.Popen[bytes], answers: MessageReader, name: str) -> bool:
    """Have ``child`` compile a kernel; return whether it has."""
    assert child.stdin is not None
    try:
        child.stdin.write(COMPILE_MESSAGES.encode(Compile(name)))
        answer = _answer(child, answers, name)
    except (OSError, CheckmateError):
        return False
    return answer is not None and answer.error is None


def _answer(child: subprocess.Popen[bytes], answers: MessageReader, name: str) -> KernelDone | None:
    """Read the answer about a kernel; None if the child ended or is silent."""
    assert child.stdout is not None
    until = time.perf_counter() + _SILENT_S
    while (left := until - time.perf_counter()) > 0:
        if not select.select([child.stdout], [], [], left)[0]:
            continue
        if not (data := child.stdout.read(2**16)):
            return None
        for message in answers.feed(data):
            if isinstance(message, KernelDone) and message.name == name:
                return message
    return None
