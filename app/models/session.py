"""One exploration and its two worker processes: what is asked of them, and what comes back."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from app.models.exploration import Exploration
from app.models.what_if import WhatIf
from app.workers.process import WorkerProcess
from checkmate.errors import CheckmateError
from checkmate.formats import read_any_graph
from checkmate.formats.exploration import exploration_from_json, is_exploration, write_exploration
from checkmate.formats.files import read_json
from checkmate.formats.graph import graph_from_json, graph_to_json
from checkmate.formats.schedule import result_to_json
from checkmate.ir.graph import Graph
from checkmate.request import ModelRequest
from checkmate.solvers.constraints import Constraints

SOLVE_SECONDS = 10.0
_CANCEL_PATIENCE_MS = 300
_MOST_WORKERS = 4


class Session(QObject):
    """Signals: ``progressed(stage, message, done, total)`` of a device job; ``device_ended()``; ``failed(sentence, hint)``;
    ``noticed(sentence)``; ``exported(report)``; ``settled()`` when a solve has ended."""

    progressed = Signal(str, str, float, float)
    device_ended = Signal()
    failed = Signal(str, str)
    noticed = Signal(str)
    exported = Signal(dict)
    settled = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.exploration = Exploration(self)
        self.solver = WorkerProcess("checkmate.worker.solver", self)
        self.device = WorkerProcess("checkmate.worker.device", self)
        self.solver.received.connect(self._on_solver)
        self.solver.died.connect(self._on_solver_died)
        self.device.received.connect(self._on_device)
        self.device.died.connect(self._on_device_died)
        self._jobs = itertools.count(1)
        self._questions: dict[int, WhatIf] = {}  # what the solver process was asked about, by number
        self._body: tuple[Graph | None, bytes] = (None, b"")
        self._device_job = 0
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(_CANCEL_PATIENCE_MS)
        self._patience.timeout.connect(self._on_patience_over)
        self._limit_s = SOLVE_SECONDS
        self.workers = max(
            1, min(_MOST_WORKERS, os.cpu_count() or 1)
        )  # the solver's processes; they run at a lower priority

    def open_file(self, path: Path) -> None:
        """Open a graph file or a saved exploration."""
        try:
            data = read_json(path)
            if is_exploration(data):
                self.exploration.restore(exploration_from_json(path, data))
                self._send_graph()
                return
            graph = read_any_graph(path)
        except CheckmateError as error:
            self.failed.emit(str(error), error.hint)
            return
        self.use_graph(graph)

    def save(self, path: Path) -> bool:
        """Save the graph and all that is known of it; False where that failed."""
        try:
            write_exploration(path, self.exploration.saved())
        except CheckmateError as error:
            self.failed.emit(str(error), error.hint)
            return False
        self.noticed.emit(f"Saved {path}.")
        return True

    def use_graph(self, graph: Graph) -> None:
        """Explore ``graph``."""
        self.exploration.set_graph(graph)
        self._send_graph()

    def constrain(self, constraints: Constraints) -> None:
        """Ask under other constraints, and solve the current budget again."""
        if self.exploration.graph is None or constraints == self.exploration.constraints:
            return
        try:
            self.exploration.set_constraints(constraints)
        except CheckmateError as error:
            self.failed.emit(str(error), error.hint)
            return
        self._send_graph()
        self.solve()
        if self.exploration.what_if is not self.exploration.unconstrained:
            self._send_schedules(self.exploration.unconstrained)  # to be adapted, once the solve has ended

    def _send_graph(self) -> None:
        graph, what_if = self.exploration.graph, self.exploration.what_if
        if graph is None or what_if is None:
            return
        if self._body[0] is not graph:
            self._body = (graph, json.dumps(graph_to_json(graph)).encode("utf-8"))
            self._questions.clear()
        question = next(self._jobs)
        self._questions[question] = what_if
        header = {"type": "graph", "name": graph.name, "workers": self.workers, "question": question}
        self.solver.send({**header, "constraints": what_if.constraints.to_json()}, self._body[1])
        self._send_schedules(what_if)
        for budget, bound in what_if.frontier.bounds:
            value = None if math.isinf(bound) else bound
            self.solver.send({"type": "known_bound", "budget_bytes": budget, "lower_bound": value})

    def _send_schedules(self, what_if: WhatIf | None) -> None:
        """What is known already, to a solver process that is new or has a new question."""
        for point in () if what_if is None else what_if.frontier:
            self.solver.send({"type": "known", "solver": point.solver}, point.schedule.steps.tobytes())

    def solve(self, seconds: float | None = None) -> None:
        """Solve for the current budget; a running solve is superseded."""
        if self.exploration.graph is None:
            return
        self._patience.stop()
        job = next(self._jobs)
        self._limit_s = seconds or SOLVE_SECONDS
        self.exploration.begin_solve(job)
        self.solver.send(
            {
                "type": "solve",
                "job": job,
                "supersedes": True,
                "budget_bytes": self.exploration.budget_bytes,
                "time_limit_s": self._limit_s,
            }
        )

    def stop_solve(self) -> None:
        """End the running solve and keep its best schedule; a worker that does not listen is replaced."""
        solve = self.exploration.solve
        if solve is not None and solve.status == "solving":
            self.solver.send({"type": "cancel", "job": solve.job})
            self._patience.start()

    def _on_patience_over(self) -> None:
        solve = self.exploration.solve
        if solve is not None and solve.status == "solving":
            self.solver.restart()
            self._send_graph()
            self._end_solve("feasible" if solve.costs else "cancelled", "stopped")

    def _end_solve(self, status: str, message: str) -> None:
        solve = self.exploration.solve
        if solve is None:
            return
        solve.status, solve.message = status, message
        solve.seconds = time.monotonic() - solve.started
        self.exploration.solve_changed.emit()
        self.settled.emit()

    def _on_solver(self, header: dict[str, Any], body: bytes) -> None:
        kind = header["type"]
        if kind in ("range", "known_bound", "point"):
            what_if = self._questions.get(int(header["question"]))
            if what_if is not None:  # else of a graph that is no longer explored
                self._on_known(kind, header, body, what_if)
        elif kind == "error":
            self._end_solve("failed", str(header["message"]))
            self.failed.emit(str(header["message"]), str(header.get("hint", "")))
        else:
            self._on_solve_news(kind, header, body)

    def _on_known(self, kind: str, header: dict[str, Any], body: bytes, what_if: WhatIf) -> None:
        if kind == "range":
            self.exploration.set_range(header, what_if)
        elif kind == "known_bound":
            self.exploration.add_bound(int(header["budget_bytes"]), header["lower_bound"], what_if)
        else:
            self._take(header, body, what_if)

    def _on_solve_news(self, kind: str, header: dict[str, Any], body: bytes) -> None:
        solve = self.exploration.solve
        if solve is None or header.get("job") != solve.job:
            return  # of a solve that was superseded
        elapsed = time.monotonic() - solve.started
        if kind == "incumbent":
            solve.costs.append((elapsed, float(header["cost"])))
            facts = {"budget_bytes": solve.budget_bytes, "solver": "auto", "solve_seconds": elapsed}
            self._take(facts, body, solve.what_if)
        elif kind == "bound":
            solve.lower_bound = max(float(header["lower_bound"]), solve.lower_bound or 0.0)
            solve.bounds.append((elapsed, solve.lower_bound))
            if not header["assumptions"]:
                self.exploration.add_bound(solve.budget_bytes, solve.lower_bound, solve.what_if)
        elif kind == "done":
            self._on_done(header, body)
        self.exploration.solve_changed.emit()

    def _on_done(self, header: dict[str, Any], body: bytes) -> None:
        solve = self.exploration.solve
        assert solve is not None
        solve.details = header
        if body:
            cost = float(header["cost"])
            if not solve.costs or cost < solve.costs[-1][1]:
                solve.costs.append((time.monotonic() - solve.started, cost))
            self._take(header, body, solve.what_if)
        bound = header.get("lower_bound")
        if bound is not None and not header.get("assumptions"):
            solve.lower_bound = float(bound)
            solve.bounds.append((time.monotonic() - solve.started, float(bound)))
        self._end_solve(str(header["status"]), str(header.get("message", "")))

    def _take(self, facts: dict[str, Any], body: bytes, what_if: WhatIf) -> None:
        held = self.exploration.add(
            np.frombuffer(body, np.int32),
            budget_bytes=int(facts["budget_bytes"]),
            solver=str(facts.get("solver", "")),
            seconds=float(facts.get("solve_seconds", 0.0)),
            what_if=what_if,
        )
        if not held:
            self.noticed.emit("A schedule from the solver did not hold up to the independent check and was dropped.")

    def _on_solver_died(self, sentence: str) -> None:
        self.noticed.emit(sentence)
        self._send_graph()
        solve = self.exploration.solve
        if solve is not None and solve.status == "solving":
            self._end_solve("failed", "the solver process ended; move the budget to solve again")

    def profile(self, request: ModelRequest, *, costs: str = "measured") -> None:
        """Load and profile a model in the device process."""
        self._device_job = next(self._jobs)
        self.device.send({"type": "profile", "job": self._device_job, "request": request.to_json(), "costs": costs})

    def export(self, directory: Path) -> None:
        """Export the schedule on screen into ``directory``, verified and measured."""
        shown, graph = self.exploration.shown, self.exploration.graph
        if shown is None or graph is None:
            return
        body = json.dumps({"graph": graph_to_json(graph), "schedule": result_to_json(graph, shown.result())}).encode(
            "utf-8"
        )
        self._device_job = next(self._jobs)
        self.device.send(
            {
                "type": "export",
                "job": self._device_job,
                "request": dict(graph.metadata["request"]),
                "directory": str(directory),
            },
            body,
        )

    def cancel_device(self) -> None:
        """Stop the device job: ask, and end the process where it does not answer in two seconds."""
        job = self._device_job
        if job:
            self.device.send({"type": "cancel", "job": job})
            QTimer.singleShot(2000, lambda: self._end_stubborn(job))

    def _end_stubborn(self, job: int) -> None:
        if self._device_job == job:
            self.device.stop()
            self._device_job = 0
            self.device_ended.emit()

    def _on_device(self, header: dict[str, Any], body: bytes) -> None:
        if header["type"] == "hello" or header.get("job") != self._device_job:
            return
        if header["type"] == "progress":
            total = header.get("total")
            self.progressed.emit(header["stage"], header["message"], float(header["done"]), float(total or 0))
            return
        self._device_job = 0
        self.device_ended.emit()
        if header["type"] == "profiled":
            self.use_graph(graph_from_json(Path("profile"), json.loads(body)))
        elif header["type"] == "exported":
            self.exported.emit(header["report"])
        elif header["type"] == "error":
            self.failed.emit(str(header["message"]), str(header.get("hint", "")))

    def _on_device_died(self, sentence: str) -> None:
        if self._device_job:
            self._device_job = 0
            self.device_ended.emit()
            self.failed.emit(sentence, "The model may not fit this machine's memory; try a smaller batch.")

    def close(self) -> None:
        """End both processes."""
        self._patience.stop()
        self.solver.close()
        self.device.close()
