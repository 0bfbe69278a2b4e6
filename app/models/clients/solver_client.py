"""The solver process: what it is asked, and where its answers go."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections import deque
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from app.models.clients.checker_client import Checking
from app.models.exploration import Exploration
from app.state.knowledge import WhatIf
from app.state.solve import Aim, Solve, Tightest
from app.workers.process import WorkerProcess
from checkmate.formats.graph import graph_to_json
from checkmate.ipc.messages import Cancel, Message
from checkmate.ipc.steps import pack_steps, unpack_steps
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveStatus
from checkmate.machine.load import usable_cores
from checkmate.workers.messages.checker import Checked
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

SOLVE_SECONDS = 10.0
_CANCEL_PATIENCE_MS, _PER_OP_MS = 300, 0.2  # of a large graph even the last check takes a while
_SILENT_S = 30.0  # beyond a solve's time; nothing is heard of it for so long only if an answer was lost
_MOST_WORKERS = 4
_FALSE_BOUND = "A bound from the solver contradicts a schedule that was checked, and was dropped."
_FALSE_ANSWER = "the solver's answer contradicts a schedule that was checked"
_REMEMBERED = 8  # checks
_AT_ONCE = 1000  # steps; the check of more is felt (about 10 ms a thousand)

# What comes back about a question, and about a job.
AboutQuestion = MemoryNeeded | FrontierBound | FrontierSchedule | BaselineSchedule | Filling
Ended = SolveEnded | LeastMemoryEnded | SolveSkipped
AboutJob = Incumbent | CostBound | SmallerSchedule | MemoryBound | Ended
WithSchedule = (
    FrontierSchedule | BaselineSchedule | Incumbent | SmallerSchedule | SolveEnded | LeastMemoryEnded
)


@dataclass
class _Arrived:
    """A message that is not handled yet.

    ``ticket``: of the check of its schedule, where the checker process makes that; 0 where it does not.
    ``checked``: what that check found, once it is there.
    """

    message: Message
    ticket: int = 0
    checked: Checked | None = None

    @property
    def unchecked(self) -> bool:
        """Return whether the check is still to come."""
        return self.ticket != 0 and self.checked is None


class SolverClient(QObject):
    """Has the solver process work on one solve at a time, the newest.

    Whatever is found goes to the frontier of the question that it belongs to. ``seconds``: how long a solve
    may take, unless it is asked for longer.

    Signals: ``failed(sentence, hint)``; ``noticed(sentence)``; ``settled()`` when a solve has ended.
    """

    failed = Signal(str, str)
    noticed = Signal(str)
    settled = Signal()

    def __init__(self, exploration: Exploration, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exploration = exploration
        self.seconds = self._limit = SOLVE_SECONDS
        self.process = WorkerProcess("checkmate.workers.solver", WINDOW_MESSAGES, self)
        self.process.received.connect(self._on_received)
        self.process.died.connect(self._on_died)
        self._jobs = itertools.count(1)
        self._questions: dict[int, WhatIf] = {}  # what the process was asked about, by number
        self._body: tuple[Graph | None, bytes] = (None, b"")
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(_CANCEL_PATIENCE_MS)
        self._patience.timeout.connect(self._on_patience_over)
        # Messages stay in order, and one with a large schedule waits for its check.
        self._arrived: deque[_Arrived] = deque()
        self._checked: Checked | None = None  # of the message being handled
        self.checking = Checking(self.graph_body, self)
        self.checking.checked.connect(self._on_checked)
        self.checking.died.connect(self._on_checker_died)
        # The last checks and their answers: a solve begins with a known schedule and ends with its best. Both
        # were checked before.
        self._asked: deque[tuple[WhatIf, bytes, int]] = deque(maxlen=_REMEMBERED)
        self._answers: dict[int, Checked] = {}
        self._held = False
        self._knows_graph = False  # the process that runs
        exploration.listing.fill_switched.connect(lambda on: self.process.send(FillFrontier(on)))
        # Cores that the solver may use; it runs at a lower priority.
        self.workers = max(1, min(_MOST_WORKERS, usable_cores()))

    def send_graph(self) -> None:
        """Send the graph and its constraints, with what is known of both."""
        graph, what_if = self._exploration.graph, self._exploration.what_if
        if graph is None or what_if is None or self._held:
            return
        self._knows_graph = True
        body = self.graph_body()
        question = next(self._jobs)
        self._questions[question] = what_if
        self._exploration.listing.set_filling(None)
        if not self._exploration.listing.fill_wanted:
            self.process.send(FillFrontier(False))  # the process may be a new one
        self.process.send(OpenQuestion(question, graph.name, self.workers, what_if.constraints, body))
        self.send_schedules(what_if)
        for budget, bound in what_if.frontier.bounds:
            self.process.send(KnownBound(budget, bound))

    def graph_body(self) -> bytes:
        """Return the explored graph as a file's JSON; made once."""
        graph = self._exploration.graph
        assert graph is not None
        if self._body[0] is not graph:
            self.know_body(graph, json.dumps(graph_to_json(graph)).encode("utf-8"))
        return self._body[1]

    def know_body(self, graph: Graph | None, body: bytes) -> None:
        """Remember that ``body`` is ``graph`` as a file's JSON.

        What was asked about another graph is forgotten.
        """
        self._body = (graph, body)
        for about_another in (self._questions, self._asked, self._answers):
            about_another.clear()

    def send_schedules(self, what_if: WhatIf | None) -> None:
        """Send the known schedules to a process that is new or has a new question."""
        for point in () if what_if is None or self._held else what_if.frontier:
            self.process.send(KnownSchedule(point.solver, pack_steps(point.schedule.steps)))

    def solve(self, seconds: float | None = None) -> None:
        """Solve for where the slider stands, in place of a running solve.

        It stands on a budget or on an aim. Nothing is done while held.
        """
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
        """End the running solve and keep its best schedule. A process that does not answer is replaced."""
        solve = self._exploration.solve
        if solve is not None and solve.running:
            self.process.send(Cancel(solve.job))
            self._patience.start(int(_CANCEL_PATIENCE_MS + _PER_OP_MS * solve.what_if.graph.n))

    def hold(self) -> None:
        """Solve nothing until ``release``.

        Something is being measured, and a solve beside it would be measured too.
        """
        if self._held:
            return
        self._held = True
        self._patience.stop()
        self.process.stop()
        self._exploration.set_preparing("")
        self._arrived.clear()
        solve = self._exploration.solve
        if solve is not None and solve.running:
            self._end(_kept(solve), "stopped, to measure")

    def release(self) -> bool:
        """Allow solves again, and send the solver the graph. Return whether it was held until now."""
        held, self._held = self._held, False
        if held:
            self.send_graph()
        return held

    def close(self) -> None:
        """End both processes, and forget what they were asked."""
        self._patience.stop()
        self.process.close()
        self.checking.close()
        self._arrived.clear()
        self.know_body(None, b"")

    def _on_patience_over(self) -> None:
        solve = self._exploration.solve
        if solve is not None and solve.running:
            self.process.restart()
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
        match message:
            case Preparing(sentence=sentence):
                self._exploration.set_preparing(_capitalized(sentence))
                self._expect_more()
                return
            case Prepared(sentence=sentence):
                self._exploration.set_preparing("")
                self.noticed.emit(f"{_capitalized(sentence)}.")
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
            self._patience.stop()  # it listens; only the check of what it found is still to come
            self.process.expect(None)
        self._arrived.append(_Arrived(message, ticket, self._answers.get(ticket)))
        self._handle()

    def _expect_more(self) -> None:
        solve = self._exploration.solve
        if solve is not None and solve.running:
            self.process.expect(self._limit + _SILENT_S)

    def _ticket(self, what_if: WhatIf, body: bytes) -> int:
        for asked, same, ticket in self._asked:
            if asked is what_if and same == body:
                return ticket
        ticket = self.checking.ask(what_if, body)
        self._asked.append((what_if, body, ticket))
        return ticket

    def _on_checker_died(self) -> None:
        self._asked.clear()  # what it has not answered it never will
        self._handle(wait=False)

    def _question_of(self, message: Message) -> WhatIf | None:
        """Return the question that a message belongs to.

        None where that is not asked any more, or there is none.
        """
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
        self._answers[checked.ticket] = checked
        for arrived in self._arrived:
            if arrived.ticket == checked.ticket:
                arrived.checked = checked
        self._handle()

    def _handle(self, *, wait: bool = True) -> None:
        """Handle messages in order until one waits for a check.

        Unless ``wait``, its schedule is checked here.
        """
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
        elif isinstance(message, SolverFailed):
            self._end(SolveStatus.FAILED, message.message)
            self.failed.emit(message.message, message.hint)

    def _on_known(self, message: AboutQuestion, what_if: WhatIf) -> None:
        match message:
            case MemoryNeeded(bound_bytes=bound):
                self._exploration.set_range({"bound_bytes": bound}, what_if)
            case FrontierBound(budget_bytes=budget, lower_bound=bound):
                self._exploration.add_bound(budget, bound, what_if)
            case FrontierSchedule(budget_bytes=budget, solver=solver, solve_seconds=seconds, steps=steps):
                solve = self._exploration.solve
                asked = solve is not None and solve.running
                self._take(steps, budget, solver, seconds, what_if, asked=asked)
            case BaselineSchedule(budget_bytes=budget, solver=solver, solve_seconds=seconds, steps=steps):
                self._take_baseline(steps, budget, solver, seconds, what_if)
            case Filling(state=state):
                if what_if is self._exploration.what_if:
                    self._exploration.listing.set_filling(state)

    def _on_news(self, message: AboutJob, solve: Solve) -> None:
        elapsed = time.monotonic() - solve.started
        match message:
            case Incumbent(steps=steps):
                self._take(steps, solve.budget_bytes, "auto", elapsed, solve.what_if)
                self._note_best(solve, elapsed)
            case CostBound(lower_bound=bound, assumptions=assumptions):
                if not assumptions and solve.what_if.contradicts(solve.budget_bytes, bound):
                    self.noticed.emit(_FALSE_BOUND)
                    return
                solve.proved(elapsed, bound)
                if not assumptions:
                    self._exploration.add_bound(solve.budget_bytes, solve.lower_bound, solve.what_if)
            case SmallerSchedule(peak_bytes=peak, steps=steps):
                self._take(steps, peak, "auto", elapsed, solve.what_if)
                self._note_best(solve, elapsed)
            case MemoryBound(lower_bound_bytes=bound):
                self._on_least_bound(solve, elapsed, bound)
            case SolveEnded():
                self._on_solve_ended(message, solve, elapsed)
            case LeastMemoryEnded():
                self._on_least_ended(message, solve, elapsed)
            case SolveSkipped():
                self._end(SolveStatus.CANCELLED, "superseded")

    def _note_best(self, solve: Solve, elapsed: float) -> None:
        """Note the best schedule that was checked, whatever was claimed."""
        what_if = solve.what_if
        if solve.aim is None:
            best = what_if.best_for(solve.budget_bytes)
            value = None if best is None else best.cost
        else:
            best = what_if.least_within(solve.aim.max_overhead)
            value = None if best is None else float(best.peak_bytes)
        if value is not None:
            solve.found(elapsed, value)

    def _on_least_bound(self, solve: Solve, elapsed: float, bound: int) -> None:
        """Take in that no schedule within the aim's cost is smaller.

        So with less memory, every schedule costs more.
        """
        assert solve.aim is not None
        if is_false_least(bound, solve.what_if, solve.aim):
            self.noticed.emit(_FALSE_BOUND)
            return
        solve.proved(elapsed, float(bound))
        cap = solve.what_if.cost_cap(solve.aim.max_overhead)
        self._exploration.add_bound(bound - 1, cap, solve.what_if)

    def _on_solve_ended(self, ended: SolveEnded, solve: Solve, elapsed: float) -> None:
        solve.assumptions, solve.tightest = ended.assumptions, Tightest.of(ended.statistics)
        budget = solve.budget_bytes  # as it was asked, whatever is said of it
        if ended.steps:
            self._take(ended.steps, budget, ended.solver, ended.solve_seconds, solve.what_if)
            self._note_best(solve, elapsed)
        if is_false(ended, budget, solve.what_if):
            self._refuse()
            return
        if ended.lower_bound is not None and not ended.assumptions:
            solve.proved(elapsed, ended.lower_bound)
            self._exploration.add_bound(budget, ended.lower_bound, solve.what_if)
        if ended.status is SolveStatus.INFEASIBLE and not ended.assumptions:
            self._exploration.add_bound(budget, None, solve.what_if)
        self._end(ended.status, ended.message)

    def _refuse(self) -> None:
        """End a solve whose answer contradicts what was checked."""
        self.failed.emit(_FALSE_ANSWER, "Please report the graph; the schedule that was checked stays.")
        self._end(SolveStatus.FAILED, _FALSE_ANSWER)

    def _on_least_ended(self, ended: LeastMemoryEnded, solve: Solve, elapsed: float) -> None:
        assert solve.aim is not None
        solve.assumptions, solve.probes = ended.assumptions, ended.probes
        self._take(ended.steps, ended.peak_bytes, ended.solver, ended.solve_seconds, solve.what_if)
        self._note_best(solve, elapsed)
        claimed = ended.status is SolveStatus.OPTIMAL
        if not ended.assumptions and is_false_least(
            ended.lower_bound_bytes, solve.what_if, solve.aim, optimal=claimed
        ):
            self._refuse()
            return
        if not ended.assumptions:
            self._on_least_bound(solve, elapsed, ended.lower_bound_bytes)
        self._end(ended.status, ended.message)

    def _take(
        self,
        steps: bytes,
        budget_bytes: int,
        solver: str,
        seconds: float,
        what_if: WhatIf,
        *,
        asked: bool = True,
    ) -> None:
        held = self._exploration.add(
            unpack_steps(steps),
            budget_bytes=budget_bytes,
            solver=solver,
            seconds=seconds,
            what_if=what_if,
            checked=self._checked,
            asked=asked,
        )
        self._report_unless(held)

    def _take_baseline(
        self, steps: bytes, budget_bytes: int, solver: str, seconds: float, what_if: WhatIf
    ) -> None:
        held = self._exploration.add_baseline(
            unpack_steps(steps),
            budget_bytes=budget_bytes,
            solver=solver,
            seconds=seconds,
            what_if=what_if,
            checked=self._checked,
        )
        self._report_unless(held)

    def _report_unless(self, held: bool) -> None:
        if not held:
            self.noticed.emit("A schedule from the solver failed the independent check and was dropped.")

    def _on_died(self, sentence: str) -> None:
        self._handle(wait=False)
        self._exploration.set_preparing("")
        if self._exploration.graph is None:
            self.noticed.emit(sentence)
        else:
            self.failed.emit(sentence, "It was started again; move the budget to solve.")
        self._knows_graph = False
        if not self.process.failing:  # else it would die again and again; it starts when it is asked
            self.send_graph()
        solve = self._exploration.solve
        if solve is not None and solve.running:
            self._end(SolveStatus.FAILED, "the solver process ended; move the budget to solve again")


def _kept(solve: Solve) -> SolveStatus:
    """Return the status of a solve that was stopped here. It is feasible where there is a schedule."""
    return SolveStatus.FEASIBLE if solve.best else SolveStatus.CANCELLED


def _capitalized(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


_ENOUGH = 0.999  # a bound below a cost by more than this does not prove it optimal


def is_false(ended: SolveEnded, budget_bytes: int, what_if: WhatIf) -> bool:
    """Return whether a solve's claims contradict a checked schedule. ``budget_bytes``: what was asked."""
    if ended.assumptions:
        return False
    infeasible = ended.status is SolveStatus.INFEASIBLE
    bound = math.inf if infeasible else ended.lower_bound or 0.0
    best = what_if.best_for(budget_bytes)
    unproved = ended.status is SolveStatus.OPTIMAL and (best is None or bound < best.cost * _ENOUGH)
    return unproved or what_if.contradicts(budget_bytes, bound)


def is_false_least(bound_bytes: int, what_if: WhatIf, aim: Aim, *, optimal: bool = False) -> bool:
    """Return whether a bound on the peak contradicts a checked schedule.

    ``optimal``: it is also said that none is smaller than the best one that was found.
    """
    best = what_if.least_within(aim.max_overhead)
    if best is None:
        return optimal
    return bound_bytes > best.peak_bytes or (optimal and bound_bytes < best.peak_bytes * _ENOUGH)
