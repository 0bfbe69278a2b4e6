from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from checkmate.errors import EngineUnavailableError
from checkmate.progress import Cancelled, stop_if
from checkmate.sweeps.engine import Pool

_LOUD = ("distributed.client", "distributed.batched", "distributed.comm")  # tracebacks of what is said here
_CONNECT_S, _WORKERS_S, _POLL_S, _ASK_S = 10, 30.0, 0.1, 0.5


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
                hint="pip install 'checkmate-explorer[dask]', or leave --engine out",
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
            self._threads = self._ask()
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

    def _ask(self) -> int:
        try:
            return sum(self._client.ncores().values())
        except (TimeoutError, OSError, RuntimeError):
            return self._threads  # the client's status tells whether the connection is lost for good

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
