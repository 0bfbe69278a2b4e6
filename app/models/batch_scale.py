"""The explored graph at other batches, and the way back.

The graph is scaled at once and solved there, and the known schedules come along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.models.opening import Opened
from app.models.session import Session
from app.state.knowledge import ListedSchedule
from app.workers.background import Background, later
from checkmate.formats.exploration import SavedExploration
from checkmate.ir import Graph
from checkmate.largest.reach import Reach
from checkmate.largest.scaling import BatchScaling
from checkmate.solvers.constraints import Constraints

_SOON_MS = 400  # schedules come in many at a time
_CARRIED, _LARGE = 24, 2000  # schedules; of a graph with more ops, the smallest alone


def _carried(known: Sequence[ListedSchedule]) -> tuple[ListedSchedule, ...]:
    most = _CARRIED if known[0].graph.n <= _LARGE else 1
    return tuple(known[:: -(-len(known) // most)])


def _opened(
    graph: Graph, budget_bytes: int, constraints: Constraints | None, carried: Sequence[ListedSchedule]
) -> Opened:
    """Open ``graph`` with schedules known at another batch, whose peaks and costs differ here."""
    told = None if constraints is None else constraints.to_json()
    opened = Opened.of(graph, SavedExploration(graph, budget_bytes, (), (), told))
    for one in carried:
        opened.what_if.insert(
            one.schedule.steps.tolist(), budget_bytes=None, solver=one.solver, seconds=one.seconds
        )
    return opened


class BatchScale(QObject):
    """The graph at other batches, and the way back to the profiled one.

    ``base``: the profiled graph. ``reach``: the memory of known schedules at other batches; None until it is
    known. ``asked``: the batch last asked for; 0 if none was. Signal ``changed``: ``base``, ``reach`` or the
    budget is another.
    """

    changed = Signal()

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session, self._exploration = session, session.exploration
        self.base: Graph | None = None
        self.reach: Reach | None = None
        self._back: Callable[[], None] | None = None
        self._reading = Background(self)
        self._reading.done.connect(self._on_read)
        self._reading.failed.connect(self._on_failed)
        self._replayed = frozenset[bytes]()  # the schedules that ``reach`` is of
        self.asked = 0
        self._budget = 0, 0  # what was wanted, and what the slider was put on
        self._refused: Graph | None = None  # it does not grow with the batch
        self._soon = later(self, _SOON_MS, self._read)
        session.exploration.graph_changed.connect(self._on_graph)
        session.exploration.budget_changed.connect(self.changed)
        session.exploration.known_changed.connect(self._on_known)

    @property
    def batch(self) -> int:
        graph = self._exploration.graph
        return 0 if graph is None else graph.batch_size or 0

    @property
    def possible(self) -> bool:
        base = self.base
        if base is None or base is self._refused:
            return False
        return bool(base.batch_size) and not base.origin.extrapolated_from_batch

    @property
    def scaled(self) -> bool:
        return self.base is not None and self._exploration.graph is not self.base

    @property
    def way_back(self) -> Callable[[], None] | None:
        return self._back if self.scaled else None

    def remember(self) -> None:
        """Remember the profiled graph, because a scaled one is about to be opened."""
        if not self.scaled:
            self._back = self._session.way_back()

    def ask(self, batch: int) -> None:
        """Explore the graph at a batch, and solve for the budget there."""
        reach, base = self.reach, self.base
        if reach is None or base is None or batch == self.batch:
            return
        if batch == base.batch_size and self._back is not None:
            self.asked = 0
            self._back()
            return
        self.remember()
        self.asked = batch
        exploration = self._exploration
        wanted, put = self._budget
        wanted = wanted if put == exploration.budget_bytes else exploration.budget_bytes
        budget = min(wanted, reach.plain.peak(batch))
        self._budget = wanted, budget
        carried, constraints = _carried(exploration.known), exploration.constraints
        self._session.open_made(lambda: _opened(BatchScaling(base).at(batch), budget, constraints, carried))

    def close(self) -> None:
        self._soon.stop()
        self._reading.close()

    def _on_graph(self) -> None:
        graph = self._exploration.graph
        if graph is not None and graph is not self.base and not self._is_scaled(graph):
            self.base, self.reach, self._back, self.asked, self._refused = graph, None, None, 0, None
        if graph is not None and self.asked and graph.batch_size == self.asked:
            QTimer.singleShot(0, self, self._session.solve)
        self.changed.emit()

    def _is_scaled(self, graph: Graph) -> bool:
        base = self.base
        return (
            base is not None
            and graph.origin.extrapolated_from_batch > 0
            and (graph.name, graph.n, graph.m) == (base.name, base.n, base.m)
        )

    def _on_known(self) -> None:
        if not self._soon.isActive():
            self._soon.start()

    def _read(self) -> None:
        base, exploration = self.base, self._exploration
        if base is None or not self.possible or exploration.passing:
            return
        carried = _carried(exploration.known)
        schedules = frozenset(one.key for one in carried)
        if self.reach is not None and self._replayed == schedules:
            return
        plans = [one.schedule.steps.tolist() for one in carried]

        def work() -> tuple[Graph, frozenset[bytes], Reach]:
            return base, schedules, Reach.of(BatchScaling(base), plans)

        if not self._reading.start(work):
            self._soon.start()

    def _on_read(self, found: tuple[Graph, frozenset[bytes], Reach]) -> None:
        if found[0] is self.base:
            _, self._replayed, self.reach = found
            self.changed.emit()

    def _on_failed(self, sentence: str) -> None:
        self._refused = self.base
        self.changed.emit()
