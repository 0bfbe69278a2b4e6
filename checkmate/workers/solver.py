"""Solve for the window, and stream what is found: ``python -m checkmate.workers.solver``.

A solve stops the moment the window cancels it or asks for something newer. What is found and proved holds
under the question's constraints.

In: ``OpenQuestion``; about that question ``KnownSchedule``, ``KnownBound``, ``SolveBudget``,
``FindLeastMemory`` and ``Cancel``; ``FillFrontier`` about all. Out: ``Preparing`` while the search is
compiled; ``MemoryNeeded``, ``FrontierSchedule``, ``FrontierBound`` and ``Filling`` about the question;
``Incumbent``, ``SolveBound`` and ``SolveEnded`` about a solve.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from checkmate.formats.graph import unpack_graph
from checkmate.ir import Schedule, SolveResult, SolveStatus
from checkmate.processes.messages import Message, pack_steps, unpack_steps
from checkmate.processes.serve import Channel, Inbox, Server
from checkmate.progress import Cancelled, FillState
from checkmate.solvers.bounds import run_once_bound
from checkmate.solvers.compile.compilation import compile_first
from checkmate.solvers.constraints import constrained, start_for_constrained
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.solvers.portfolio.interactive import FrontierListener, LiveSolver
from checkmate.solvers.problem import Listener, SolveOptions
from checkmate.workers.window_messages import (
    WINDOW_MESSAGES,
    FillFrontier,
    Filling,
    FindLeastMemory,
    FrontierBound,
    FrontierSchedule,
    Incumbent,
    KnownBound,
    KnownSchedule,
    MemoryNeeded,
    OpenQuestion,
    Preparing,
    SolveBound,
    SolveBudget,
    SolveEnded,
)

# Seconds of work on other budgets after each question, and further seconds per op.
_FILL_S, _FILL_PER_OP_S = 120.0, 0.06


class SolveSender(Listener):
    def __init__(self, server: SolverServer, asked: SolveBudget | FindLeastMemory) -> None:
        self._send, self._inbox, self._job = server.channel.send, server.inbox, asked.job
        self._budget = asked.budget_bytes if isinstance(asked, SolveBudget) else 0

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        self._send(Incumbent(self._job, self._budget, pack_steps(steps)))

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        self._send(SolveBound(self._job, lower_bound, assumptions))

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        self._send(Incumbent(self._job, peak_bytes, pack_steps(steps)))

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        self._send(SolveBound(self._job, float(lower_bound_bytes), assumptions))

    def cancelled(self) -> bool:
        return self._inbox.cancelled(self._job)


class LiveQuestion(FrontierListener):
    """A graph, its constraints, and the live exploration of both. ``fill``: work on other budgets at once."""

    def __init__(self, channel: Channel, asked: OpenQuestion, *, fill: bool) -> None:
        self._send, self._question = channel.send, asked.question
        self.graph = unpack_graph(asked.graph)
        self.limited = constrained(self.graph, asked.constraints)
        self.live = LiveSolver(self.limited, self, workers=asked.workers)
        self._send(MemoryNeeded(asked.question, run_once_bound(self.limited).bytes))
        self._fill_s = self._left = _FILL_S + _FILL_PER_OP_S * self.graph.n
        self._state: FillState | None = None
        self.live.begin(fill=fill)

    def point(self, point: FrontierPoint, *, baseline: bool = False) -> None:
        steps = pack_steps(point.schedule.steps)
        self._send(
            FrontierSchedule(self._question, point.budget_bytes, point.solver, point.seconds, baseline, steps)
        )

    def baseline(self, point: FrontierPoint) -> None:
        self.point(point, baseline=True)

    def bound(self, budget_bytes: int, lower_bound: float) -> None:
        self._send(FrontierBound(self._question, budget_bytes, lower_bound))

    def fill(self, busy: Cancelled) -> bool:
        """Work a bit on other budgets; False if nothing is left, or no time."""
        if self._state in (FillState.DONE, FillState.RESTING):
            return False
        self._send_state(FillState.WORKING)
        begun = time.perf_counter()
        if not self.live.idle(busy):
            self._send_state(FillState.DONE)
        self._left -= time.perf_counter() - begun
        if self._left <= 0 and self._state is FillState.WORKING:
            self._send_state(FillState.RESTING)
        return True

    def fill_again(self) -> None:
        self._left, self._state = self._fill_s, None

    def _send_state(self, state: FillState) -> None:
        if state is not self._state:
            self._state = state
            self._send(Filling(self._question, state))

    def learn(self, steps: list[int], solver: str) -> None:
        """Add a schedule of the graph. If it breaks the constraints, adapt it and send the adapted one."""
        start = start_for_constrained(self.graph, self.limited, Schedule.of(self.graph, steps))
        if start is not None:
            point = self.live.frontier.add(start.steps.tolist(), solver=solver)
            if point is not None and start.steps.tolist() != steps:
                self.point(point)


class SolverServer(Server):
    kind, table = "solver", WINDOW_MESSAGES

    def __init__(self, channel: Channel, inbox: Inbox) -> None:
        super().__init__(channel, inbox)
        self._question: LiveQuestion | None = None
        self._fill = True
        self._prepared = False

    def next_message(self) -> Message:
        if not self._prepared:
            self._prepare()
        while self._fill and self.inbox.empty() and self._question is not None:
            if not self._question.fill(lambda: not self.inbox.empty()):
                break
        return self.inbox.get()

    def work(self, asked: Message) -> Message | None:
        question = self._question
        match asked:
            case FillFrontier(on=on):
                self._fill = on
                if on and question is not None:
                    question.fill_again()
            case OpenQuestion():
                if question is not None:
                    question.live.close()
                    self._question = None
                self._question = LiveQuestion(self.channel, asked, fill=self._fill)
            case KnownSchedule(solver=solver, steps=steps) if question is not None:
                question.learn(unpack_steps(steps).tolist(), solver)
            case KnownBound(budget_bytes=budget, lower_bound=bound) if question is not None:
                question.live.frontier.add_bound(budget, bound)
            case SolveBudget() if question is not None:
                return _solve(question.live, asked, SolveSender(self, asked))
            case FindLeastMemory() if question is not None:
                return _least(question.live, asked, SolveSender(self, asked))
        return None

    def _prepare(self) -> None:
        said: list[str] = []

        def say(sentence: str) -> None:
            said.append(sentence)
            self.channel.send(Preparing(sentence, False))

        compile_first(say)
        if said:
            self.channel.send(Preparing(said[-1], True))
        self._prepared = True


def _solve(live: LiveSolver, asked: SolveBudget, sender: SolveSender) -> SolveEnded:
    options = SolveOptions(time_limit_s=asked.time_limit_s)
    return _ended(asked.job, live.solve(asked.budget_bytes, options, sender))


def _least(live: LiveSolver, asked: FindLeastMemory, sender: SolveSender) -> SolveEnded:
    found = live.least(asked.max_overhead, SolveOptions(time_limit_s=asked.time_limit_s), sender)
    unproved = SolveStatus.CANCELLED if found.cancelled else SolveStatus.FEASIBLE
    return replace(
        _ended(asked.job, found.result),
        status=SolveStatus.OPTIMAL if found.proved else unproved,
        budget_bytes=found.peak_bytes,
        bound=float(found.lower_bound_bytes),
        statistics={"probes": found.probes},
        steps=pack_steps(found.schedule.steps),
    )


def _ended(job: int, result: SolveResult) -> SolveEnded:
    return SolveEnded(
        job,
        result.status,
        result.solver,
        result.budget_bytes,
        result.lower_bound,
        result.solve_seconds,
        result.assumptions,
        result.message,
        result.statistics,
        b"" if result.schedule is None else pack_steps(result.schedule.steps),
    )


if __name__ == "__main__":
    SolverServer.main()
