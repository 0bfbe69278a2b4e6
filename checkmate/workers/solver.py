"""Solve for the window, and stream what is found.

This is the process ``python -m checkmate.workers.solver``. A solve stops the moment the window cancels it or
asks for something newer.

In: ``OpenQuestion``; about that question ``KnownSchedule``, ``KnownBound``, ``SolveBudget``,
``FindLeastMemory`` and ``Cancel``; ``FillFrontier`` about all. Out: ``Preparing`` and ``Prepared`` while the
search is compiled, on a machine's first use; ``MemoryNeeded``, ``FrontierSchedule``, ``BaselineSchedule``,
``FrontierBound`` and ``Filling`` about the question;
``Incumbent``, ``CostBound`` and ``SolveEnded`` about a solve; ``SmallerSchedule``, ``MemoryBound`` and
``LeastMemoryEnded`` about a search for the least memory; ``SolveSkipped`` and ``SolverFailed`` about either.
What is found and proved holds under the question's constraints.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from checkmate.errors import CheckmateError
from checkmate.formats.graph import graph_from_json
from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.ipc.messages import Message
from checkmate.ipc.steps import pack_steps, unpack_steps
from checkmate.ir.result import SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.progress import Cancelled, FillState, never
from checkmate.solvers.bounds import run_once_bound
from checkmate.solvers.compile.cache import is_compiled
from checkmate.solvers.compile.compilation import Compilation, wait_for
from checkmate.solvers.constraints import constrained, start_for_constrained
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.solvers.portfolio.interactive import LiveSolver
from checkmate.solvers.problem import Listener, SolveOptions
from checkmate.workers.messages.solver import (
    BaselineSchedule,
    CostBound,
    FillFrontier,
    Filling,
    FindLeastMemory,
    FrontierBound,
    FrontierSchedule,
    Incumbent,
    KnownBound,
    KnownSchedule,
    LeastMemoryEnded,
    MemoryBound,
    MemoryNeeded,
    OpenQuestion,
    Prepared,
    Preparing,
    SmallerSchedule,
    SolveBudget,
    SolveEnded,
    SolverFailed,
    SolveSkipped,
)
from checkmate.workers.messages.table import WINDOW_MESSAGES

# Seconds of work on other budgets, for a question: so many, and so many more per op.
_FILL_S, _FILL_PER_OP_S = 120.0, 0.06


class SolveSender(Listener):
    """Sends what a solve finds as it comes; asks the inbox whether to stop."""

    def __init__(self, channel: Channel, inbox: Inbox, job: int) -> None:
        self._channel, self._inbox, self._job = channel, inbox, job

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Send a better schedule."""
        self._channel.send(Incumbent(self._job, cost, pack_steps(steps)))

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        self._channel.send(CostBound(self._job, lower_bound, assumptions))

    def cancelled(self) -> bool:
        """Return whether the window has cancelled, or asked something newer."""
        return self._inbox.cancelled(self._job)


class LeastMemorySender(Listener):
    """Sends what a search for the least memory finds, as it comes. It asks the inbox whether to stop."""

    def __init__(self, channel: Channel, inbox: Inbox, job: int) -> None:
        self._channel, self._inbox, self._job = channel, inbox, job

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        self._channel.send(SmallerSchedule(self._job, peak_bytes, cost, pack_steps(steps)))

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        """Send a better bound, unless it holds under assumptions only."""
        if not assumptions:
            self._channel.send(MemoryBound(self._job, lower_bound_bytes))

    def cancelled(self) -> bool:
        """Return whether the window has cancelled, or asked something newer."""
        return self._inbox.cancelled(self._job)


class FrontierSender:
    """Sends what is new on the frontier of a question."""

    def __init__(self, channel: Channel, question: int) -> None:
        self._channel, self._question = channel, question

    def point(self, point: FrontierPoint) -> None:
        """Send a schedule."""
        steps = pack_steps(point.schedule.steps)
        self._channel.send(
            FrontierSchedule(self._question, point.budget_bytes, point.solver, point.seconds, steps)
        )

    def baseline(self, point: FrontierPoint) -> None:
        """Send a published method's schedule."""
        steps = pack_steps(point.schedule.steps)
        self._channel.send(
            BaselineSchedule(self._question, point.budget_bytes, point.solver, point.seconds, steps)
        )

    def bound(self, budget_bytes: int, lower_bound: float) -> None:
        self._channel.send(FrontierBound(self._question, budget_bytes, lower_bound))

    def filling(self, state: FillState) -> None:
        """Send how the work on other budgets stands."""
        self._channel.send(Filling(self._question, state))


class LiveQuestion:
    """A graph, its constraints, and the live exploration of both.

    ``fill``: whether to work on other budgets at once.
    """

    def __init__(
        self, channel: Channel, asked: OpenQuestion, compilation: Compilation | None, *, fill: bool
    ) -> None:
        self.graph = graph_from_json(Path(asked.name), json.loads(asked.graph))
        self.limited = constrained(self.graph, asked.constraints)
        self.sender = FrontierSender(channel, asked.question)
        self.live = LiveSolver(self.limited, self.sender, workers=asked.workers, compilation=compilation)
        channel.send(MemoryNeeded(asked.question, run_once_bound(self.limited).bytes))
        self._fill_s = self._left = _FILL_S + _FILL_PER_OP_S * self.graph.n
        self._state: FillState | None = None
        self.live.begin(fill=fill)

    def fill(self, busy: Cancelled) -> bool:
        """Work a bit on other budgets; False if nothing is left to do, or no time.

        While the search is compiled, the time does not count.
        """
        if self._state in (FillState.DONE, FillState.RESTING):
            return False
        self._tell(FillState.WORKING)
        begun, counts = time.perf_counter(), not self.live.compiling
        if not self.live.idle(busy):
            self._tell(FillState.DONE)
        self._left -= counts * (time.perf_counter() - begun)
        if self._left <= 0 and self._state is FillState.WORKING:
            self._tell(FillState.RESTING)
        return True

    def fill_again(self) -> None:
        """Give the work on other budgets its whole time again."""
        self._left, self._state = self._fill_s, None

    def _tell(self, state: FillState) -> None:
        if state is not self._state:
            self._state = state
            self.sender.filling(state)

    def learn(self, steps: list[int], solver: str) -> None:
        """Add a schedule of the graph to the frontier.

        Where it breaks the constraints it is adapted, and what it became is sent.
        """
        start = start_for_constrained(self.graph, self.limited, Schedule.of(self.graph, steps))
        if start is not None:
            point = self.live.frontier.add(start.steps.tolist(), solver=solver)
            if point is not None and start.steps.tolist() != steps:
                self.sender.point(point)


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("solver", WINDOW_MESSAGES), Inbox()
    channel.listen(inbox.put)
    compilation = None if is_compiled() else Compilation()
    if compilation is not None:
        threading.Thread(target=_tell, args=(channel, compilation), daemon=True, name="tell").start()
    question: LiveQuestion | None = None
    fill = True
    while True:
        idle = fill and inbox.tasks.empty()
        if idle and question is not None and question.fill(lambda: not inbox.tasks.empty()):
            continue
        message = inbox.tasks.get()
        try:
            if isinstance(message, FillFrontier):
                fill = message.on
                if fill and question is not None:
                    question.fill_again()
            elif isinstance(message, OpenQuestion):
                if question is not None:
                    question.live.close()
                    question = None
                question = LiveQuestion(channel, message, compilation, fill=fill)
            elif question is not None:
                _serve(channel, inbox, question, message)
        except CheckmateError as error:
            channel.send(SolverFailed(str(error), error.hint))


def _tell(channel: Channel, compilation: Compilation) -> None:
    """Send how far the search is compiled, until it is."""
    wait_for(compilation, lambda sentence: channel.send(Preparing(sentence)), never)
    channel.send(Prepared(compilation.sentence))


def _serve(channel: Channel, inbox: Inbox, question: LiveQuestion, message: Message) -> None:
    match message:
        case SolveBudget(job=job) | FindLeastMemory(job=job) if inbox.cancelled(job):
            channel.send(SolveSkipped(job))
        case SolveBudget():
            channel.send(_solve(question.live, message, SolveSender(channel, inbox, message.job)))
        case FindLeastMemory():
            channel.send(_least(question.live, message, LeastMemorySender(channel, inbox, message.job)))
        case KnownSchedule(solver=solver, steps=steps):
            question.learn(unpack_steps(steps).tolist(), solver)
        case KnownBound(budget_bytes=budget, lower_bound=bound):
            question.live.frontier.add_bound(budget, bound)


def _solve(live: LiveSolver, asked: SolveBudget, sender: SolveSender) -> SolveEnded:
    result = live.solve(asked.budget_bytes, SolveOptions(time_limit_s=asked.time_limit_s), sender)
    return SolveEnded(
        job=asked.job,
        status=result.status,
        solver=result.solver,
        budget_bytes=result.budget_bytes,
        cost=result.cost,
        lower_bound=result.lower_bound,
        solve_seconds=result.solve_seconds,
        assumptions=result.assumptions,
        message=result.message,
        statistics=result.statistics,
        steps=b"" if result.schedule is None else pack_steps(result.schedule.steps),
    )


def _least(live: LiveSolver, asked: FindLeastMemory, sender: LeastMemorySender) -> LeastMemoryEnded:
    found = live.least(asked.max_overhead, SolveOptions(time_limit_s=asked.time_limit_s), sender)
    unproved = SolveStatus.CANCELLED if found.cancelled else SolveStatus.FEASIBLE
    return LeastMemoryEnded(
        job=asked.job,
        status=SolveStatus.OPTIMAL if found.proved else unproved,
        solver=found.result.solver,
        peak_bytes=found.peak_bytes,
        lower_bound_bytes=found.lower_bound_bytes,
        solve_seconds=found.result.solve_seconds,
        assumptions=found.result.assumptions,
        message=found.result.message,
        probes=found.probes,
        steps=pack_steps(found.schedule.steps),
    )


if __name__ == "__main__":
    sys.exit(main())
