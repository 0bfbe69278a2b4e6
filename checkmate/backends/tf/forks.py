"""Ask for processes that have TensorFlow imported.

They are of ``backends.tf.fork_server``. This module does not import TensorFlow itself. On Linux a server
forks them. A GPU's driver does not bear a fork for certain: where there is one, the next process imports
TensorFlow while the last one measures, if there are cores for both.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Protocol

from checkmate.machine.load import usable_cores
from checkmate.machine.own_modules import beyond_ctrl_c, module_command

_GPUS = (Path("/dev/nvidiactl"), Path("/dev/kfd"), Path("/dev/dxg"))  # NVIDIA, AMD, either in WSL
_CORES = 4  # from which on a process may import while another one measures
_MOST = 2  # servers, or processes that wait: for default kernels and for exact ones
# Nothing reads these when TensorFlow is imported.
_LATER = frozenset({"TMPDIR", "XDG_CACHE_HOME", "PYTEST_CURRENT_TEST", "PWD", "OLDPWD", "COLUMNS", "LINES"})


class Process(Protocol):
    """A process that runs, as ``subprocess.Popen`` shows it."""

    @property
    def returncode(self) -> int | None:
        """Return the exit code; None while it runs; less than 0 after a signal."""

    def poll(self) -> int | None:
        """Look whether it has ended; return the exit code then."""

    def kill(self) -> None:
        """End it."""

    def wait(self) -> int:
        """Wait for its end; return the exit code."""


class NotForkedError(Exception):
    """Say that the server, or the process that waited, ended before."""


class ProcessSource(Protocol):
    """What gives one process that has TensorFlow imported."""

    def fork(self, files: Sequence[str], output: str, environment: Mapping[str, str]) -> Process:
        """Have a process do the task in ``files``.

        Raises:
            NotForkedError: there is none.
        """


class Sources(Protocol):
    """What keeps sources for what TensorFlow reads when it is imported."""

    def take(self, environment: Mapping[str, str], *, on_cpu: bool = False) -> ProcessSource | None:
        """Return a source for processes in this environment; None: there is none.

        ``on_cpu``: they will measure the processor.
        """

    def give_back(self, source: Any, environment: Mapping[str, str]) -> None:
        """Keep ``source`` for the next one who asks, if it goes on."""


class ForkedProcess:
    """A process that a server forked, to its end."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self._process: int | None = None
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Look whether it has ended; return the exit code then.

        Raises:
            NotForkedError: the server ended before.
        """
        return self._look(0)

    def wait(self) -> int:
        """Wait for its end; return the exit code.

        Raises:
            NotForkedError: the server ended before.
        """
        while (code := self._look(None)) is None:
            pass
        return code

    def kill(self) -> None:
        """End it; the server too where it has not told of the process yet."""
        if self._process is None:
            self._server.end()
            self.returncode = -signal.SIGKILL
        elif self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            for fact in self._server.told(seconds):
                self._process = fact.get("process", self._process)
                self.returncode = fact.get("code", self.returncode)
            if self.returncode is None and self._server.ended:
                if self._process is None:
                    raise NotForkedError
                self.returncode = -signal.SIGKILL  # it ends with its server
        return self.returncode


class ForkServer:
    """A process that has TensorFlow imported and forks others."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        with beyond_ctrl_c():
            self._process = subprocess.Popen(
                module_command("checkmate.backends.tf.fork_server"),
                stdin=subprocess.PIPE,  # closes when this process ends, and the server ends with it
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
            )
        self._rest, self._ended = b"", False

    @property
    def ended(self) -> bool:
        """Return whether it forks no more; after a while that is so by itself."""
        return self._ended or self._process.poll() is not None

    def fork(self, files: Sequence[str], output: str, environment: Mapping[str, str]) -> ForkedProcess:
        """Ask for a process; the last one has ended.

        Raises:
            NotForkedError: the server has ended.
        """
        try:
            pipe: IO[bytes] | None = self._process.stdin
            assert pipe is not None
            pipe.write(_request(files, output, environment))
            pipe.flush()
        except (OSError, ValueError) as error:  # the pipe is broken, or closed
            self.end()
            raise NotForkedError from error
        return ForkedProcess(self)

    def told(self, seconds: float | None) -> list[dict[str, Any]]:
        """Return what the server tells within ``seconds`` (None: wait for it)."""
        pipe: IO[bytes] | None = self._process.stdout
        assert pipe is not None
        if self._ended or not select.select([pipe], [], [], seconds)[0]:
            return []
        read = os.read(pipe.fileno(), 2**16)
        if not read:
            self.end()
        *lines, self._rest = (self._rest + read).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        self._ended = True
        self._process.kill()
        self._process.wait()
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()


class ForkServers:
    """Keep a few servers, each for what TensorFlow reads when it is imported."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[dict[str, str], ForkServer]] = []
        self._count = 0

    def take(self, environment: Mapping[str, str], *, on_cpu: bool = False) -> ForkServer | None:
        """Return a server for processes in this environment; None: all are busy."""
        wanted = _at_import(environment)
        with self._lock:
            alive = [each for each in self._idle if not each[1].ended]
            self._count -= len(self._idle) - len(alive)
            self._idle = alive
            for number, (known, server) in enumerate(self._idle):
                if known == wanted:
                    del self._idle[number]
                    return server
            if self._count >= _MOST and self._idle:
                self._idle.pop(0)[1].end()
                self._count -= 1
            if self._count >= _MOST:
                return None
            self._count += 1
        return ForkServer(environment)

    def give_back(self, server: ForkServer, environment: Mapping[str, str]) -> None:
        """Keep ``server`` for the next one who asks, if it goes on."""
        with self._lock:
            if server.ended:
                self._count -= 1
            else:
                self._idle.append((_at_import(environment), server))


class ReadyProcess:
    """A process that imports TensorFlow, and waits for its task."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        with beyond_ctrl_c():
            self._process = subprocess.Popen(
                module_command("checkmate.backends.tf.fork_server", "--once"),
                stdin=subprocess.PIPE,  # closes when this process ends, and the other one ends with it
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
            )
        self.returncode: int | None = None

    @property
    def ended(self) -> bool:
        """Return whether it waits no more; after a while that is so by itself."""
        return self._process.poll() is not None

    def fork(self, files: Sequence[str], output: str, environment: Mapping[str, str]) -> ReadyProcess:
        """Give it its task.

        Raises:
            NotForkedError: it has ended.
        """
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(_request(files, output, environment))
            self._process.stdin.flush()
        except (OSError, ValueError) as error:  # the pipe is broken, or closed
            self.end()
            raise NotForkedError from error
        return self

    def poll(self) -> int | None:
        """Look whether it has ended; return the exit code then.

        Raises:
            NotForkedError: it had ended before it took the task.
        """
        return self._look(self._process.poll())

    def wait(self) -> int:
        """Wait for its end; return the exit code.

        Raises:
            NotForkedError: it had ended before it took the task.
        """
        code = self._look(self._process.wait())
        assert code is not None
        return code

    def kill(self) -> None:
        self.end()
        self.returncode = -signal.SIGKILL

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()

    def _look(self, code: int | None) -> int | None:
        if code is not None and self.returncode is None:
            assert self._process.stdout is not None
            if not self._process.stdout.read(1):  # it tells that it took the task
                raise NotForkedError
            self.returncode = code
        return self.returncode


class ReadyProcesses:
    """Keep a process ready for what comes next."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready: list[tuple[dict[str, str], ReadyProcess]] = []

    def take(self, environment: Mapping[str, str], *, on_cpu: bool = False) -> ReadyProcess | None:
        """Return a process for this environment, and have the next one begin.

        None for what measures the processor: the next one would disturb it.
        """
        if on_cpu:
            return None
        wanted = _at_import(environment)
        with self._lock:
            for _, ended in (each for each in self._ready if each[1].ended):
                ended.end()  # closes its pipes
            alive = [each for each in self._ready if not each[1].ended]
            found = next((each for each in alive if each[0] == wanted), None)
            self._ready = [each for each in alive if each is not found]
            while len(self._ready) >= _MOST:
                self._ready.pop(0)[1].end()
            ready = ReadyProcess(environment) if found is None else found[1]
            self._ready.append((wanted, ReadyProcess(environment)))
        return ready

    def give_back(self, process: ReadyProcess, environment: Mapping[str, str]) -> None:
        """Let go of a process; it has ended, or is not wanted."""
        process.end()


def _request(files: Sequence[str], output: str, environment: Mapping[str, str]) -> bytes:
    """Return the line that asks for a process."""
    request = {
        "files": list(files),
        "output": output,
        "environment": dict(environment),
        "folder": os.getcwd(),
    }
    return json.dumps(request).encode("utf-8") + b"\n"


def _at_import(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in _LATER}


@cache
def fork_servers() -> Sources | None:
    """Return what gives this process others; None: each imports TensorFlow."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    if not any(path.exists() for path in _GPUS):
        return ForkServers()
    return ReadyProcesses() if usable_cores() >= _CORES else None
