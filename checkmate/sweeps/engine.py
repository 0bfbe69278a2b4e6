"""Open the engine on which a sweep's solves run.

The user writes ``processes``, ``processes:4`` or ``dask://host:port``. Every engine
takes one task at a time per worker and gives a future for it, so that a lost worker costs its own task and no
other. joblib's ``Parallel`` ends as a whole where one worker dies, and its dask backend is never told of a
task that the cluster has given up. So this uses joblib's executor (loky) and the clusters' own clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from checkmate.progress import Cancelled, never

KINDS = ("processes", "dask")


@dataclass(frozen=True)
class Engine:
    """Name an engine.

    ``kind``: one of ``KINDS``. ``address``: host:port of a cluster's scheduler. ``count``: processes;
    None: one per core.
    """

    kind: str = "processes"
    address: str = ""
    count: int | None = None

    def __str__(self) -> str:
        if self.address:
            return f"{self.kind}://{self.address}"
        return self.kind if self.count is None else f"{self.kind}:{self.count}"


def parse_engine(text: str) -> Engine:
    """Return the engine that ``text`` names.

    Raises:
        ValueError: it names none; the message says what to write.
    """
    said = text.strip()
    kind, colon, rest = said.partition(":")
    if kind == "processes" and not colon:
        return Engine()
    if kind == "processes" and rest.isascii() and rest.isdigit() and int(rest) > 0:
        return Engine(count=int(rest))
    host, _, port = rest.removeprefix("//").rpartition(":")
    if kind in KINDS[1:] and rest.startswith("//") and _is_host(host) and _is_port(port):
        return Engine(kind, f"{host}:{port}")
    raise ValueError(f"{text!r} is not an engine; write processes, processes:4 or dask://host:8786")


def _is_host(text: str) -> bool:
    return bool(text) and not any(letter.isspace() or letter in "/?#@" for letter in text)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 2**16


class Result(Protocol):
    """Stand for a value that is being computed elsewhere. It is a part of ``concurrent.futures.Future``."""

    def done(self) -> bool:
        """Return whether there is a result or an error."""

    def result(self) -> Any:
        """Return the result, or raise the error."""


class Pool(Protocol):
    """Run tasks on an open engine.

    ``retries``: how often a sweep may send a task again whose worker was lost.
    """

    retries: int

    def slots(self) -> int:
        """Return how many tasks run at once now; workers come and go."""

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Result:
        """Start ``function(argument)`` on a free slot. Both travel by pickle, the function by its name."""

    def is_loss(self, error: BaseException) -> bool:
        """Return whether ``error`` says that the task's worker was lost. Otherwise the task itself failed."""

    def require_open(self) -> None:
        """Raise EngineUnavailableError where the engine as a whole is gone."""

    def close(self, *, at_once: bool) -> None:
        """Give the workers back. ``at_once``: do not wait for what still runs."""


@contextmanager
def open_pool(
    engine: Engine, *, jobs: int | None = None, workers: int = 1, cancelled: Cancelled = never
) -> Iterator[Pool]:
    """Yield the engine, ready for tasks.

    ``jobs``: most tasks at once. ``workers``: cores that each task uses.

    Raises:
        EngineUnavailableError: its library is not installed, or nothing answers at its address.
        CancelledError: the user cancelled while waiting for it.
    """
    pool = _opened(engine, jobs, workers, cancelled)
    try:
        yield pool if jobs is None else _AtMost(pool, jobs)
    except BaseException:
        pool.close(at_once=True)
        raise
    pool.close(at_once=False)


def _opened(engine: Engine, jobs: int | None, workers: int, cancelled: Cancelled) -> Pool:
    if engine.kind == "dask":
        from checkmate.sweeps.dask_pool import DaskPool

        return DaskPool(engine.address, cancelled)
    from checkmate.sweeps.process_pool import ProcessPool

    return ProcessPool(engine.count or jobs, workers)


class _AtMost:
    """Use at most ``jobs`` slots of another pool."""

    def __init__(self, pool: Pool, jobs: int) -> None:
        self._pool, self._jobs = pool, jobs
        self.retries = pool.retries
        self.submit, self.is_loss = pool.submit, pool.is_loss
        self.require_open, self.close = pool.require_open, pool.close

    def slots(self) -> int:
        return min(self._jobs, self._pool.slots())
