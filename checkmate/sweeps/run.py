from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import checkmate
from checkmate.errors import FormatError
from checkmate.progress import Cancelled, Progress, Report, never, silent
from checkmate.sweeps.engine import Pool
from checkmate.sweeps.journal import Data, Journal

_POLL_S = 0.02
_ERROR = "error"  # the only field of an answer that is an error


class Task(ABC):
    """One independent piece of a sweep. It travels to a worker by pickle."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """All that the answer depends on, as JSON-able data."""

    @abstractmethod
    def work(self) -> Data:
        """Return the answer as JSON-able data; called on a worker."""

    @abstractmethod
    def wrong(self, data: Data) -> str:
        """Say what is wrong with an answer from a worker or a journal; "" if nothing."""

    @property
    def key(self) -> str:
        """Equal keys, which include this program's version, mean equal tasks."""
        text = json.dumps({"checkmate": checkmate.__version__, **self.facts}, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(eq=False)
class SweepResult:
    """The answers of a sweep, and why there are none (``failures``), by the tasks' keys.

    ``reused``: answers from the journal. ``at_once``: the most tasks that were out at a time. ``lost``:
    workers lost.
    """

    answers: dict[str, Data] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    reused: int = 0
    at_once: int = 0
    lost: int = 0
    cancelled: bool = False


def run(
    tasks: Sequence[Task],
    pool: Pool,
    *,
    journal: Journal | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> SweepResult:
    """Run every task that is not in the journal, and a lost worker's task again.

    Equal tasks run once. Cancelling (also Ctrl-C) ends the sweep within a poll, and the pool with it: what
    was finished is in the answers and the journal.

    Raises:
        FormatError: an answer in the journal does not hold, or the journal cannot be written.
        EngineUnavailableError: the cluster was lost.
    """
    sweep = _TaskSweep(tasks, pool, journal, report, cancelled)
    try:
        sweep.resume()
        sweep.work()
    except KeyboardInterrupt:
        sweep.swept.cancelled = True
    if sweep.swept.cancelled:
        pool.close(at_once=True)
    return sweep.swept


def work(sent: tuple[str, Task]) -> Data:
    """Return a task's answer. An error becomes one, because not every error can be sent back."""
    version, task = sent
    if version != checkmate.__version__:
        return {_ERROR: f"the worker has checkmate {checkmate.__version__}, the sweep {version}"}
    try:
        return task.work()
    except Exception as error:  # the process's edge
        return {_ERROR: f"{type(error).__name__}: {error}"}


class _TaskSweep:
    def __init__(
        self, tasks: Sequence[Task], pool: Pool, journal: Journal | None, report: Report, cancelled: Cancelled
    ) -> None:
        self._tasks = {task.key: task for task in tasks}
        self._pool, self._journal, self._report, self._cancelled = pool, journal, report, cancelled
        self._waiting: deque[str] = deque()
        self._out: dict[str, Future[Data]] = {}
        self._losses: dict[str, int] = {}
        self.swept = SweepResult()

    def resume(self) -> None:
        for key, task in self._tasks.items():
            known = None if self._journal is None else self._journal.get(key)
            if known is None:
                self._waiting.append(key)
                continue
            wrong = task.wrong(known)
            if wrong:
                raise FormatError(
                    f"the journal's answer for {task.name} is wrong: {wrong}",
                    hint="remove the journal, or that line",
                )
            self.swept.answers[key] = known
            self.swept.reused += 1

    def work(self) -> None:
        if self._waiting:
            self._say("start" if not self.swept.reused else f"{self.swept.reused} from the journal")
        while self._waiting or self._out:
            if self._cancelled():
                self.swept.cancelled = True
                return
            self._send()
            ended = [key for key, result in self._out.items() if result.done()]
            for key in ended:
                self._collect(key, self._out.pop(key))
            if not ended:
                time.sleep(_POLL_S)

    def _send(self) -> None:
        while self._waiting and len(self._out) < self._pool.slots():
            key = self._waiting.popleft()
            self._out[key] = self._pool.submit(work, (checkmate.__version__, self._tasks[key]))
            self.swept.at_once = max(self.swept.at_once, len(self._out))

    def _collect(self, key: str, result: Future[Data]) -> None:
        task = self._tasks[key]
        try:
            data: Data = result.result()
        except Exception as error:
            if self._pool.is_loss(error):
                self._lose(task)
            else:
                self._pool.require_open()
                self._fail(task, f"{type(error).__name__}: {error}")
            return
        wrong = str(data[_ERROR]) if set(data) == {_ERROR} else task.wrong(data)
        if wrong:
            self._fail(task, wrong)
            return
        if self._journal is not None:
            self._journal.add(key, task.name, data)
        self.swept.answers[key] = data
        self._say(task.name)

    def _lose(self, task: Task) -> None:
        self.swept.lost += 1
        losses = self._losses[task.key] = self._losses.get(task.key, 0) + 1
        if losses > self._pool.retries:
            times = f" {losses} times" * (losses > 1)
            self._fail(task, f"its worker was lost{times}, perhaps because memory ran out")
            return
        self._waiting.appendleft(task.key)
        self._say(f"{task.name}: its worker was lost; trying again")

    def _fail(self, task: Task, why: str) -> None:
        self.swept.failures[task.key] = why
        self._say(f"{task.name}: {why}")

    def _say(self, what: str) -> None:
        done = len(self.swept.answers) + len(self.swept.failures)
        self._report(Progress("sweep", done, len(self._tasks), f"{what} ({done} of {len(self._tasks)})"))
