"""The path-cut prover in a process of its own: it can be stopped at any instant, and stays warm between budgets.

HiGHS cannot always be interrupted at once (presolve runs to its end), and building its programs is Python, which would hold
up the search beside it. So the prover runs in a child (``checkmate.solvers.pathcut.child``); a job that is not wanted any more is
told to stop, and the child is killed where it does not.
"""

from __future__ import annotations

import pickle
import queue
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import CheckmateError, WorkerDiedError
from checkmate.ipc.messages import Cancel, Message, MessageTable
from checkmate.ir.graph import Graph
from checkmate.solvers.pathcut.cuts import Reach
from checkmate.solvers.pathcut.messages import (
    PROVER_MESSAGES,
    DescribedSchedule,
    FittingSchedule,
    PickledGraph,
    ProofBegun,
    ProofEnded,
    Prove,
    ProvedBound,
)

Steps = NDArray[np.int32]

_PATIENCE_S = 0.5  # for a child to leave a job that is not wanted any more, once there is a new one


@dataclass(frozen=True)
class ProverState:
    """Where the current job is. ``bound``: in the graph's cost unit, infinite where no schedule exists; ``over``: it ended."""

    bound: float
    cuts: int
    programs: int
    over: bool


class BackgroundProver(ABC):
    """A prover that works beside its caller, for one graph, one budget at a time. Close it, or use it in a ``with``."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @cached_property
    def reach(self) -> Reach:
        """The graph's dependencies, closed; computed once."""
        return Reach.of(self.graph)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @abstractmethod
    def start(self) -> None:
        """Get ready, so that it is warm when it is asked."""

    @abstractmethod
    def prove(
        self, budget_bytes: int, *, seconds: float, rounds: int | None = None, workers: int = 1
    ) -> None:
        """Begin to prove for ``budget_bytes``; what was being proved for another budget is given up.

        ``rounds``: programs to solve at most. Asked again for a budget, it goes on where it was.
        """

    @abstractmethod
    def know(self, steps: Steps) -> None:
        """Tell the current job of a schedule within its budget."""

    @abstractmethod
    def stop(self) -> None:
        """Give the current job up; what it finds from now on is not heard."""

    @abstractmethod
    def state(self) -> ProverState:
        """Where the current job is; raises what the prover failed with."""

    @abstractmethod
    def take_described(self) -> list[Steps]:
        """Schedules that solved programs describe, since the last call; they may not fit the budget."""

    @abstractmethod
    def has_described(self) -> bool:
        """Whether ``take_described`` would return any."""

    @abstractmethod
    def close(self) -> None:
        """End it for good."""


class ProverProcess(BackgroundProver):
    """In a child process, which stays between budgets."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._job = 0
        self._busy_with = 0  # the last job the child has not said to be over; 0: idle
        self._asked = 0.0
        self._task: Prove | None = None
        self._state = ProverState(graph.base_cost, 0, 0, over=True)
        self._described: deque[Steps] = deque(maxlen=8)
        self._failure: CheckmateError | None = None
        self._outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()

    def prove(
        self, budget_bytes: int, *, seconds: float, rounds: int | None = None, workers: int = 1
    ) -> None:
        """Begin to prove for ``budget_bytes``; what was being proved for another budget is given up.

        ``rounds``: programs to solve at most. Asked again for a budget, the child goes on where it was.
        """
        with self._lock:
            self._job += 1
            self._failure = None  # of a job before
            self._state = ProverState(self.graph.base_cost, 0, 0, over=False)
            self._described.clear()
            task = self._task = Prove(self._job, budget_bytes, seconds, rounds, workers)
            self._asked = time.monotonic()
        if self._child is None:
            self._start()
        self._outbox.put(task)

    def start(self) -> None:
        """Start the child now, so that it is warm when it is asked."""
        if self._child is None:
            self._start()

    def know(self, steps: Steps) -> None:
        """Tell the current job of a schedule within its budget."""
        if self._child is not None:
            self._outbox.put(FittingSchedule(self._job, np.ascontiguousarray(steps, np.int32).tobytes()))

    def stop(self) -> None:
        """Give the current job up; what it finds from now on is not heard."""
        with self._lock:
            self._job += 1
            self._state = ProverState(self._state.bound, self._state.cuts, self._state.programs, over=True)
        if self._child is not None:
            self._outbox.put(Cancel(self._job - 1))

    def state(self) -> ProverState:
        """Where the current job is.

        Raises:
            WorkerDiedError: the child died. Any error that the prover ended with.
        """
        self._replace_if_stuck()
        with self._lock:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            return self._state

    def take_described(self) -> list[Steps]:
        """Schedules that solved programs describe, since the last call; they may not fit the budget."""
        found: list[Steps] = []
        with self._lock:
            while self._described:
                found.append(self._described.popleft())
        return found

    def has_described(self) -> bool:
        """Whether ``take_described`` would return any."""
        return bool(self._described)

    def close(self) -> None:
        """Kill the child; nothing is under way any more."""
        self.stop()
        child, self._child = self._child, None
        if child is not None:
            self._outbox.put(None)
            child.kill()
            child.wait()

    def _start(self) -> None:
        child = subprocess.Popen(
            [sys.executable, "-m", "checkmate.solvers.pathcut.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._child, self._busy_with = child, 0
        outbox = self._outbox = queue.SimpleQueue[Message | None]()
        threading.Thread(target=self._listen, args=(child, outbox), daemon=True, name="prover").start()
        # A child that is still starting reads nothing, so whoever writes to it waits: not the search.
        threading.Thread(
            target=feed_child,
            args=(child, PROVER_MESSAGES, self.graph, outbox),
            daemon=True,
            name="to prover",
        ).start()

    def _listen(self, child: subprocess.Popen[bytes], outbox: queue.SimpleQueue[Message | None]) -> None:
        reader, stream = PROVER_MESSAGES.reader(), child.stdout
        assert stream is not None
        try:
            with stream:
                while data := stream.read(2**16):
                    for message in reader.feed(data):
                        self._hear(message)
        except (OSError, ValueError, CheckmateError):
            pass
        outbox.put(None)
        child.kill()
        child.wait()
        with self._lock:
            if self._child is child:
                self._child = None
                self._state = replace(self._state, over=True)
                self._failure = WorkerDiedError(
                    "the prover's process ended", hint="solve again; a smaller graph or more memory may help"
                )

    def _hear(self, message: Message) -> None:
        with self._lock:
            match message:
                case ProofBegun(job=job):
                    self._busy_with = job
                case ProvedBound(job=job) if job == self._job:
                    self._take_bound(message)
                case DescribedSchedule(job=job, steps=steps) if job == self._job:
                    self._described.append(np.frombuffer(steps, np.int32))
                case ProofEnded():
                    self._busy_with = 0
                    if message.job == self._job:
                        self._take_end(message)

    def _take_bound(self, proved: ProvedBound) -> None:
        old = self._state
        self._state = ProverState(max(old.bound, proved.bound), proved.cuts, proved.programs, old.over)

    def _take_end(self, ended: ProofEnded) -> None:
        self._state = ProverState(self._state.bound, ended.cuts, ended.programs, over=True)
        if ended.error:
            self._failure = WorkerDiedError(ended.error)

    def _replace_if_stuck(self) -> None:
        """Kill a child that does not leave an old job, and ask a new one."""
        stuck = self._busy_with and self._busy_with != self._job and not self._state.over
        if stuck and self._task is not None and time.monotonic() - self._asked > _PATIENCE_S:
            self.close()
            self._start()
            self._outbox.put(self._task)


def feed_child(
    child: subprocess.Popen[bytes],
    table: MessageTable,
    graph: Graph,
    outbox: queue.SimpleQueue[Message | None],
) -> None:
    """Send the graph, then whatever is put into the outbox.

    Ends when None comes, or when the child is gone.
    """
    assert child.stdin is not None
    message: Message | None = PickledGraph(pickle.dumps(graph))
    try:
        with child.stdin as stream:
            while message is not None:
                view = memoryview(table.encode(message))
                while view:
                    view = view[stream.write(view) :]
                message = outbox.get()
    except (OSError, ValueError):
        return  # the listener hears of its death
