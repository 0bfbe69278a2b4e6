"""The path-cut prover in a process, which stays warm between budgets.

HiGHS cannot always be interrupted at once (presolve runs to its end), and building its programs is Python,
which would slow the search beside it. So the prover runs in ``checkmate.solvers.pathcut.child``. A job that
is not wanted any more is told to stop, and the child is killed if it does not.

``job`` in the messages: the number of a budget's proof.
"""

from __future__ import annotations

import pickle
import queue
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from checkmate.errors import CheckmateError, WorkerDiedError
from checkmate.ir import Graph
from checkmate.ir.arrays import Steps
from checkmate.processes.conversation import Conversation
from checkmate.processes.messages import (
    Cancel,
    CarriesSteps,
    Message,
    MessageError,
    MessageTable,
    NewestJob,
    pack_steps,
    unpack_ops,
)
from checkmate.solvers.pathcut.cuts import Reach


class PickledGraph(Message):
    """The graph of all that follows, pickled for this program on one machine only; files never are."""

    graph: bytes


class Prove(NewestJob):
    """Prove a bound for a budget."""

    budget_bytes: int
    seconds: float
    workers: int


class FittingSchedule(CarriesSteps, Message):
    """A schedule within the job's budget."""

    job: int
    steps: bytes


class ProofBegun(Message):
    """The process works on this job now."""

    job: int


class ProvedBound(Message):
    """A bound on the cost, infinite where no schedule exists. ``cuts``, ``programs``: so far."""

    job: int
    bound: float
    cuts: int
    programs: int


class DescribedSchedule(CarriesSteps, Message):
    """A schedule that a solved program describes; it may not fit the budget."""

    job: int
    steps: bytes


class ProofEnded(Message):
    """The process has left this job; ``error``: a sentence, or empty."""

    job: int
    error: str


PROVER_MESSAGES = MessageTable.of(sys.modules[__name__])


_PATIENCE_S = 0.5  # for a child to leave an old job once there is a new one
_SILENT_S = 10.0  # beyond a job's time, after which its end is taken for lost


@dataclass(frozen=True)
class ProverState:
    """How far the current job is. ``bound``: a cost, infinite if no schedule exists; ``over``: it ended."""

    bound: float
    cuts: int
    programs: int
    over: bool


class BackgroundProver(ABC):
    """A prover for one graph that works on one budget at a time. Close it, or use it in a ``with``."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.schedules: deque[Steps] = deque(maxlen=8)

    @cached_property
    def reach(self) -> Reach:
        return Reach.of(self.graph)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @abstractmethod
    def start(self) -> None:
        """Start in the background, so that the first proof does not wait for it."""

    @abstractmethod
    def prove(self, budget_bytes: int, *, seconds: float, workers: int = 1) -> None:
        """Prove a bound. A job for another budget ends; one for this budget is continued."""

    @abstractmethod
    def offer(self, steps: Steps) -> None:
        """Give the current job a schedule within its budget."""

    @abstractmethod
    def stop(self) -> None:
        """End the current job; what it finds from now on is ignored."""

    @abstractmethod
    def state(self) -> ProverState:
        """How far the current job is; raises what the prover failed with."""

    def take_schedules(self) -> list[Steps]:
        """Take the schedules that solved programs described. They may not fit the budget."""
        found: list[Steps] = []
        while self.schedules:
            found.append(self.schedules.popleft())
        return found

    def has_schedules(self) -> bool:
        return bool(self.schedules)

    def close(self) -> None:
        self.stop()


class ProverProcess(BackgroundProver):
    """A prover in a child process, which stays between budgets. One thread at a time may use it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._talk: Conversation | None = None
        self._job = 0
        self._busy_with = 0  # the last job that the child has not ended; 0: idle
        self._asked = 0.0
        self._task: Prove | None = None
        self._state = ProverState(graph.base_cost, 0, 0, over=True)
        self._failure: CheckmateError | None = None

    def prove(self, budget_bytes: int, *, seconds: float, workers: int = 1) -> None:
        self._hear()
        self._job += 1
        self._failure = None  # the failure of an earlier job
        self._state = ProverState(self.graph.base_cost, 0, 0, over=False)
        self.schedules.clear()
        self._task = Prove(self._job, budget_bytes, seconds, workers)
        self._asked = time.monotonic()
        self._started().send(self._task)

    def start(self) -> None:
        self._started()

    def offer(self, steps: Steps) -> None:
        if self._talk is not None:
            self._talk.send(FittingSchedule(self._job, pack_steps(steps)))

    def stop(self) -> None:
        self._job += 1
        self._state = replace(self._state, over=True)
        if self._talk is not None:
            self._talk.send(Cancel(self._job - 1))

    def state(self) -> ProverState:
        self._hear()
        self._replace_if_stuck()
        self._end_if_overdue()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self._state

    def take_schedules(self) -> list[Steps]:
        self._hear()
        return super().take_schedules()

    def has_schedules(self) -> bool:
        self._hear()
        return super().has_schedules()

    def close(self) -> None:
        self.stop()
        talk, self._talk = self._talk, None
        if talk is not None:
            talk.close()

    def _started(self) -> Conversation:
        if self._talk is None:
            self._talk, self._busy_with = Conversation("checkmate.solvers.pathcut.child", PROVER_MESSAGES), 0
            self._talk.send(PickledGraph(pickle.dumps(self.graph)))
        return self._talk

    def _hear(self) -> None:
        while self._talk is not None:
            try:
                message = self._talk.receive(0.0)
            except queue.Empty:
                return
            if message is not None:
                self._take_message(message)
                continue
            self._talk = None
            self._state = replace(self._state, over=True)
            self._failure = WorkerDiedError(
                "the prover's process ended", hint="solve again; a smaller graph or more memory may help"
            )

    def _take_message(self, message: Message) -> None:
        match message:
            case ProofBegun(job=job):
                self._busy_with = job
            case ProvedBound(job=job) if job == self._job:
                bound, over = max(self._state.bound, message.bound), self._state.over
                self._state = ProverState(bound, message.cuts, message.programs, over)
            case DescribedSchedule(job=job, steps=steps) if job == self._job:
                self._take_schedule(steps)
            case ProofEnded():
                self._busy_with = 0
                if message.job == self._job:
                    self._state = replace(self._state, over=True)
                    self._failure = WorkerDiedError(message.error) if message.error else None

    def _take_schedule(self, steps: bytes) -> None:
        try:
            self.schedules.append(unpack_ops(steps, self.graph.n))
        except MessageError:  # the child sent no valid schedule, so nothing it sends is trusted any more
            if self._talk is not None:
                self._talk.close()

    def _replace_if_stuck(self) -> None:
        stuck = self._busy_with and self._busy_with != self._job and not self._state.over
        if stuck and self._task is not None and time.monotonic() - self._asked > _PATIENCE_S:
            if self._talk is not None:
                self._talk.close()
            self._talk = None
            self._started().send(self._task)

    def _end_if_overdue(self) -> None:
        task = self._task
        if task is None or self._state.over or time.monotonic() - self._asked < task.seconds + _SILENT_S:
            return
        self.close()
