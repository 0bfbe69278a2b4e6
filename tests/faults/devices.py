"""Conversations about models and proofs, judged by their end.

``talk(patience)`` is as in ``tests.faults.protocols``. A profile and an export have no limit of time: where
their end was lost, *Cancel* must end them.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from checkmate import planning
from checkmate.errors import CheckmateError
from checkmate.formats.graph import read_graph, unpack_graph
from checkmate.formats.schedule import read_certificate, read_schedule
from checkmate.ir import Graph
from checkmate.memory.check import check
from checkmate.processes.children import module_command
from checkmate.request import ModelRequest
from checkmate.units import Budget
from tests.faults.protocols import ROUNDING, least_cost, small, truth, until
from tests.faults.windows import application, show, turn

_MODEL = f"{Path(__file__).parents[1].joinpath('tf', 'small_models.py')}:convnet"
_CANCELLED_S = 10.0  # in which a cancelled job must have ended


def _request(batch: int) -> ModelRequest:
    return ModelRequest(_MODEL, batch_size=batch, device="cpu", allow_code=True)


@cache
def profiled(batch: int) -> Graph:
    """The model's graph, made by the command and no harmed process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        command = ["profile", _MODEL, "-b", str(batch), "--allow-code", "--device", "cpu"]
        subprocess.run(
            module_command("checkmate", *command, "--costs", "analytic", "-o", str(path)),
            check=True,
            capture_output=True,
        )
        return read_graph(path)


def _same(graph: Graph | None, batch: int) -> bool:
    """Whether it is the model's: Keras numbers its layers on where a process builds it again."""
    return graph is not None and graph.fingerprint == profiled(batch).fingerprint


class _Window:
    """A session with no views, and what it said."""

    def __init__(self) -> None:
        from app.models.session import Session

        application()
        self.session = Session()
        self.failures: list[str] = []
        self.session.failed.connect(lambda sentence, hint: self.failures.append(sentence))

    @property
    def idle(self) -> bool:
        return not self.session.device_busy and not self.session.opening.busy

    def problem(self, patience: float, answered: Callable[[], bool]) -> str:
        """Wait for the job's end, or cancel it; return what broke: neither ends it, or nothing is said."""
        if until(lambda: self.idle, patience, turn):
            return "" if answered() or self.failures else "there is neither an answer nor a word"
        self.session.cancel_device()
        if until(lambda: self.idle, _CANCELLED_S, turn):
            return ""
        return "what was cancelled never ended"


def profile(patience: float) -> str:
    for batch in (2, 3):
        profiled(batch)
    window = _Window()
    with closing(window.session) as session:
        for batch, costs in ((2, "analytic"), (3, "measured")):
            before = session.exploration.graph
            window.failures.clear()
            session.profile(_request(batch), costs=costs)
            broken = window.problem(patience, lambda before=before: session.exploration.graph is not before)
            if broken:
                return broken
            graph = session.exploration.graph
            if graph is not before and not _same(graph, batch):
                return f"the graph of batch {batch} is another"
            measured = graph is not None and graph.cost_origin.value == "measured"
            if costs == "analytic" and measured:
                return "costs are called measured that nobody measured"
    return ""


def export(patience: float) -> str:
    graph = profiled(3)
    plain = planning.keep_everything_peak(graph)
    window, reports = _Window(), list[Any]()
    with closing(window.session) as session:
        session.exported.connect(reports.append)
        session.exploration.set_graph(graph)
        with tempfile.TemporaryDirectory() as folder:
            for number, share in enumerate((0.9, 0.8)):
                show(session.exploration, planning.solve(graph, int(share * plain), solver="greedy"))
                reports.clear()
                window.failures.clear()
                place = Path(folder) / str(number)
                session.export(session.exploration.shown, place, Budget(2**30))
                broken = window.problem(patience, lambda: bool(reports))
                broken = broken or _exported(place, graph, bool(reports))
                if broken:
                    return broken
    return ""


def _exported(place: Path, graph: Graph, reported: bool) -> str:
    """What is false of an export: it is whole, or there is none."""
    written = place / "schedule.json"
    if not written.exists():
        return "it is called exported, and nothing is there" if reported else ""
    steps = read_schedule(written, graph).require_schedule().steps.tolist()
    return "" if check(graph, steps).ok else "the schedule that was written does not hold"


def trace_sizes(patience: float) -> str:
    for batch in (2, 3):
        profiled(batch)
    application()
    from app.models.scales import SizeTracer

    said: list[bytes | str] = []
    with closing(SizeTracer()) as tracer:
        tracer.traced.connect(said.append)
        tracer.failed.connect(said.append)
        for batch in (2, 3):
            said.clear()
            tracer.ask(_request(batch))
            if not until(lambda: bool(said), patience, turn):
                return "the trace never ended"
            answer = said[0]
            if isinstance(answer, str):
                continue
            if not _same(unpack_graph(answer), batch):
                return f"the graph of batch {batch} is another"
    return ""


def certify(patience: float) -> str:
    application()
    from PySide6.QtWidgets import QMainWindow

    from app.models import finders
    from app.models.session import Session
    from app.views.window.savers import Certifying

    host: Any = QMainWindow()
    session = host.session = Session()
    host.say = str
    certifying, told = Certifying(host), list[str]()
    session.noticed.connect(told.append)
    session.exploration.set_graph(small())
    try:
        # Two small graphs take no minute; a lost answer would.
        with mock.patch.object(finders, "CERTIFY_S", 10.0), tempfile.TemporaryDirectory() as folder:
            for budget in (60, 70):
                path = Path(folder) / str(budget)
                show(session.exploration, truth(8, budget))
                told.clear()
                certifying.begin(session.exploration.shown, path)
                if not until(lambda: certifying.progress is None, patience, turn):
                    return f"the certificate for {budget} never ended"
                broken = _certified(path, budget, any("Saved" in line for line in told))
                if broken:
                    return broken
    finally:
        certifying.close()
        session.close()
        host.deleteLater()
    return ""


def _certified(path: Path, budget: int, said: bool) -> str:
    if not path.exists():
        return "it is called saved, and nothing is there" if said else ""
    data = read_certificate(path, small())
    try:
        cost = planning.check_certificate(small(), data)
    except CheckmateError as error:
        return f"it is called saved, and does not hold: {error}" if said else ""
    if cost is None or cost > least_cost(8, data["budget_bytes"]) * ROUNDING:
        return f"it proves {cost} for {budget}"
    return ""
