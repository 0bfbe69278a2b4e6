"""The independent check of large schedules, in a process of its own: at 10,000 ops it would be felt in the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.state.knowledge import WhatIf
from app.workers.process import WorkerProcess
from checkmate.ir.graph import Graph
from checkmate.ir.report import CheckReport, Violation


@dataclass(frozen=True)
class Checked:
    """What the check of one schedule found: under the constraints, and without them."""

    limited: CheckReport
    plain: CheckReport


class Checking(QObject):
    """Signals: ``checked(ticket, Checked)`` in the order of asking; ``died()``: what was asked will not be answered."""

    checked = Signal(int, object)
    died = Signal()

    def __init__(self, graph_body: Callable[[], bytes], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._graph_body = graph_body
        self.process = WorkerProcess("checkmate.workers.checker", self)
        self.process.received.connect(self._on_received)
        self.process.died.connect(self._on_died)
        self._graph: Graph | None = None
        self._questions: list[WhatIf] = []
        self._tickets = 0

    def ask(self, what_if: WhatIf, body: bytes) -> int:
        """Have the schedule (int32 steps) of ``what_if``'s graph, the explored one, checked; the ticket of the answer."""
        if self._graph is not what_if.graph:
            self._graph, self._questions = what_if.graph, []
            self.process.send({"type": "graph", "name": what_if.graph.name}, self._graph_body())
        if what_if not in self._questions:
            self._questions.append(what_if)
            number = len(self._questions) - 1
            self.process.send(
                {"type": "question", "question": number, "constraints": what_if.constraints.to_json()}
            )
        self._tickets += 1
        question = self._questions.index(what_if)
        self.process.send({"type": "check", "ticket": self._tickets, "question": question}, body)
        return self._tickets

    def close(self) -> None:
        """End the process."""
        self.process.close()

    def _on_received(self, header: dict[str, Any], body: bytes) -> None:
        if header["type"] == "checked":
            reports = Checked(_report(header["report"]), _report(header["plain"]))
            self.checked.emit(int(header["ticket"]), reports)

    def _on_died(self, sentence: str) -> None:
        self._graph = None  # the next process knows nothing of it
        self.died.emit()


def _report(facts: dict[str, Any]) -> CheckReport:
    violations = tuple(Violation(str(message)) for message in facts["violations"])
    numbers = {
        name: facts[name] for name in ("peak_bytes", "peak_step", "cost", "base_cost", "recomputations")
    }
    return CheckReport(violations=violations, **numbers)
