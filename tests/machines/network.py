"""Make the machines of a small network on this one.

Each is a network namespace. Where these are not allowed, ``Machines(apart=False)`` gives them addresses of
the loopback device.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("scheduler", "one", "two")
PORT = 8786
_START_S = 90.0
_TTL_S = 4  # after which a worker that says nothing is lost; by default dask waits five minutes


def ip(*words: str) -> None:
    """Run ``ip``, and raise where it fails."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def can_be_apart() -> bool:
    name = f"ck-try-{os.getpid()}"
    try:
        ip("netns", "add", name)
        ip("netns", "del", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@dataclass
class Machine:
    """A machine: its address, how a command is run on it, and what runs."""

    name: str
    address: str
    prefix: tuple[str, ...] = ()
    cable: str = ""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(
            [*self.prefix, sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": f"{_TTL_S}s"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def lose(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes.clear()

    def plug(self, *, into: bool) -> None:
        ip("link", "set", self.cable, "up" if into else "down")


class Machines:
    """A scheduler's machine and two workers'; the sweep itself is on none.

    ``apart``: each in a network namespace; else addresses of the loopback device.
    """

    def __init__(self, *, apart: bool = True) -> None:
        self._apart, self._key = apart, os.getpid() % 10000
        self.scheduler, self.one, self.two = (self._machine(i, name) for i, name in enumerate(NAMES))

    def _machine(self, index: int, name: str) -> Machine:
        if not self._apart:
            return Machine(name, f"127.0.0.{index + 2}")
        space = self._space(name)
        return Machine(
            name, f"10.213.7.{index + 2}", ("ip", "netns", "exec", space), f"ck{self._key}{name[0]}"
        )

    def _space(self, name: str) -> str:
        return f"ck{self._key}-{name}"

    @property
    def _bridge(self) -> str:
        return f"ck{self._key}b"

    @property
    def machines(self) -> Sequence[Machine]:
        return (self.scheduler, self.one, self.two)

    @property
    def address(self) -> str:
        return f"{self.scheduler.address}:{PORT}"

    def __enter__(self) -> Self:
        if self._apart:
            try:
                self._connect()
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *exc: object) -> None:
        for machine in self.machines:
            machine.lose()
        if not self._apart:
            return
        spaces = [("netns", "del", self._space(machine.name)) for machine in self.machines]
        # A cable would go with its namespace, but only some time later.
        cables = [("link", "del", cable) for cable in (*(one.cable for one in self.machines), self._bridge)]
        for words in (*cables, *spaces):
            with suppress(subprocess.CalledProcessError):
                ip(*words)

    def _connect(self) -> None:
        ip("link", "add", self._bridge, "type", "bridge")
        ip("addr", "add", "10.213.7.1/24", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")
        for machine in self.machines:
            space = self._space(machine.name)
            ip("netns", "add", space)
            ip("link", "add", machine.cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", machine.cable, "master", self._bridge)
            ip("link", "set", machine.cable, "up")
            ip("-n", space, "addr", "add", f"{machine.address}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def start_scheduler(self) -> None:
        """Start dask's scheduler on its machine, and wait until it listens."""
        host = ("--host", self.scheduler.address, "--port", str(PORT))
        self.scheduler.start("distributed.cli.dask_scheduler", *host, "--no-dashboard", "--no-show")
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection((self.scheduler.address, PORT), 1.0):
                return
            time.sleep(0.1)
        raise TimeoutError(f"no scheduler listens at {self.address}")

    def start_worker(self, machine: Machine) -> None:
        options = f"--host {machine.address} --nthreads 1 --nworkers 1 --no-nanny --no-dashboard"
        machine.start("distributed.cli.dask_worker", f"tcp://{self.address}", *options.split())

    def start_all(self) -> None:
        self.start_scheduler()
        for machine in (self.one, self.two):
            self.start_worker(machine)
