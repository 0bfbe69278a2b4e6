"""The path-cut prover in a process of its own.

It can be stopped at any moment, and stays warm between budgets. HiGHS cannot always be interrupted at once
(presolve runs to its end), and building its programs is Python, which would slow the search beside it. So the
prover runs in a child (``checkmate.solvers.pathcut.child``). A job that is not wanted any more is told to
stop, and the child is killed if it does not.
"""

from __future__ import annotations

import pickle
import queue
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from checkmate.errors import CheckmateError, WorkerDiedError
from checkmate.ipc.messages import Cancel, Message, MessageTable
from checkmate.ipc.steps import pack_steps, unpack_ops
from checkmate.ir.arrays import Steps
from checkmate.ir.graph import Graph
from checkmate.machine.own_modules import beyond_ctrl_c, module_command
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

_PATIENCE_S = 0.5  # for a child to leave an old job once there is a new one
_SILENT_S = 10.0  # beyond a job's time, after which its end is taken for lost


@dataclass(frozen=True)
class ProverState:
    """How far the current job is.

    ``bound``: in the graph's cost unit, infinite if no schedule exists; ``over``: whether the job has ended.
    """

    bound: float
    cuts: int
    programs: int
    over: bool


class BackgroundProver(ABC):
    """A prover that works beside its caller, for one graph.

    It works on one budget at a time. Close it, or use it in a ``with``.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._schedules: deque[Steps] = deque(maxlen=8)

    @cached_property
    def reach(self) -> Reach:
        """Return the transitive closure of the graph's dependencies. It is computed once."""
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
        """Begin to prove for ``budget_bytes``; a job for another budget ends.

        ``rounds``: the most programs to solve. Asked again for a budget, it goes on where it was.
        """

    @abstractmethod
    def offer(self, steps: Steps) -> None:
        """Give the current job a schedule within its budget."""

    @abstractmethod
    def stop(self) -> None:
        """End the current job; what it finds from now on is ignored."""

    @abstractmethod
    def state(self) -> ProverState:
        """Return how far the current job is; raise what the prover failed with."""

    def note_schedule(self, steps: Steps) -> None:
        """Keep a schedule for ``take_schedules``."""
        self._schedules.append(steps)

    def take_schedules(self) -> list[Steps]:
        """Return the schedules that solved programs described since the last call.

        They may not fit the budget.
        """
        found: list[Steps] = []
        while self._schedules:
            found.append(self._schedules.popleft())
        return found

    def has_schedules(self) -> bool:
        """Return whether ``take_schedules`` would return any."""
        return bool(self._schedules)

    @abstractmethod
    def close(self) -> None:
        """End the prover for good."""


class ProverProcess(BackgroundProver):
    """A prover in a child process, which stays between budgets."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._job = 0
        self._busy_with = 0  # the last job that the child has not ended; 0: idle
        self._asked = 0.0
        self._task: Prove | None = None
        self._state = ProverState(graph.base_cost, 0, 0, over=True)
        self._failure: CheckmateError | None = None
        self._outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()

    def prove(
        self, budget_bytes: int, *, seconds: float, rounds: int | None = None, workers: int = 1
    ) -> None:
        """Begin to prove for ``budget_bytes``; a job for another budget ends.

        ``rounds``: the most programs to solve. Asked again for a budget, the child goes on where it was.
        """
        with self._lock:
            self._job += 1
            self._failure = None  # the failure of an earlier job
            self._state = ProverState(self.graph.base_cost, 0, 0, over=False)
            self._schedules.clear()
            task = self._task = Prove(self._job, budget_bytes, seconds, rounds, workers)
            self._asked = time.monotonic()
        if self._child is None:
            self._start()
        self._outbox.put(task)

    def start(self) -> None:
        """Start the child now, so that it is warm when it is asked."""
        if self._child is None:
            self._start()

    def offer(self, steps: Steps) -> None:
        """Give the current job a schedule within its budget."""
        if self._child is not None:
            self._outbox.put(FittingSchedule(self._job, pack_steps(steps)))

    def stop(self) -> None:
        """End the current job; what it finds from now on is ignored."""
        with self._lock:
            self._job += 1
            self._state = ProverState(self._state.bound, self._state.cuts, self._state.programs, over=True)
        if self._child is not None:
            self._outbox.put(Cancel(self._job - 1))

    def state(self) -> ProverState:
        """Return how far the current job is.

        Raises:
            WorkerDiedError: the child died, or the prover ended with an error.
        """
        self._replace_if_stuck()
        self._end_if_overdue()
        with self._lock:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            return self._state

    def take_schedules(self) -> list[Steps]:
        """Return the schedules of the current job that are new."""
        with self._lock:
            return super().take_schedules()

    def close(self) -> None:
        """Kill the child; nothing runs any more."""
        self.stop()
        child, self._child = self._child, None
        if child is not None:
            self._outbox.put(None)
            child.kill()
            child.wait()

    def _start(self) -> None:
        """Start a child, a thread that listens to it and one that writes to it."""
        with beyond_ctrl_c():
            child = subprocess.Popen(
                module_command("checkmate.solvers.pathcut.child"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        self._child, self._busy_with = child, 0
        outbox = self._outbox = queue.SimpleQueue[Message | None]()
        threading.Thread(target=self._listen, args=(child, outbox), daemon=True, name="prover").start()
        # A child that is still starting reads nothing, so its writer waits. That must not be the search.
        threading.Thread(
            target=feed_child,
            args=(child, PROVER_MESSAGES, self.graph, outbox),
            daemon=True,
            name="to prover",
        ).start()

    def _listen(self, child: subprocess.Popen[bytes], outbox: queue.SimpleQueue[Message | None]) -> None:
        assert child.stdout is not None
        try:
            for message in PROVER_MESSAGES.read_all(child.stdout):
                self._take_message(message)
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

    def _take_message(self, message: Message) -> None:
        with self._lock:
            match message:
                case ProofBegun(job=job):
                    self._busy_with = job
                case ProvedBound(job=job) if job == self._job:
                    self._take_bound(message)
                case DescribedSchedule(job=job, steps=steps) if job == self._job:
                    self._schedules.append(unpack_ops(steps, self.graph.n))
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

    def _end_if_overdue(self) -> None:
        """End the job, and the child, if its time has long passed."""
        task = self._task
        if task is None or self._state.over or time.monotonic() - self._asked < task.seconds + _SILENT_S:
            return
        self.close()


def feed_child(
    child: subprocess.Popen[bytes],
    table: MessageTable,
    graph: Graph,
    outbox: queue.SimpleQueue[Message | None],
) -> None:
    """Send the graph, then all that is put into the outbox.

    It ends when None comes, or when the child is gone.
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
        return  # the thread that listens notices that it ended
