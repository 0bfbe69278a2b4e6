"""The engine on which a sweep's solves run: ``processes``, ``processes:4`` or ``dask://host:port``.

Every engine takes one task at a time per worker and gives a future for it, so that a lost worker costs its
own task and no other. joblib's ``Parallel`` ends as a whole where one worker dies, and its dask backend is
never told of a task that the cluster has given up; so this uses joblib's executor (loky) and the clusters'
own clients.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from checkmate.errors import EngineUnavailableError
from checkmate.progress import Cancelled, never, stop_if

_PROCESSES = re.compile(r"processes:([0-9]+)")
_DASK = re.compile(r"dask://([^\s/?#@]+:([0-9]+))")
_LOOK_S = 0.5  # how often a process looks for its parent
_LOUD = ("distributed.client", "distributed.batched", "distributed.comm")  # tracebacks of what is said here
_CONNECT_S, _WORKERS_S, _POLL_S, _ASK_S = 10, 30.0, 0.1, 0.5  # of a cluster


@dataclass(frozen=True)
class Engine:
    """``address``: host:port of a dask scheduler; empty: this machine. ``count``: processes; None: one per
    core."""

    address: str = ""
    count: int | None = None

    def __str__(self) -> str:
        if self.address:
            return f"dask://{self.address}"
        return "processes" if self.count is None else f"processes:{self.count}"


def parse_engine(text: str) -> Engine:
    """Raise ValueError where ``text`` names none; the message says what to write."""
    said = text.strip()
    if said == "processes":
        return Engine()
    if (local := _PROCESSES.fullmatch(said)) and int(local[1]) > 0:
        return Engine(count=int(local[1]))
    if (cluster := _DASK.fullmatch(said)) and 0 < int(cluster[2]) < 2**16:
        return Engine(cluster[1])
    raise ValueError(f"{text!r} is not an engine; write processes, processes:4 or dask://host:8786")


class Pool:
    """``jobs``: most tasks at once. ``retries``: how often a sweep may send a task again whose worker was
    lost.
    """

    retries = 0

    def __init__(self, jobs: int | None) -> None:
        self._jobs = jobs

    def slots(self) -> int:
        """How many tasks run at once now; workers come and go."""
        return self._room() if self._jobs is None else min(self._jobs, self._room())

    def _room(self) -> int:
        raise NotImplementedError

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:
        """Both travel by pickle, the function by its name."""
        raise NotImplementedError

    def is_loss(self, error: BaseException) -> bool:
        """Whether the task's worker was lost; otherwise the task itself failed."""
        raise NotImplementedError

    def require_open(self) -> None:
        """Raise EngineUnavailableError where the engine as a whole is gone."""

    def close(self, *, at_once: bool) -> None:
        """Give the workers back. ``at_once``: do not wait for what still runs."""
        raise NotImplementedError


@contextmanager
def open_pool(
    engine: Engine, *, jobs: int | None = None, workers: int = 1, cancelled: Cancelled = never
) -> Iterator[Pool]:
    """Yield the engine. ``jobs``: most tasks at once. ``workers``: cores that each task uses.

    Raises:
        EngineUnavailableError: its library is not installed, or nothing answers at its address.
        CancelledError: the user cancelled while waiting for it.
    """
    pool: Pool
    if engine.address:
        pool = DaskPool(engine.address, jobs, cancelled)
    else:
        pool = ProcessPool(engine.count or jobs, workers, jobs)
    try:
        yield pool
    except BaseException:
        pool.close(at_once=True)
        raise
    pool.close(at_once=False)


class ProcessPool(Pool):
    """Processes of this machine, each started when first needed.

    By default there are as many as leave each its ``workers`` cores. Each has an executor of its own, so that
    a lost process is known by its task.
    """

    retries = 2

    def __init__(self, count: int | None, workers: int, jobs: int | None) -> None:
        from joblib import cpu_count

        super().__init__(jobs)
        self._count: int = count or max(1, cpu_count() // workers)
        self._idle: list[Any] = []
        self._busy: dict[Future[Any], Any] = {}

    def _room(self) -> int:
        return self._count

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:
        self._gather()
        executor = self._idle.pop() if self._idle else self._start()
        future: Future[Any] = executor.submit(function, argument)
        self._busy[future] = executor
        return future

    def is_loss(self, error: BaseException) -> bool:
        return isinstance(error, BrokenProcessPool)

    def close(self, *, at_once: bool) -> None:
        for executor in (*self._idle, *self._busy.values()):
            executor.shutdown(wait=True, kill_workers=at_once)
        self._idle, self._busy = [], {}

    def _start(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        return ProcessPoolExecutor(max_workers=1, initializer=_stay_while_wanted, initargs=(os.getpid(),))

    def _gather(self) -> None:
        for future in [future for future in self._busy if future.done()]:
            executor = self._busy.pop(future)
            if isinstance(future.exception(), BrokenProcessPool):
                executor.shutdown(wait=False, kill_workers=True)
            else:
                self._idle.append(executor)


def _stay_while_wanted(parent: int) -> None:
    """Ignore Ctrl-C in a new process, and end it with its parent, even if that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True, name="parent").start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)


class DaskPool(Pool):
    """A dask cluster, whose scheduler is at ``address`` (host:port); a slot is a thread of a worker.

    The workers need this package, and nothing of the sweep's. The scheduler sends a lost worker's task
    elsewhere until it has cost ``distributed.scheduler.allowed-failures`` workers, so no task is sent again
    from here.
    """

    def __init__(self, address: str, jobs: int | None, cancelled: Cancelled) -> None:
        super().__init__(jobs)
        try:
            import distributed
        except ModuleNotFoundError:
            raise EngineUnavailableError(
                "the engine dask:// needs dask and distributed, which are not installed",
                hint="pip install 'checkmate-explorer[dask]', or leave the engine out",
            ) from None
        self._address, self._threads, self._ask_again = address, 0, 0.0
        self._killed, self._futures = distributed.scheduler.KilledWorker, set[Any]()
        self._levels = {name: logging.getLogger(name).level for name in _LOUD}
        for name in _LOUD:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            self._client = distributed.Client(f"tcp://{address}", timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            self._be_loud_again()
            raise EngineUnavailableError(
                f"no dask scheduler answers at {address}", hint="start one with: dask scheduler"
            ) from error
        try:
            self._wait_for_workers(cancelled)
        except BaseException:
            self.close(at_once=False)
            raise

    def _room(self) -> int:
        self.require_open()
        if time.monotonic() > self._ask_again:
            self._ask_again = time.monotonic() + _ASK_S
            # If this fails, the client's status tells whether the connection is lost for good.
            with suppress(TimeoutError, OSError, RuntimeError):
                self._threads = sum(self._client.ncores().values())
        return self._threads

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Any:
        self._futures = {future for future in self._futures if not future.done()}
        try:
            future = self._client.submit(function, argument, pure=False)
        except RuntimeError:  # the client has been closed
            self.require_open()
            raise
        self._futures.add(future)
        return future

    def is_loss(self, error: BaseException) -> bool:
        return isinstance(error, self._killed)

    def close(self, *, at_once: bool) -> None:
        # A solve that runs on a worker ends by its own time limit; its result is ignored.
        if at_once and self._client.status == "running":
            self._client.cancel(list(self._futures), force=True)
        self._client.close()
        self._be_loud_again()

    def _be_loud_again(self) -> None:
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)

    def require_open(self) -> None:
        if self._client.status != "running":
            raise EngineUnavailableError(
                f"the connection to the dask scheduler at {self._address} was lost",
                hint="start the cluster, then the same command again: what is in the journal is not "
                "solved again",
            )

    def _wait_for_workers(self, cancelled: Cancelled) -> None:
        pause, waited = threading.Event(), 0.0
        while self._room() == 0:
            stop_if(cancelled)
            if waited > _WORKERS_S:
                raise EngineUnavailableError(
                    f"the dask scheduler at {self._address} has no workers",
                    hint=f"start some with: dask worker tcp://{self._address}",
                )
            pause.wait(_POLL_S)
            waited += _POLL_S
