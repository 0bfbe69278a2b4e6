"""A second graph, which is compared with the explored one."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.models.clients.solver_client import SolverClient
from app.models.exploration import Exploration
from app.models.opening.opening import Opened, Opening, read_opened
from app.presenters.graph_comparison import Side, within
from app.state.knowledge import ListedSchedule
from checkmate.errors import CheckmateError


def side_of(name: str, exploration: Exploration, shown: ListedSchedule | None = None) -> Side | None:
    """Return one side of a comparison; its curve is of ``shown``, or plain."""
    plain = exploration.plain
    if plain is None:
        return None
    return Side(name, shown or plain, plain, tuple(exploration.known))


class OtherGraph(QObject):
    """Hold a graph from a file, and the process that fills its frontier.

    Attributes:
        exploration: what is known of it; without a graph until it is read.
        file: where it was read.

    Signals: ``opened``; ``failed(sentence, hint)``.
    """

    opened = Signal()
    failed = Signal(str, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.exploration = Exploration(self)
        self.solving = SolverClient(self.exploration, self)
        self.file = Path()
        self._opening = Opening(self, replaces=False)
        self._opening.opened.connect(self._on_opened)
        self._opening.failed.connect(self.failed)

    @property
    def busy(self) -> bool:
        """Return whether a file is being read."""
        return self._opening.busy

    def open(self, path: Path) -> None:
        """Read a graph or an exploration in a thread. Only the last one that was asked for counts."""
        self._opening.start(lambda: read_opened(path))

    def best_within(self, budget_bytes: int) -> ListedSchedule | None:
        """Return the best known schedule within a budget. None: there is no graph yet."""
        known = self.exploration.known
        return within(known, budget_bytes) if known else None

    def close(self) -> None:
        """End the work on it, for good, and let go of all that is known of it."""
        self._opening.forget()
        self.solving.close()
        self.exploration.forget()
        self.deleteLater()

    def _on_opened(self, opened: Opened) -> None:
        try:
            if opened.saved is not None:
                self.exploration.restore(opened.saved, opened.what_if)
            else:
                self.exploration.set_graph(opened.what_if.graph, opened.what_if)
        except CheckmateError as error:
            self.failed.emit(str(error), error.hint)
            return
        assert opened.file is not None
        self.file = opened.file
        self.solving.know_body(opened.what_if.graph, opened.body)
        self.solving.send_graph()
        QTimer.singleShot(0, self, self.opened.emit)  # what is made of it then is another turn's work
