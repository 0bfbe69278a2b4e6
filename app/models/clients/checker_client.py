"""The independent check of large schedules, in a process of its own.

At 10,000 ops it would hold up the window.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app.state.knowledge import WhatIf
from app.workers.process import WorkerProcess
from checkmate.ipc.messages import Message
from checkmate.ir.graph import Graph
from checkmate.workers.messages.checker import Checked, CheckSchedule, ConstraintsToCheck, GraphToCheck
from checkmate.workers.messages.table import WINDOW_MESSAGES

_SILENT_S = 60.0  # after which a check that was asked for is taken for lost


class Checking(QObject):
    """Has schedules checked by the checker process.

    Signals: ``checked(Checked)`` in the order of asking; ``died()``: what was asked will not be answered.
    """

    checked = Signal(object)
    died = Signal()

    def __init__(self, graph_body: Callable[[], bytes], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._graph_body = graph_body
        self.process = WorkerProcess("checkmate.workers.checker", WINDOW_MESSAGES, self)
        self.process.received.connect(self._on_received)
        self.process.died.connect(self._on_died)
        self._graph: Graph | None = None
        self._questions: list[WhatIf] = []
        self._tickets = 0
        self._open: set[int] = set()  # tickets without an answer

    def ask(self, what_if: WhatIf, body: bytes) -> int:
        """Have a schedule checked; return the ticket of the answer.

        ``what_if``: what the schedule is of; its graph is the explored one. ``body``: the schedule's op
        indices in order, int32.
        """
        if self._graph is not what_if.graph:
            self._graph, self._questions = what_if.graph, []
            self.process.send(GraphToCheck(what_if.graph.name, self._graph_body()))
        if what_if not in self._questions:
            self._questions.append(what_if)
            self.process.send(ConstraintsToCheck(len(self._questions) - 1, what_if.constraints))
        self._tickets += 1
        question = self._questions.index(what_if)
        self._open.add(self._tickets)
        self.process.send(CheckSchedule(self._tickets, question, body))
        self.process.expect(_SILENT_S)
        return self._tickets

    def close(self) -> None:
        """End the process, and forget what it was asked."""
        self.process.close()
        self._graph, self._questions = None, []

    def _on_received(self, message: Message) -> None:
        if isinstance(message, Checked):
            self._open.discard(message.ticket)
            self.process.expect(_SILENT_S if self._open else None)
            self.checked.emit(message)

    def _on_died(self, sentence: str) -> None:
        self._open.clear()
        self._graph = None  # the next process does not have it
        self.died.emit()
