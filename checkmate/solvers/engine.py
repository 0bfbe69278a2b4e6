"""Solvers whose library needs a process of its own: ortools and highspy cannot be in one process."""

from __future__ import annotations

import pickle
import queue
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from checkmate.processes.conversation import Conversation
from checkmate.processes.messages import CarriesSteps, JobFailed, Message, MessageTable
from checkmate.processes.serve import Server
from checkmate.progress import Cancelled

_POLL_S = 0.01


class EngineTask(Message):
    """What is to be solved. Pickled between two processes of this program on one machine; files never are."""

    task: bytes


class EngineReady(Message):
    """The library is loaded."""


class EngineBound(Message):
    """No solution costs less, in the task's unit."""

    bound: float


class EngineSteps(CarriesSteps, Message):
    """A better schedule."""

    steps: bytes


class EngineDone(Message):
    """How it ended. ``ones``: the columns that are 1 in the best solution; None: there is none."""

    status: str
    bound: float
    ones: tuple[int, ...] | None = None


ENGINE_MESSAGES = MessageTable.of(sys.modules[__name__])


class EngineServer(Server):
    """Solves one task after the other; the parent kills this process to stop it."""

    table = ENGINE_MESSAGES
    nicer = 0

    def work(self, asked: Message) -> Message | None:
        if not isinstance(asked, EngineTask):
            return None
        try:
            return self.solve(pickle.loads(asked.task))
        except Exception as error:  # the edge of this process
            return JobFailed(0, type(error).__name__, f"{type(error).__name__}: {str(error)[:300]}", "")

    @abstractmethod
    def solve(self, task: Any) -> EngineDone:
        """Solve the task; send what is found meanwhile."""


def answers(
    talk: Conversation, task: Any, *, loading_s: float, seconds: float, cancelled: Cancelled
) -> Iterator[Message | None]:
    """Give a task to an engine; yield what it says until it is done, failed, late or cancelled.

    None: the process has ended, or said what cannot be read. ``seconds``: from when it is ready.
    """
    talk.send(EngineTask(pickle.dumps(task)))
    until = time.perf_counter() + loading_s
    while time.perf_counter() < until and not cancelled():
        try:
            message = talk.receive(_POLL_S)
        except queue.Empty:
            continue
        if isinstance(message, EngineReady):
            until = time.perf_counter() + seconds
        yield message
        if message is None or isinstance(message, EngineDone | JobFailed):
            return
