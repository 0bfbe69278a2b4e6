"""The solver process: what is asked of it, and how what comes back reaches the exploration."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from app.models.checker_client import Checked, Checking
from app.models.exploration import Exploration
from app.state.knowledge import WhatIf
from app.workers.process import WorkerProcess
from checkmate.formats.graph import graph_to_json
from checkmate.ir.graph import Graph

SOLVE_SECONDS = 10.0
_CANCEL_PATIENCE_MS, _PER_OP_MS = 300, 0.2  # of a large graph even the last check takes a while
_MOST_WORKERS = 4
_REMEMBERED = 8  # checks
_AT_ONCE = 1000  # steps; the check of more is felt (about 10 ms a thousand)


@dataclass
class _News:
    """A message, and the check of the schedule in it where that is made elsewhere (``ticket``, not 0)."""

    header: dict[str, Any]
    body: bytes
    ticket: int = 0
    checked: Checked | None = None

    @property
    def unchecked(self) -> bool:
        """Whether the check is still to come."""
        return self.ticket != 0 and self.checked is None


class Solving(QObject):
    """One solve at a time, the newest; whatever is found goes to the frontier that it belongs to.

    Signals: ``failed(sentence, hint)``; ``noticed(sentence)``; ``settled()`` when a solve has ended.
    """

    failed = Signal(str, str)
    noticed = Signal(str)
    settled = Signal()

    def __init__(self, exploration: Exploration, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exploration = exploration
        self.process = WorkerProcess("checkmate.workers.solver", self)
        self.process.received.connect(self._on_received)
        self.process.died.connect(self._on_died)
        self._jobs = itertools.count(1)
        self._questions: dict[int, WhatIf] = {}  # what the process was asked about, by number
        self._body: tuple[Graph | None, bytes] = (None, b"")
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(_CANCEL_PATIENCE_MS)
        self._patience.timeout.connect(self._on_patience_over)
        # What came and is not handled yet: news stay in order, and those with a large schedule wait for its check.
        self._arrived: deque[_News] = deque()
        self._checked: Checked | None = None  # of the news being handled
        self.checking = Checking(self.graph_body, self)
        self.checking.checked.connect(self._on_checked)
        self.checking.died.connect(self._on_checker_died)
        # What was asked last, and the answers: a solve begins with what is known and ends with its best, both checked before.
        self._asked: deque[tuple[WhatIf, bytes, int]] = deque(maxlen=_REMEMBERED)
        self._answers: dict[int, Checked] = {}
        self._held = False
        # The solver's processes; they run at a lower priority.
        self.workers = max(1, min(_MOST_WORKERS, os.cpu_count() or 1))

    def send_graph(self) -> None:
        """The graph and its constraints, with what is known of both."""
        graph, what_if = self._exploration.graph, self._exploration.what_if
        if graph is None or what_if is None or self._held:
            return
        body = self.graph_body()
        question = next(self._jobs)
        self._questions[question] = what_if
        header = {"type": "graph", "name": graph.name, "workers": self.workers, "question": question}
        self.process.send({**header, "constraints": what_if.constraints.to_json()}, body)
        self.send_schedules(what_if)
        for budget, bound in what_if.frontier.bounds:
            value = None if math.isinf(bound) else bound
            self.process.send({"type": "known_bound", "budget_bytes": budget, "lower_bound": value})

    def graph_body(self) -> bytes:
        """The explored graph as a file's JSON; made once."""
        graph = self._exploration.graph
        assert graph is not None
        if self._body[0] is not graph:
            self.know_body(graph, json.dumps(graph_to_json(graph)).encode("utf-8"))
        return self._body[1]

    def know_body(self, graph: Graph, body: bytes) -> None:
        """``body`` is ``graph`` as a file's JSON: it need not be made again once that is explored."""
        self._body = (graph, body)
        for about_another in (self._questions, self._asked, self._answers):
            about_another.clear()

    def send_schedules(self, what_if: WhatIf | None) -> None:
        """What is known already, to a process that is new or has a new question."""
        for point in () if what_if is None or self._held else what_if.frontier:
            self.process.send({"type": "known", "solver": point.solver}, point.schedule.steps.tobytes())

    def solve(self, seconds: float | None = None) -> None:
        """Solve for where the slider stands, a budget or an aim; a running solve is superseded. Nothing while held."""
        if self._exploration.graph is None or self._held:
            return
        self._patience.stop()
        job, aim = next(self._jobs), self._exploration.aim
        self._exploration.begin_solve(job)
        header = {"job": job, "supersedes": True, "time_limit_s": seconds or SOLVE_SECONDS}
        if aim is None:
            self.process.send({"type": "solve", "budget_bytes": self._exploration.budget_bytes, **header})
        else:
            self.process.send(
                {"type": "least", "max_overhead": aim.max_overhead if aim.limited else None, **header}
            )

    def stop(self) -> None:
        """End the running solve and keep its best schedule; a process that does not listen is replaced."""
        solve = self._exploration.solve
        if solve is not None and solve.running:
            self.process.send({"type": "cancel", "job": solve.job})
            self._patience.start(int(_CANCEL_PATIENCE_MS + _PER_OP_MS * solve.what_if.graph.n))

    def hold(self) -> None:
        """Nothing is solved until ``release``: something is being measured, and what runs beside it would be measured too."""
        if self._held:
            return
        self._held = True
        self._patience.stop()
        self.process.stop()
        self._exploration.set_preparing("")
        self._arrived.clear()
        solve = self._exploration.solve
        if solve is not None and solve.running:
            self._end("feasible" if solve.best else "cancelled", "stopped, to measure")

    def release(self) -> bool:
        """Solves are made again; whether it was held, and the solver has been sent the graph now."""
        held, self._held = self._held, False
        if held:
            self.send_graph()
        return held

    def close(self) -> None:
        """End the process."""
        self._patience.stop()
        self.process.close()
        self.checking.close()

    def _on_patience_over(self) -> None:
        solve = self._exploration.solve
        if solve is not None and solve.running:
            self.process.restart()
            self._arrived.clear()
            self.send_graph()
            self._end("feasible" if solve.best else "cancelled", "stopped")

    def _end(self, status: str, message: str) -> None:
        solve = self._exploration.solve
        if solve is None:
            return
        solve.status, solve.message = status, message
        solve.seconds = time.monotonic() - solve.started
        self._exploration.solve_changed.emit()
        self.settled.emit()

    def _on_received(self, header: dict[str, Any], body: bytes) -> None:
        if header["type"] in ("preparing", "prepared"):
            self._on_preparing(str(header["message"]), over=header["type"] == "prepared")
            return
        what_if = self._question_of(header)
        ticket = 0
        if what_if is not None and what_if.graph is self._exploration.graph and len(body) > 4 * _AT_ONCE:
            ticket = self._ticket(what_if, body)
        if header["type"] == "done" and what_if is not None:
            self._patience.stop()  # it listens; only the check of what it found is still to come
        self._arrived.append(_News(header, body, ticket, self._answers.get(ticket)))
        self._handle()

    def _on_preparing(self, message: str, *, over: bool) -> None:
        sentence = message[:1].upper() + message[1:]
        self._exploration.set_preparing("" if over else sentence)
        if over:
            self.noticed.emit(f"{sentence}.")

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

    def _question_of(self, header: dict[str, Any]) -> WhatIf | None:
        """What the news are about; None where that is no longer asked."""
        if "question" in header:
            return self._questions.get(int(header["question"]))
        solve = self._exploration.solve
        return None if solve is None or header.get("job") != solve.job else solve.what_if

    def _on_checked(self, ticket: int, checked: Checked) -> None:
        self._answers = {
            number: self._answers[number] for _, _, number in self._asked if number in self._answers
        }
        self._answers[ticket] = checked
        for news in self._arrived:
            if news.ticket == ticket:
                news.checked = checked
        self._handle()

    def _handle(self, *, wait: bool = True) -> None:
        """What came, up to a schedule whose check is still to come; unless ``wait``, that is made here."""
        while self._arrived and (not wait or not self._arrived[0].unchecked):
            self._on_news_of(self._arrived.popleft())

    def _on_news_of(self, news: _News) -> None:
        header, body, self._checked = news.header, news.body, news.checked
        kind = header["type"]
        if kind in ("range", "known_bound", "point"):
            what_if = self._questions.get(int(header["question"]))
            if what_if is not None:  # else of a graph that is no longer explored
                self._on_known(kind, header, body, what_if)
        elif kind == "error":
            self._end("failed", str(header["message"]))
            self.failed.emit(str(header["message"]), str(header.get("hint", "")))
        else:
            self._on_news(kind, header, body)

    def _on_known(self, kind: str, header: dict[str, Any], body: bytes, what_if: WhatIf) -> None:
        if kind == "range":
            self._exploration.set_range(header, what_if)
        elif kind == "known_bound":
            self._exploration.add_bound(int(header["budget_bytes"]), header["lower_bound"], what_if)
        else:
            self._take(header, body, what_if)

    def _on_news(self, kind: str, header: dict[str, Any], body: bytes) -> None:
        solve = self._exploration.solve
        if solve is None or header.get("job") != solve.job:
            return  # of a solve that was superseded
        elapsed = time.monotonic() - solve.started
        facts = {"budget_bytes": solve.budget_bytes, "solver": "auto", "solve_seconds": elapsed}
        if kind == "incumbent":
            solve.best.append((elapsed, float(header["cost"])))
            self._take(facts, body, solve.what_if)
        elif kind == "bound":
            solve.proved(elapsed, float(header["lower_bound"]))
            if not header["assumptions"]:
                self._exploration.add_bound(solve.budget_bytes, solve.lower_bound, solve.what_if)
        elif kind == "smaller":
            solve.found(elapsed, float(header["peak_bytes"]))
            self._take({**facts, "budget_bytes": header["peak_bytes"]}, body, solve.what_if)
        elif kind == "bound_bytes":
            self._on_least_bound(elapsed, int(header["lower_bound_bytes"]))
        elif kind == "done":
            self._on_done(header, body, elapsed)
        self._exploration.solve_changed.emit()

    def _on_least_bound(self, elapsed: float, bound: int) -> None:
        """No schedule within the aim's cost is smaller: within less memory, every schedule costs more."""
        solve = self._exploration.solve
        assert solve is not None and solve.aim is not None
        solve.proved(elapsed, float(bound))
        cap = solve.what_if.cost_cap(solve.aim.max_overhead)
        self._exploration.add_bound(bound - 1, cap, solve.what_if)

    def _on_done(self, header: dict[str, Any], body: bytes, elapsed: float) -> None:
        solve = self._exploration.solve
        assert solve is not None
        solve.details = header
        least = header.get("least")
        if body:
            solve.found(elapsed, float(header["cost" if least is None else "peak_bytes"]))
            self._take(header, body, solve.what_if)
        bound = header.get("lower_bound") if least is None else least["lower_bound_bytes"]
        if bound is not None and not header.get("assumptions"):
            if solve.aim is None:
                solve.proved(elapsed, float(bound))
            else:
                self._on_least_bound(elapsed, int(bound))
        self._end(str(header["status"]), str(header.get("message", "")))

    def _take(self, facts: dict[str, Any], body: bytes, what_if: WhatIf) -> None:
        held = self._exploration.add(
            np.frombuffer(body, np.int32),
            budget_bytes=int(facts["budget_bytes"]),
            solver=str(facts.get("solver", "")),
            seconds=float(facts.get("solve_seconds", 0.0)),
            what_if=what_if,
            checked=self._checked,
        )
        if not held:
            self.noticed.emit(
                "A schedule from the solver did not hold up to the independent check and was dropped."
            )

    def _on_died(self, sentence: str) -> None:
        self._handle(wait=False)
        self._exploration.set_preparing("")
        if self._exploration.graph is None:
            self.noticed.emit(sentence)
        else:
            self.failed.emit(sentence, "It was started again; move the budget to solve.")
        self.send_graph()
        solve = self._exploration.solve
        if solve is not None and solve.running:
            self._end("failed", "the solver process ended; move the budget to solve again")
