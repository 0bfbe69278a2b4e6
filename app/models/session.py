"""One exploration and its processes: what is asked of them, and answered."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum, auto
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.models.exploration import Exploration
from app.models.opening import Opened, Opening, is_large, read_opened
from app.models.recovery import Recent, identity, known_as
from app.models.solving import SolverClient
from app.presenters.commands import OnScreen
from app.presenters.report_page import html_report
from app.state.knowledge import ListedSchedule
from app.state.solve import SliderTarget
from app.workers.background import Background
from app.workers.client import DIED, Client
from checkmate.errors import CheckmateError, OtherStepError
from checkmate.formats.exploration import SavedExploration, write_exploration
from checkmate.formats.files import staged_beside, write_bytes
from checkmate.formats.graph import unpack_graph
from checkmate.formats.schedule import write_schedule
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.ir.result import MeasuredSchedule
from checkmate.memory.simulate import simulate
from checkmate.processes.messages import JobFailed, Message
from checkmate.progress import Progress
from checkmate.request import ModelRequest
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.constraints import Constraints
from checkmate.units import Budget
from checkmate.workers.window_messages import (
    Export,
    Exported,
    Profile,
    ProfiledGraph,
    pack_solved,
    unpack_solved,
)

_LAST_S = 5.0  # for what is being written when the window closes


class _Source(Enum):
    """Where the graph that is being opened comes from; ``FILE`` also while nothing is opened."""

    FILE = auto()
    ESTIMATES = auto()
    PROFILE = auto()


class Session(QObject):
    """Holds what is explored, and the processes that work for it.

    Signals: ``progressed(stage, message, done, total)`` of a device job; ``device_ended()``, once its answer
    is handled; ``exported(report)``, the report as in a file; ``step_changed(sentence)``: the model's step is
    not the one that is explored; ``outdated(path)``: the opened model's file has changed since it was
    profiled; ``failed(sentence, hint)``; ``logged(text)``: what the processes wrote to stderr.
    """

    progressed = Signal(str, str, float, float)
    device_ended = Signal()
    outdated = Signal(Path)
    failed = Signal(str, str)
    noticed = Signal(str)
    exported = Signal(object)
    step_changed = Signal(str)
    settled = Signal()
    logged = Signal(str)

    def __init__(self, parent: QObject | None = None, *, recent: Recent | None = None) -> None:
        """``recent``: earlier explorations, which are continued when their graph is opened again."""
        super().__init__(parent)
        self._recent = recent
        self.exploration = Exploration(self)
        self.solving = SolverClient(self.exploration, self)
        self.solver = self.solving.process
        self.device = Client("device", "checkmate.workers.device", self, silent_s=math.inf)
        self.device.progressed.connect(self._on_device_progress)
        self.device.answered.connect(self._on_device)
        self.device.failed.connect(self._on_device_failed)
        self.device.cancelled.connect(self._end_device)
        self.solving.failed.connect(self.failed)
        self.solving.noticed.connect(self.noticed)
        self.solving.settled.connect(self.settled)
        for process in (self.device.process, self.solver, self.solving.checking.process):
            process.logged.connect(self.logged)
        self.opening = Opening(self)
        self.opening.done.connect(self._on_opened)
        self.opening.failed.connect(self._on_not_opened)
        self._reporting = Background(self)
        self._reporting.done.connect(lambda path: self.noticed.emit(f"Saved {path}."))
        self._reporting.failed.connect(self.failed)
        self._working = False  # the device process, on a job
        self._exporting: ListedSchedule | None = None
        self._directory, self._staged = Path(), set[Path]()  # export folder; staging folders there before
        self._source = _Source.FILE
        self.file: Path | None = None  # where the graph is; None if it is in no file

    @property
    def device_busy(self) -> bool:
        return self._working or self._source is _Source.PROFILE

    def open_file(self, path: Path, *, at_once: bool = False) -> None:
        """Open a graph file or a saved exploration: a large one in a thread, unless ``at_once``."""
        self._leave_device()
        if is_large(path) and not at_once:
            self.noticed.emit(f"Reading {known_as(path)}…")
            self.opening.start(lambda: read_opened(path, self._recent))
            return
        try:
            self._on_opened(read_opened(path, self._recent))
            if at_once:
                self.file = None  # it was restored from a file that the window itself keeps
        except CheckmateError as error:
            self.failed.emit(str(error), error.hint)

    def _leave_device(self) -> None:
        """Stop reading or profiling, because something else is to be opened."""
        self.opening.close()
        if self._source is _Source.PROFILE:
            self._end_device()
        self._source = _Source.FILE

    def open_scaled(self, graph_and_schedule: bytes) -> None:
        self.open_made(lambda: _scaled(graph_and_schedule))

    def open_made(self, make: Callable[[], Opened]) -> None:
        """Open what ``make`` returns; it runs in a thread, and must not touch Qt."""
        self._leave_device()
        self.opening.start(make)

    def way_back(self) -> Callable[[], None]:
        saved, file = self.exploration.saved(), self.file

        def back() -> None:
            self.open_made(lambda: dataclasses.replace(Opened.of(saved.graph, saved), file=file))

        return back

    def _on_not_opened(self, sentence: str, hint: str) -> None:
        if self._source is _Source.PROFILE:
            self._end_device((sentence, hint))
        else:
            self._source = _Source.FILE
            self.failed.emit(sentence, hint)

    def _on_opened(self, opened: Opened) -> None:
        graph, source = opened.what_if.graph, self._source
        saved, again = opened.saved or self._open_already(graph), False
        try:
            if source is _Source.PROFILE and self.exploration.passing:
                again = self.exploration.measured(graph, opened.what_if, saved)
            else:
                self.exploration.set_passing(False)
                if saved is not None:
                    self.exploration.restore(saved, opened.what_if)
                else:
                    self.exploration.set_graph(graph, opened.what_if)
        except CheckmateError as error:
            self._on_not_opened(str(error), error.hint)
            return
        self.file = opened.file
        if source is _Source.ESTIMATES:
            self._source = _Source.FILE
            self.exploration.set_passing(True)
            return
        if self.device.busy:
            self.device.process.stop()
        if not self._end_device():
            self.solving.send_graph()
        if again:
            self.solve()
        if opened.changed is not None:
            self.outdated.emit(opened.changed)

    def _open_already(self, graph: Graph) -> SavedExploration | None:
        """Return what is explored, if that is ``graph``."""
        now = self.exploration
        same = now.graph is not None and not now.passing and identity(now.graph) == identity(graph)
        return now.saved().of(graph) if same else None

    def _end_device(self, failure: tuple[str, str] | None = None) -> bool:
        """End the device process and let the solver go on. Return whether the solver was sent the graph."""
        busy, self._working = self.device_busy, False
        if self._exporting is not None:  # its process may have been ended while it wrote
            for left in staged_beside(self._directory) - self._staged:
                shutil.rmtree(left, ignore_errors=True)
        self._source, self._exporting = _Source.FILE, None
        self.device.end()
        waited = self.exploration.passing and self.exploration.asked != self.exploration.opened_at
        if failure is not None:
            self.failed.emit(*failure)
        self.exploration.set_passing(False)
        released = self.solving.release()
        if waited:
            self.solve()
        if busy:
            self.device_ended.emit()
        return released

    def save(self, path: Path) -> bool:
        saved = self.attempt(lambda: write_exploration(path, self.exploration.saved()), f"Saved {path}.")
        self.file = path.absolute() if saved else self.file
        return saved

    def on_screen(self) -> OnScreen | None:
        """What is on screen, as a command would ask for it: by its own peak if it was chosen by hand."""
        exploration = self.exploration
        if exploration.graph is None or exploration.shown is None or exploration.standing is None:
            return None
        chosen = exploration.standing.replaceable
        budget = exploration.shown.peak_bytes if chosen else exploration.budget_bytes
        aim = None if chosen else exploration.aim
        asked = OnScreen(
            exploration.graph, self.file, budget, aim, exploration.constraints, self.solving.seconds
        )
        return asked if asked.can_be_written else None

    def save_schedule(self, found: ListedSchedule, path: Path) -> bool:
        export = f"checkmate export MODEL {path.name} -g GRAPH -o out"
        done = f"Saved {path}. To export it where the model is: {export}"
        return self.attempt(lambda: write_schedule(path, found.graph, found.result()), done)

    def attempt(self, work: Callable[[], object], done: str) -> bool:
        """Do something at once; say that it is ``done``, or why not. Return whether it is."""
        try:
            work()
        except CheckmateError as error:
            self.failed.emit(str(error), error.hint)
            return False
        self.noticed.emit(done)
        return True

    def report(self, path: Path) -> bool:
        """Write a page about what is on screen. Return False where that cannot be begun now."""
        reported = self.exploration.reported()
        if reported is None:
            self.failed.emit("There is nothing to report yet.", "Open a model or a graph first.")
            return False

        def work() -> Path:
            write_bytes(path, html_report(reported, datetime.now()).encode("utf-8"))
            return path

        begun = self._reporting.start(work)
        self.noticed.emit(f"Writing {path}…" if begun else "The previous report is still being written.")
        return begun

    def use_graph(self, graph: Graph) -> None:
        self.exploration.set_graph(graph)
        self.file = None
        self.solving.send_graph()

    def constrain(self, constraints: Constraints) -> None:
        if self.exploration.graph is None or constraints == self.exploration.constraints:
            return
        try:
            self.exploration.set_constraints(constraints)
        except CheckmateError as error:
            self.failed.emit(str(error), error.hint)
            return
        self.solving.send_graph()
        self.solve()
        if self.exploration.what_if is not self.exploration.unconstrained:
            # The solver adapts them to the constraints once the solve has ended.
            self.solving.send_schedules(self.exploration.unconstrained)

    def ask(self, asked: SliderTarget) -> None:
        self.exploration.move(asked)
        self.solve()

    def solve(self, seconds: float | None = None) -> None:
        self.solving.solve(seconds)

    def stop_solve(self) -> None:
        self.solving.stop()

    def profile(self, request: ModelRequest, *, costs: str = "measured") -> None:
        if self.device.busy:
            self.device.process.stop()  # it is still profiling another model
        self.opening.close()
        self._source = _Source.FILE
        self.exploration.set_passing(False)
        self.solving.hold()
        self._working = True
        self.device.send(Profile(self.device.next_job(), request, costs))

    def export(self, found: ListedSchedule, directory: Path, budget: Budget) -> None:
        """Export ``found``, verified and measured.

        ``budget``: what the device's allocator may show; a share is of the plain step's peak there. Where the
        measured peak is over it, another schedule that keeps it is exported.
        """
        graph = found.graph
        body = pack_solved(graph, found.result())
        self.solving.hold()
        self._exporting, self._directory, self._staged = found, directory, staged_beside(directory)
        constraints = found.constrained.constraints
        kept = None if constraints.is_empty else constraints
        self._working = True
        self.device.send(Export(self.device.next_job(), directory, budget, kept, body))

    def _on_exported(self, report: Mapping[str, Any], body: bytes) -> None:
        """Show the exported schedule with its measurement, unless another graph was opened since."""
        asked, self._exporting = self._exporting, None
        live = report.get("measured_live_bytes") or []
        if asked is not None and asked.graph is self.exploration.graph and live:
            written = _written(asked.graph, json.loads(body))
            steps = tuple(written.require_schedule().steps.tolist())
            peak, seconds = report["peak_bytes"]["measured"], report["seconds"]["measured"]
            measured = MeasuredSchedule(steps, tuple(live), int(peak), float(seconds), str(report["device"]))
            self.exploration.take_measured(measured, written, asked, int(report["budget_bytes"]))
        self.exported.emit(report)

    def cancel_device(self) -> None:
        if self._source is not _Source.FILE:
            self.opening.close()  # a graph that the process sent may be being read
        if self.device.busy:
            self._source = _Source.FILE
            self.device.cancel()
        else:
            self._end_device()

    def _on_device_progress(self, progress: Progress) -> None:
        self.progressed.emit(progress.stage, progress.message, progress.done, progress.total or 0.0)

    def _on_device(self, message: Message) -> None:
        match message:
            case ProfiledGraph(estimated=estimated, graph=body):
                self._open_sent(_Source.ESTIMATES if estimated else _Source.PROFILE, body)
            case Exported(report=report, schedule=body):
                self._on_exported(report, body)
                self._end_device()

    def _on_device_failed(self, failed: JobFailed) -> None:
        too_large = "The model may not fit this machine's memory; try a smaller batch."
        self._end_device((failed.message, too_large if failed.error == DIED else failed.hint))
        if failed.is_a(OtherStepError):
            self.step_changed.emit(failed.message)

    def _open_sent(self, source: _Source, body: bytes) -> None:
        """Open a graph that the device process sent, unless the user asked for a file since."""
        wanted = not self.opening.busy or self._source is not _Source.FILE
        if source is _Source.PROFILE:
            if not wanted:
                self._end_device()
                return
            self._working = False
            self.device.end()
        if wanted:
            self._source = source
            self.opening.start(lambda: _sent(body, self._recent if source is _Source.PROFILE else None))

    def close(self) -> None:
        self.opening.close()
        self._reporting.close(_LAST_S)
        self.solving.close()
        self.device.close()


def _scaled(body: bytes) -> Opened:
    graph, result = unpack_solved(body)
    most = simulate(graph, Schedule.plain(graph)).peak_bytes
    return Opened.of(graph, SavedExploration(graph, min(result.budget_bytes, most), (result,), ()))


def _sent(body: bytes, recent: Recent | None) -> Opened:
    """Prepare a graph in a thread. The bound is computed here, because the solver may be on hold."""
    graph = unpack_graph(body)
    opened = Opened.of(graph, None if recent is None else recent.of(graph))
    opened.what_if.needed_bytes = working_set_bound(graph).bytes
    return opened


def _written(graph: Graph, data: dict[str, Any]) -> SolveResult:
    """Read the exported schedule. Its peak may exceed its budget: other memory rules may have held there."""
    schedule = Schedule.of(graph, data["steps"])
    timeline = simulate(graph, schedule)
    return SolveResult(
        status=SolveStatus.FEASIBLE,
        solver=str(data["solver"]),
        budget_bytes=max(int(data["budget_bytes"]), timeline.peak_bytes),
        base_cost=graph.base_cost,
        schedule=schedule,
        cost=timeline.cost,
        peak_bytes=timeline.peak_bytes,
        solve_seconds=float(data.get("solve_seconds") or 0.0),
    )
