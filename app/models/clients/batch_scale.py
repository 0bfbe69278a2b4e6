"""The explored graph at other batches, and the way back.

It is scaled at once, and solved there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.models.opening.opening import Opened
from app.models.session import Session
from app.presenters.wording import SCALED_FROM
from app.state.knowledge import ListedSchedule
from app.workers.background import Background
from checkmate.formats.exploration import SavedExploration
from checkmate.ir.graph import Graph
from checkmate.largest.reach import Reach
from checkmate.largest.scaling import BatchScaling
from checkmate.solvers.constraints import Constraints

_SOON_MS = 400  # schedules come in many at a time
_CARRIED, _LARGE = 24, 2000  # schedules; of a graph with more ops, the smallest alone


class BatchScale(QObject):
    """The graph as it was profiled, and what it is at other batches.

    Attributes:
        base: the graph that others are scaled from; the explored one, or what that was scaled from.
        reach: how far budgets reach; None until that is known, or where the batch is not.
        asked: the batch that was asked for here last; 0 if none was.

    Signals: ``changed``: one of them is another, or the budget is.
    """

    changed = Signal()

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.base: Graph | None = None
        self.reach: Reach | None = None
        self._replayed = frozenset[bytes]()  # the schedules that it is of
        self.asked = 0
        self._back: Callable[[], None] | None = None
        self._budget = 0, 0  # what was wanted, and what the slider was put on
        self._found: list[tuple[Graph, frozenset[bytes], Reach]] = []
        self._refused: Graph | None = None  # it does not grow with the batch
        self._reading = Background(self)
        self._reading.done.connect(self._on_read)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(_SOON_MS)
        self._soon.timeout.connect(self._read)
        exploration = session.exploration
        exploration.graph_changed.connect(self._on_graph)
        exploration.known_changed.connect(self._on_known)
        exploration.budget_changed.connect(self.changed)

    @property
    def batch(self) -> int:
        """Return the batch of the explored graph; 0 if it is not known."""
        graph = self._session.exploration.graph
        return 0 if graph is None else graph.batch_size or 0

    @property
    def possible(self) -> bool:
        """Return whether the explored graph can be scaled, as far as is known yet."""
        base = self.base
        if base is None or base is self._refused:
            return False
        return bool(base.batch_size) and SCALED_FROM not in base.metadata

    @property
    def scaled(self) -> bool:
        """Return whether what is explored was scaled from ``base``."""
        return self.base is not None and self._session.exploration.graph is not self.base

    @property
    def way_back(self) -> Callable[[], None] | None:
        """Return what opens the graph that was profiled again. None if it is open or gone."""
        return self._back if self.scaled else None

    def remember(self) -> None:
        """Remember how to open the profiled graph again. A scaled one is about to take its place."""
        if not self.scaled:
            self._back = self._session.way_back()

    def ask(self, batch: int) -> None:
        """Explore the graph at a batch, and solve for the budget there. The known schedules come along."""
        reach, base = self.reach, self.base
        if reach is None or base is None or batch == self.batch:
            return
        if batch == base.batch_size and self._back is not None:
            self.asked = 0
            self._back()
            return
        self.remember()
        self.asked = batch
        exploration = self._session.exploration
        wanted, put = self._budget
        wanted = wanted if put == exploration.budget_bytes else exploration.budget_bytes
        budget = min(wanted, reach.plain.peak(batch))
        self._budget = wanted, budget
        carried, constraints = self._carried(), exploration.constraints
        self._session.open_made(lambda: _scaled(base, batch, budget, constraints, carried))

    def close(self) -> None:
        """End the work in the thread."""
        self._soon.stop()
        self._reading.close(0.0)

    def _carried(self) -> tuple[ListedSchedule, ...]:
        """Return schedules of the explored graph, the smallest first. They run at any batch."""
        known = self._session.exploration.known
        most = _CARRIED if known[0].graph.n <= _LARGE else 1
        return tuple(known[:: -(-len(known) // most)])

    def _on_graph(self) -> None:
        graph = self._session.exploration.graph
        if graph is not None and graph is not self.base and not self._is_scaled(graph):
            self.base, self.reach, self._back, self.asked, self._refused = graph, None, None, 0, None
        if graph is not None and self.asked and graph.batch_size == self.asked:
            QTimer.singleShot(0, self, self._session.solve)
        self.changed.emit()

    def _is_scaled(self, graph: Graph) -> bool:
        base = self.base
        return (
            base is not None
            and SCALED_FROM in graph.metadata
            and (graph.name, graph.n, graph.m) == (base.name, base.n, base.m)
        )

    def _on_known(self) -> None:
        if not self._soon.isActive():
            self._soon.start()

    def _read(self) -> None:
        """Replay the known schedules at two batches, in a thread."""
        base, exploration = self.base, self._session.exploration
        if base is None or not self.possible or exploration.passing:
            return
        carried = self._carried()
        schedules = frozenset(one.key for one in carried)
        if self.reach is not None and self._replayed == schedules:
            return
        plans = [one.schedule.steps.tolist() for one in carried]

        def work() -> None:
            scaling = BatchScaling(base)
            graphs = {batch: scaling.at(batch) for batch in (scaling.batch, 2 * scaling.batch)}
            reach = Reach.of(graphs, plans, scaling.largest())
            self._found.append((base, schedules, reach))

        if not self._reading.start(work):
            self._soon.start()

    def _on_read(self, problem: str) -> None:
        found = self._found.pop() if self._found else None
        if problem:
            self._refused = self.base
            self.changed.emit()
        if found is not None and found[0] is self.base:
            _, self._replayed, self.reach = found
            self.changed.emit()


def _scaled(
    base: Graph,
    batch: int,
    budget_bytes: int,
    constraints: Constraints,
    carried: Sequence[ListedSchedule],
) -> Opened:
    """Scale the graph, with what is known of it.

    What is known at another batch is known there, with other figures.
    """
    graph = BatchScaling(base).at(batch)
    opened = Opened.of(graph, SavedExploration(graph, budget_bytes, (), (), constraints.to_json()))
    for one in carried:
        opened.what_if.insert(
            one.schedule.steps.tolist(), budget_bytes=None, solver=one.solver, seconds=one.seconds
        )
    return opened
