"""The explored model at other input sizes, and the way back.

It is traced at each size that is asked for. Between the traced sizes, memory is on a parabola.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.models.clients.size_tracer import SizeTracer
from app.models.opening.opening import Opened
from app.models.session import Session
from app.presenters.wording import SCALED_FROM
from app.state.knowledge import ListedSchedule
from app.workers.background import Background
from checkmate.formats.exploration import SavedExploration
from checkmate.formats.graph import graph_from_json
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.largest.input_size import alike
from checkmate.largest.reach import NEEDED, InputLevels, Reach
from checkmate.memory.simulate import simulate
from checkmate.request import ModelRequest
from checkmate.solvers.constraints import Constraints

_CARRIED, _LARGE = 24, 2000  # schedules; of a graph with more ops, the smallest alone
_MOST_LEVEL = 256


class InputScale(QObject):
    """The model as it was profiled, and at other input sizes.

    Attributes:
        base: the graph that was profiled; the explored one, or what that was traced instead of.
        levels: the sizes that its input may have; None if it is not known to be free.
        reach: how far budgets reach; None until three sizes are traced.
        problem: why no further size can be said; empty if nothing is wrong.

    Signals: ``changed``: one of them is another, or a trace begins or ends.
    """

    changed = Signal()

    def __init__(
        self, session: Session, parent: QObject | None = None, tracer: SizeTracer | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self.base: Graph | None = None
        self.levels: InputLevels | None = None
        self.reach: Reach | None = None
        self.problem = ""
        self._traced: dict[int, Graph] = {}
        self._queue: list[int] = []  # levels to trace; the first is being traced
        self._wanted = 0  # the level to be explored once it is traced
        self._back: Callable[[], None] | None = None
        self._opening: Graph | None = None  # the traced graph that is being opened
        self._found: list[tuple[int, Graph, Reach | None]] = []
        self._tracer = tracer or SizeTracer(self)
        self._tracer.traced.connect(self._on_traced)
        self._tracer.failed.connect(self._on_failed)
        self._reading = Background(self)
        self._reading.done.connect(self._on_read)
        session.exploration.graph_changed.connect(self._on_graph)
        session.exploration.budget_changed.connect(self.changed)
        session.exploration.passing_changed.connect(self.changed)

    @property
    def possible(self) -> bool:
        """Return whether the explored model's input may have other sizes."""
        exploration = self._session.exploration
        graph = exploration.graph
        known = graph is not None and self.levels is not None and SCALED_FROM not in graph.metadata
        return known and not exploration.passing

    @property
    def level(self) -> int:
        """Return the level that is explored; 0 if it is not known."""
        graph = self._session.exploration.graph
        levels = None if graph is None else InputLevels.of_graph(graph)
        if levels is None or self.levels is None:
            return 0
        return levels.shape[0] // self.levels.unit[0]

    @property
    def busy(self) -> bool:
        """Return whether a size is being traced."""
        return bool(self._queue)

    @property
    def way_back(self) -> Callable[[], None] | None:
        """Return what opens the profiled graph again; None if it is open."""
        elsewhere = self._session.exploration.graph is not self.base and self.level
        return self._back if elsewhere else None

    def prepare(self) -> None:
        """Trace the two sizes that are needed to speak of others."""
        if self.levels is not None and self.reach is None and not self._queue:
            self.problem = ""
            self._queue = [level for level in self.levels.to_trace if level not in self._traced]
            self._next()

    def ask(self, level: int) -> None:
        """Trace the model at a level; explore it, with the known schedules."""
        if self.levels is None or level == self.level:
            return
        self._wanted, self.problem = level, ""
        if level in self._traced:
            self._explore(level)
            return
        self._queue = [level]
        self._next()

    def close(self) -> None:
        """End the process and the work in the thread."""
        self._reading.close(0.0)
        self._tracer.close()

    def _request(self, level: int) -> ModelRequest:
        assert self.base is not None and self.levels is not None
        request = ModelRequest.from_json(self.base.metadata["request"])
        return replace(
            request.at_batch(self.base.batch_size or request.batch_size), input_shape=self.levels.at(level)
        )

    def _next(self) -> None:
        if self._queue:
            self._tracer.ask(self._request(self._queue[0]))
        self.changed.emit()

    def _on_graph(self) -> None:
        graph = self._session.exploration.graph
        if graph is None or SCALED_FROM in graph.metadata:
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
        """Read the graph, and replay the known schedules, in a thread."""
        base, level = self.base, self._queue[0] if self._queue else 0
        if base is None or not level:
            return
        traced, plans = dict(self._traced), [one.schedule.steps.tolist() for one in self._carried()]

        def work() -> None:
            graph = graph_from_json(Path("traced"), json.loads(body))
            traced[level] = graph
            same = {at: one for at, one in traced.items() if alike(base, one)}
            self._found.append((level, graph, _reach(same, plans)))

        if not self._reading.start(work):
            QTimer.singleShot(100, self, lambda: self._on_traced(body))

    def _on_read(self, problem: str) -> None:
        found = self._found.pop() if self._found else None
        if problem or found is None:
            self._on_failed(problem)
            return
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
        """Return schedules of the explored graph, the smallest first."""
        known = self._session.exploration.known
        base = self.base
        if not known or base is None or not alike(base, known[0].graph):
            return ()
        most = _CARRIED if base.n <= _LARGE else 1
        return tuple(known[:: -(-len(known) // most)])

    def _explore(self, level: int) -> None:
        graph, exploration = self._traced[level], self._session.exploration
        self._wanted = 0
        if graph is self.base:
            if self._back is not None:
                self._back()
            return
        if exploration.graph is self.base:
            self._back = self._session.way_back()
        self._opening = graph
        budget, constraints = exploration.budget_bytes, exploration.constraints
        carried = [one for one in self._carried() if alike(one.graph, graph)]
        self._session.open_made(lambda: _opened(graph, budget, constraints, carried))


def _reach(traced: Mapping[int, Graph], plans: Sequence[list[int]]) -> Reach | None:
    if len(traced) < NEEDED:
        return None
    return Reach.of(dict(sorted(traced.items())[:NEEDED]), plans, _MOST_LEVEL)


def _opened(
    graph: Graph, budget_bytes: int, constraints: Constraints, carried: Sequence[ListedSchedule]
) -> Opened:
    """Open a traced graph with the schedules that are known at another size."""
    peak = simulate(graph, Schedule.plain(graph)).peak_bytes
    told = constraints.to_json() if carried else None  # else its names may not be there
    opened = Opened.of(graph, SavedExploration(graph, min(budget_bytes, peak), (), (), told))
    for one in carried:
        opened.what_if.insert(
            one.schedule.steps.tolist(), budget_bytes=None, solver=one.solver, seconds=one.seconds
        )
    return opened
