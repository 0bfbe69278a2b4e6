"""The solver process and the checker process: what they are asked, and where the answers go."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.models.exploration import Exploration
from app.state.knowledge import WhatIf
from app.state.solve import Solve, Tightest
from app.workers.background import later
from app.workers.client import SILENT_S
from app.workers.process import WorkerProcess
from checkmate.ir import Graph, SolveStatus
from checkmate.machine.load import usable_cores
from checkmate.processes.messages import Cancel, JobCancelled, JobFailed, Message, pack_steps, unpack_steps
from checkmate.workers.window_messages import (
    Checked,
    CheckSchedule,
    ConstraintsToCheck,
    FillFrontier,
    Filling,
    FindLeastMemory,
    FrontierBound,
    FrontierSchedule,
    GraphToReplay,
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

SOLVE_SECONDS = 10.0
_CANCEL_PATIENCE_MS, _PER_OP_MS = 300, 0.2  # per op, because checking a large graph's schedule takes a while
_SILENT_S = 30.0  # beyond a solve's time limit: an answer later than that is taken for lost
_MOST_WORKERS = 4
_FALSE_BOUND = "A bound from the solver contradicts a schedule that was checked, and was dropped."
_FALSE_ANSWER = "the solver's answer contradicts a schedule that was checked"
_REMEMBERED = 8  # checks
_AT_ONCE = 1000  # steps; checking a longer schedule in this process would be felt (10 ms per thousand)
AboutQuestion = MemoryNeeded | FrontierBound | FrontierSchedule | Filling
Ended = SolveEnded | JobCancelled
AboutJob = Incumbent | SolveBound | Ended
WithSchedule = FrontierSchedule | Incumbent | SolveEnded


class Checking(QObject):
    """Has a separate process check large schedules, in order. It shares nothing with the solver's process."""

    checked = Signal(object)
    died = Signal()

    def __init__(self, exploration: Exploration, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exploration = exploration
        self.process = WorkerProcess("checker", "checkmate.workers.replays", self)
        self.process.received.connect(self._on_received)
        self.process.died.connect(self._on_died)
        self._graph: Graph | None = None
        self._questions: list[WhatIf] = []
        self._jobs = itertools.count(1)
        self._open: set[int] = set()  # jobs without an answer

    def ask(self, what_if: WhatIf, body: bytes) -> int:
        if self._graph is not what_if.graph:
            self._graph, self._questions = what_if.graph, []
            self.process.send(GraphToReplay(self._exploration.graph_body))
        if what_if not in self._questions:
            self._questions.append(what_if)
            self.process.send(ConstraintsToCheck(len(self._questions) - 1, what_if.constraints))
        job = next(self._jobs)
        self._open.add(job)
        self.process.send(CheckSchedule(job, self._questions.index(what_if), body))
        self.process.expect(SILENT_S)
        return job

    def close(self) -> None:
        self.process.close()
        self._graph, self._questions = None, []

    def _on_received(self, message: Message) -> None:
        if isinstance(message, Checked):
            self._open.discard(message.job)
            self.process.expect(SILENT_S if self._open else None)
            self.checked.emit(message)

    def _on_died(self, sentence: str) -> None:
        self._open.clear()
        self._graph = None  # the next process does not have it
        self.died.emit()


@dataclass
class _Arrived:
    """A message from the solver. ``ticket``: the job that checks its schedule, 0 if it needs no check."""

    message: Message
    ticket: int = 0
    checked: Checked | None = None

    @property
    def unchecked(self) -> bool:
        return self.ticket != 0 and self.checked is None


class SolverClient(QObject):
    """Has the solver process work on one solve at a time, the newest.

    What is found goes to the frontier of the question that it belongs to. ``seconds``: a solve's usual time
    limit.

    Signals: ``failed(sentence, hint)``; ``noticed(sentence)``; ``settled()`` when a solve has ended.
    """

    failed = Signal(str, str)
    noticed = Signal(str)
    settled = Signal()

    def __init__(self, exploration: Exploration, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exploration = exploration
        self.seconds = self._limit = SOLVE_SECONDS
        self.process = WorkerProcess("solver", "checkmate.workers.solver", self)
        self.process.received.connect(self._on_received)
        self.process.died.connect(self._on_died)
        self._jobs = itertools.count(1)
        self._questions: dict[int, WhatIf] = {}  # what the process was asked about, by number
        self._patience = later(self, _CANCEL_PATIENCE_MS, self._on_patience_over)
        # Messages stay in order, and one with a large schedule waits for its check.
        self._arrived: deque[_Arrived] = deque()
        self._checked: Checked | None = None  # of the message being handled
        self.checking = Checking(exploration, self)
        self.checking.checked.connect(self._on_checked)
        self.checking.died.connect(self._on_checker_died)
        # The last checks and their results, to reuse: a solve's first and last schedule were checked before.
        self._asked: deque[tuple[WhatIf, bytes, int]] = deque(maxlen=_REMEMBERED)
        self._answers: dict[int, Checked] = {}
        self._held = False
        self._knows_graph = False  # whether the graph was sent to the running process
        exploration.graph_changed.connect(self._forget)
        exploration.listing.fill_switched.connect(lambda on: self.process.send(FillFrontier(on)))
        # Cores that the solver may use; it runs at a lower priority.
        self.workers = max(1, min(_MOST_WORKERS, usable_cores()))

    def send_graph(self) -> None:
        graph, what_if = self._exploration.graph, self._exploration.what_if
        if graph is None or what_if is None or self._held:
            return
        self._knows_graph = True
        question = next(self._jobs)
        self._questions[question] = what_if
        self._exploration.listing.set_filling(None)
        if not self._exploration.listing.fill_wanted:
            self.process.send(FillFrontier(False))  # the process may be a new one
        self.process.send(
            OpenQuestion(question, self.workers, what_if.constraints, self._exploration.graph_body)
        )
        self.send_schedules(what_if)
        for budget, bound in what_if.frontier.bounds:
            self.process.send(KnownBound(budget, bound))

    def _forget(self) -> None:
        for about_another_graph in (self._questions, self._asked, self._answers):
            about_another_graph.clear()

    def send_schedules(self, what_if: WhatIf | None) -> None:
        for point in () if what_if is None or self._held else what_if.frontier:
            self.process.send(KnownSchedule(point.solver, pack_steps(point.schedule.steps)))

    def solve(self, seconds: float | None = None) -> None:
        if self._exploration.graph is None or self._held:
            return
        self._patience.stop()
        if not self._knows_graph:
            self.send_graph()
        job, aim = next(self._jobs), self._exploration.aim
        self._exploration.begin_solve(job)
        limit = self._limit = seconds or self.seconds
        self.process.expect(limit + _SILENT_S)
        if aim is None:
            self.process.send(SolveBudget(job, self._exploration.budget_bytes, limit))
        else:
            self.process.send(FindLeastMemory(job, aim.max_overhead if aim.limited else None, limit))

    def stop(self) -> None:
        if solve := self._exploration.running_solve:
            self.process.send(Cancel(solve.job))
            self._patience.start(int(_CANCEL_PATIENCE_MS + _PER_OP_MS * solve.what_if.graph.n))

    def hold(self) -> None:
        """Solve nothing until ``release``, so that a measurement is not disturbed."""
        if self._held:
            return
        self._held = True
        self._patience.stop()
        self.process.stop()
        self._exploration.set_preparing("")
        self._arrived.clear()
        if solve := self._exploration.running_solve:
            self._end(_kept(solve), "stopped, to measure")

    def release(self) -> bool:
        """Allow solves again, and send the solver the graph. Return whether it was held until now."""
        held, self._held = self._held, False
        if held:
            self.send_graph()
        return held

    def close(self) -> None:
        self._patience.stop()
        self.process.close()
        self.checking.close()
        self._arrived.clear()
        self._forget()

    def _on_patience_over(self) -> None:
        if solve := self._exploration.running_solve:
            self.process.stop()
            self._arrived.clear()
            self.send_graph()
            self._end(_kept(solve), "stopped")

    def _end(self, status: SolveStatus, message: str) -> None:
        solve = self._exploration.solve
        if solve is None:
            return
        self.process.expect(None)
        solve.status, solve.message = status.value, message
        solve.seconds = time.monotonic() - solve.started
        if status not in (SolveStatus.INFEASIBLE, SolveStatus.FAILED):
            self._exploration.answered()
        self._exploration.solve_changed.emit()
        self.settled.emit()

    def _on_received(self, message: Message) -> None:
        if isinstance(message, Preparing):
            self._on_preparing(message.sentence[:1].upper() + message.sentence[1:], message.done)
            return
        what_if = self._question_of(message)
        if isinstance(message, AboutJob) and what_if is not None:
            self._expect_more()
        ticket = 0
        if (
            isinstance(message, WithSchedule)
            and what_if is not None
            and what_if.graph is self._exploration.graph
            and len(message.steps) > 4 * _AT_ONCE
        ):
            ticket = self._ticket(what_if, message.steps)
        if isinstance(message, Ended) and what_if is not None:
            self._patience.stop()  # the solver has answered; only its schedule may still have to be checked
            self.process.expect(None)
        self._arrived.append(_Arrived(message, ticket, self._answers.get(ticket)))
        self._handle()

    def _on_preparing(self, sentence: str, done: bool) -> None:
        self._exploration.set_preparing("" if done else sentence)
        if done:
            self.noticed.emit(f"{sentence}.")
        else:
            self._expect_more()

    def _expect_more(self) -> None:
        if self._exploration.running_solve:
            self.process.expect(self._limit + _SILENT_S)

    def _ticket(self, what_if: WhatIf, body: bytes) -> int:
        for asked, same, ticket in self._asked:
            if asked is what_if and same == body:
                return ticket
        ticket = self.checking.ask(what_if, body)
        self._asked.append((what_if, body, ticket))
        return ticket

    def _on_checker_died(self) -> None:
        self._asked.clear()  # its pending checks will never be answered
        self._handle(wait=False)

    def _question_of(self, message: Message) -> WhatIf | None:
        if isinstance(message, AboutQuestion):
            return self._questions.get(message.question)
        solve = self._exploration.solve
        if solve is None or not isinstance(message, AboutJob) or message.job != solve.job:
            return None
        return solve.what_if

    def _on_checked(self, checked: Checked) -> None:
        self._answers = {
            number: self._answers[number] for _, _, number in self._asked if number in self._answers
        }
        self._answers[checked.job] = checked
        for arrived in self._arrived:
            if arrived.ticket == checked.job:
                arrived.checked = checked
        self._handle()

    def _handle(self, *, wait: bool = True) -> None:
        while self._arrived and (not wait or not self._arrived[0].unchecked):
            arrived = self._arrived.popleft()
            self._checked = arrived.checked
            self._on_message(arrived.message)

    def _on_message(self, message: Message) -> None:
        if isinstance(message, AboutQuestion):
            what_if = self._questions.get(message.question)
            if what_if is not None:  # else of a graph that is not explored any more
                self._on_known(message, what_if)
        elif isinstance(message, AboutJob):
            solve = self._exploration.solve
            if solve is not None and message.job == solve.job:  # else of a solve that was superseded
                self._on_news(message, solve)
                self._exploration.solve_changed.emit()
        elif isinstance(message, JobFailed):
            self._knows_graph = False  # perhaps it was lost on its way
            self._end(SolveStatus.FAILED, message.message)
            self.failed.emit(message.message, message.hint)

    def _on_known(self, message: AboutQuestion, what_if: WhatIf) -> None:
        match message:
            case MemoryNeeded(bound_bytes=bound):
                self._exploration.set_needed(bound, what_if)
            case FrontierBound(budget_bytes=budget, lower_bound=bound):
                self._exploration.add_bound(budget, bound, what_if)
            case FrontierSchedule():
                self._add(
                    message.steps,
                    budget_bytes=message.budget_bytes,
                    solver=message.solver,
                    seconds=message.solve_seconds,
                    what_if=what_if,
                    asked=self._exploration.running_solve is not None,
                    baseline=message.baseline,
                )
            case Filling(state=state):
                if what_if is self._exploration.what_if:
                    self._exploration.listing.set_filling(state)

    def _on_news(self, message: AboutJob, solve: Solve) -> None:
        elapsed = time.monotonic() - solve.started
        match message:
            case Incumbent(budget_bytes=peak, steps=steps):
                budget = solve.budget_bytes if solve.aim is None else peak
                self._add(steps, budget_bytes=budget, solver="auto", seconds=elapsed, what_if=solve.what_if)
                self._note_best(solve, elapsed)
            case SolveBound(bound=bound, assumptions=assumptions):
                self._on_bound(solve, elapsed, bound, assumptions)
            case SolveEnded():
                self._on_ended(message, solve, elapsed)
            case JobCancelled() if solve.running:
                self._end(SolveStatus.CANCELLED, "superseded")

    def _note_best(self, solve: Solve, elapsed: float) -> None:
        best = solve.best_known
        if best is not None:
            solve.found(elapsed, best.cost if solve.aim is None else float(best.peak_bytes))

    def _on_bound(self, solve: Solve, elapsed: float, bound: float, assumptions: tuple[str, ...]) -> None:
        if assumptions:
            if solve.aim is None:
                solve.proved(elapsed, bound)
        elif solve.contradicts(bound):
            self.noticed.emit(_FALSE_BOUND)
        else:
            self._learn_bound(solve, elapsed, bound)

    def _learn_bound(self, solve: Solve, elapsed: float, bound: float) -> None:
        """Record a proved bound. One on the peak means: with less memory, every schedule costs too much."""
        solve.proved(elapsed, bound)
        if solve.aim is None:
            self._exploration.add_bound(solve.budget_bytes, bound, solve.what_if)
        else:
            cap = solve.what_if.cost_cap(solve.aim.max_overhead)
            self._exploration.add_bound(int(bound) - 1, cap, solve.what_if)

    def _on_ended(self, ended: SolveEnded, solve: Solve, elapsed: float) -> None:
        solve.assumptions = ended.assumptions
        if solve.aim is None:
            budget = solve.budget_bytes  # the window's own record, not the answer's
            solve.tightest = Tightest.of(ended.statistics)
        else:
            budget, solve.probes = ended.budget_bytes, int(ended.statistics.get("probes", 0))
        if ended.steps:
            self._add(
                ended.steps,
                budget_bytes=budget,
                solver=ended.solver,
                seconds=ended.solve_seconds,
                what_if=solve.what_if,
            )
            self._note_best(solve, elapsed)
        if is_false(ended, solve):
            self.failed.emit(_FALSE_ANSWER, "Please report the graph; the schedule that was checked stays.")
            self._end(SolveStatus.FAILED, _FALSE_ANSWER)
            return
        if ended.bound is not None and not ended.assumptions:
            self._learn_bound(solve, elapsed, ended.bound)
        if ended.status is SolveStatus.INFEASIBLE and not ended.assumptions:
            self._exploration.add_bound(budget, None, solve.what_if)
        self._end(ended.status, ended.message)

    def _add(self, steps: bytes, **facts: Any) -> None:
        if not self._exploration.add(unpack_steps(steps), checked=self._checked, **facts):
            self.noticed.emit("A schedule from the solver failed the independent check and was dropped.")

    def _on_died(self, sentence: str) -> None:
        self._handle(wait=False)
        self._exploration.set_preparing("")
        if self._exploration.graph is None:
            self.noticed.emit(sentence)
        else:
            self.failed.emit(sentence, "It was started again; move the budget to solve.")
        self._knows_graph = False
        if not self.process.failing:  # after several deaths, restart it only when a solve is asked for
            self.send_graph()
        if self._exploration.running_solve:
            self._end(SolveStatus.FAILED, "the solver process ended; move the budget to solve again")


def _kept(solve: Solve) -> SolveStatus:
    return SolveStatus.FEASIBLE if solve.best else SolveStatus.CANCELLED


def is_false(ended: SolveEnded, solve: Solve) -> bool:
    bound = math.inf if ended.status is SolveStatus.INFEASIBLE else ended.bound or 0.0
    optimal = ended.status is SolveStatus.OPTIMAL
    return not ended.assumptions and solve.contradicts(bound, optimal=optimal)
