"""The explored model at other batches and at other input sizes, and the ways back.

At another batch the graph is scaled at once. At another input size the model is traced; between the traced
sizes, memory is on a parabola. Either is solved there, and the known schedules come along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.models.opening import Opened
from app.models.session import Session
from app.state.knowledge import ListedSchedule
from app.workers.background import Background, later
from app.workers.client import Client
from checkmate.formats.exploration import SavedExploration
from checkmate.formats.graph import unpack_graph
from checkmate.ir import Graph, Schedule
from checkmate.largest.input_size import alike
from checkmate.largest.reach import NEEDED, InputLevels, Reach
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.simulate import simulate
from checkmate.processes.messages import JobFailed, Message
from checkmate.request import ModelRequest
from checkmate.solvers.constraints import Constraints
from checkmate.workers.window_messages import Profile, ProfiledGraph

_SOON_MS = 400  # schedules come in many at a time
_CARRIED, _LARGE = 24, 2000  # schedules; of a graph with more ops, the smallest alone
_MOST_LEVEL = 256
_SILENT_S = 600.0  # without a word, after which a trace is taken for lost: a model may take minutes
_IDLE_MS = 120_000  # after which the process that traces, which holds TensorFlow, is ended


def _carried(known: Sequence[ListedSchedule]) -> tuple[ListedSchedule, ...]:
    most = _CARRIED if known[0].graph.n <= _LARGE else 1
    return tuple(known[:: -(-len(known) // most)])


def _opened(
    graph: Graph, budget_bytes: int, constraints: Constraints | None, carried: Sequence[ListedSchedule]
) -> Opened:
    """Open ``graph`` with the schedules ``carried`` over from another size, replayed at this one."""
    told = None if constraints is None else constraints.to_json()
    opened = Opened.of(graph, SavedExploration(graph, budget_bytes, (), (), told))
    for one in carried:
        opened.what_if.insert(
            one.schedule.steps.tolist(), budget_bytes=None, solver=one.solver, seconds=one.seconds
        )
    return opened


class _Scale(QObject):
    """The model at other sizes, of its batch or of its input, and the way back to the profiled one.

    ``base``: the profiled graph. ``reach``: the memory of known schedules at other sizes; None until it is
    computed. Signal ``changed``: ``base``, ``reach`` or the budget has changed.
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
        session.exploration.graph_changed.connect(self._on_graph)
        session.exploration.budget_changed.connect(self.changed)

    def _on_graph(self) -> None:
        raise NotImplementedError

    def _on_read(self, found: Any) -> None:
        raise NotImplementedError

    def _on_failed(self, sentence: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._reading.close()


class BatchScale(_Scale):
    """The graph at other batches. ``asked``: the batch last asked for; 0 if none was."""

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(session, parent)
        self._replayed = frozenset[bytes]()  # keys of the schedules in ``reach``
        self.asked = 0
        self._budget = 0, 0  # the user's budget, and the slider's after the last scaling
        self._refused: Graph | None = None  # a graph that does not grow with the batch
        self._soon = later(self, _SOON_MS, self._read)
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
        super().close()

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
            scaling = BatchScaling(base)
            graphs = {batch: scaling.at(batch) for batch in (scaling.batch, 2 * scaling.batch)}
            return base, schedules, Reach.of(graphs, plans, scaling.largest())

        if not self._reading.start(work):
            self._soon.start()

    def _on_read(self, found: tuple[Graph, frozenset[bytes], Reach]) -> None:
        if found[0] is self.base:
            _, self._replayed, self.reach = found
            self.changed.emit()

    def _on_failed(self, sentence: str) -> None:
        self._refused = self.base
        self.changed.emit()


class SizeTracer(QObject):
    """Traces a model at one size after the other, in a process; nothing is measured."""

    traced = Signal(bytes)
    failed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = Client("device", "checkmate.workers.device", self, silent_s=_SILENT_S)
        self._client.answered.connect(self._on_answer)
        self._client.failed.connect(self._on_failed)
        self._idle = later(self, _IDLE_MS, self._client.process.stop)

    def ask(self, request: ModelRequest) -> None:
        self._idle.stop()
        self._client.send(Profile(self._client.next_job(), request, "analytic"))

    def forget(self) -> None:
        self._client.end()
        self._idle.start()

    def close(self) -> None:
        self._idle.stop()
        self._client.close()

    def _on_answer(self, message: Message) -> None:
        if isinstance(message, ProfiledGraph) and not message.estimated:
            self.forget()
            self.traced.emit(message.graph)

    def _on_failed(self, failed: JobFailed) -> None:
        self._idle.start()
        self.failed.emit(failed.sentence)


class InputScale(_Scale):
    """The model at other sizes of its input, ``levels``; ``problem``: why no further size can be said."""

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(session, parent)
        self.levels: InputLevels | None = None
        self.problem = ""
        self._traced: dict[int, Graph] = {}
        self._queue: list[int] = []  # levels to trace; the first is being traced
        self._wanted = 0  # the level to be explored once it is traced
        self._opening: Graph | None = None  # the traced graph that is being opened
        self._tracer = SizeTracer(self)
        self._tracer.traced.connect(self._on_traced)
        self._tracer.failed.connect(self._on_failed)
        session.exploration.passing_changed.connect(self.changed)

    @property
    def possible(self) -> bool:
        exploration = self._exploration
        graph = exploration.graph
        known = graph is not None and self.levels is not None and not graph.origin.extrapolated_from_batch
        return known and not exploration.passing

    @property
    def level(self) -> int:
        graph = self._exploration.graph
        levels = None if graph is None else InputLevels.of_graph(graph)
        if levels is None or self.levels is None:
            return 0
        return levels.shape[0] // self.levels.unit[0]

    @property
    def busy(self) -> bool:
        return bool(self._queue)

    @property
    def way_back(self) -> Callable[[], None] | None:
        elsewhere = self._exploration.graph is not self.base and self.level
        return self._back if elsewhere else None

    def prepare(self) -> None:
        if self.levels is not None and self.reach is None and not self._queue:
            self.problem = ""
            self._queue = [level for level in self.levels.to_trace if level not in self._traced]
            self._next()

    def ask(self, level: int) -> None:
        if self.levels is None or level == self.level:
            return
        self._wanted, self.problem = level, ""
        if level in self._traced:
            self._explore(level)
            return
        self._queue = [level]
        self._next()

    def close(self) -> None:
        super().close()
        self._tracer.close()

    def _request(self, level: int) -> ModelRequest:
        assert self.base is not None and self.levels is not None
        request = ModelRequest.from_json(self.base.origin.request)
        return replace(
            request.at_batch(self.base.batch_size or request.batch_size), input_shape=self.levels.at(level)
        )

    def _next(self) -> None:
        if self._queue:
            self._tracer.ask(self._request(self._queue[0]))
        self.changed.emit()

    def _on_graph(self) -> None:
        graph = self._exploration.graph
        if graph is None or graph.origin.extrapolated_from_batch:
            self.changed.emit()
            return
        if graph is self._opening:
            self._opening = None
            QTimer.singleShot(0, self, self._session.solve)
        if graph is not self.base and all(graph is not one for one in self._traced.values()):
            self._tracer.forget()
            self.base, self.levels = graph, InputLevels.of_graph(graph)
            self.reach, self._back, self.problem, self._wanted = None, None, "", 0
            self._queue = []
            self._traced = {} if self.levels is None else {self.levels.level: graph}
        self.changed.emit()

    def _on_traced(self, body: bytes) -> None:
        base, level = self.base, self._queue[0] if self._queue else 0
        if base is None or not level:
            return
        traced, plans = dict(self._traced), [one.schedule.steps.tolist() for one in self._carried()]

        def work() -> tuple[int, Graph, Reach | None]:
            graph = traced[level] = unpack_graph(body)
            same = {at: one for at, one in traced.items() if alike(base, one)}
            return level, graph, _reach(same, plans)

        if not self._reading.start(work):
            QTimer.singleShot(100, self, lambda: self._on_traced(body))

    def _on_read(self, found: tuple[int, Graph, Reach | None]) -> None:
        level, graph, reach = found
        if not self._queue or self._queue[0] != level:
            return  # another graph is open
        self._traced[level] = graph
        self._queue.pop(0)
        self.reach = self.reach or reach
        if not self._queue and self.reach is None and len(self._traced) >= NEEDED:
            self.problem = "The step is another at that size, so that no other can be estimated"
        if level == self._wanted:
            self._explore(level)
        self._next()

    def _on_failed(self, sentence: str) -> None:
        self._queue, self._wanted, self.problem = [], 0, sentence
        self.changed.emit()

    def _carried(self) -> tuple[ListedSchedule, ...]:
        known, base = self._exploration.known, self.base
        if not known or base is None or not alike(base, known[0].graph):
            return ()
        return _carried(known)

    def _explore(self, level: int) -> None:
        graph, exploration = self._traced[level], self._exploration
        self._wanted = 0
        if graph is self.base:
            if self._back is not None:
                self._back()
            return
        if exploration.graph is self.base:
            self._back = self._session.way_back()
        self._opening = graph
        budget = exploration.budget_bytes
        carried = [one for one in self._carried() if alike(one.graph, graph)]
        constraints = exploration.constraints if carried else None  # they may name ops that do not exist here

        def make() -> Opened:
            peak = simulate(graph, Schedule.plain(graph)).peak_bytes
            return _opened(graph, min(budget, peak), constraints, carried)

        self._session.open_made(make)


def _reach(traced: Mapping[int, Graph], plans: Sequence[list[int]]) -> Reach | None:
    if len(traced) < NEEDED:
        return None
    return Reach.of(dict(sorted(traced.items())[:NEEDED]), plans, _MOST_LEVEL)
