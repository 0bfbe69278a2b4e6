"""Run tasks in processes of this machine, by joblib's executor (loky).

Each process has its own executor, so that a lost process is known by its task.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any

_LOOK_S = 0.5


class ProcessPool:
    """Run tasks on ``count`` processes, each started when first needed.

    By default there are as many as leave each its ``workers`` cores.
    """

    retries = 2

    def __init__(self, count: int | None, workers: int) -> None:
        from joblib import cpu_count

        self._count: int = count or max(1, cpu_count() // workers)
        self._idle: list[Any] = []
        self._busy: dict[Future[Any], Any] = {}

    def slots(self) -> int:
        return self._count

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:
        self._gather()
        executor = self._idle.pop() if self._idle else self._start()
        future: Future[Any] = executor.submit(function, argument)
        self._busy[future] = executor
        return future

    def is_loss(self, error: BaseException) -> bool:
        return isinstance(error, BrokenProcessPool)

    def require_open(self) -> None:
        """Do nothing: processes are started again as needed."""

    def close(self, *, at_once: bool) -> None:
        for executor in (*self._idle, *self._busy.values()):
            executor.shutdown(wait=True, kill_workers=at_once)
        self._idle, self._busy = [], {}

    def _start(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        return ProcessPoolExecutor(max_workers=1, initializer=_stay_while_wanted, initargs=(os.getpid(),))

    def _gather(self) -> None:
        """Return finished processes to the idle ones; drop lost ones."""
        for future in [future for future in self._busy if future.done()]:
            executor = self._busy.pop(future)
            if isinstance(future.exception(), BrokenProcessPool):
                executor.shutdown(wait=False, kill_workers=True)
            else:
                self._idle.append(executor)


def _stay_while_wanted(parent: int) -> None:
    """Ignore Ctrl-C in a new process, and end it with its parent.

    The process also ends where the parent was killed and could tell nobody.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True, name="parent").start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)
