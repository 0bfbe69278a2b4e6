from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer

from app.crash_log import open_log
from app.state.solve import Aim
from app.workers.process import WorkerProcess
from tests.app.windows import open_chain
from tests.zoo.names import zoo_request

pytestmark = pytest.mark.heavy  # processes are killed and start again


@pytest.mark.parametrize("wait_ms", [0, 30, 300, 1500])
def test_solver_killed_while_it_looks_for_less_memory(window, exploration, qtbot, wait_ms: int) -> None:
    open_chain(window, qtbot, layers=30)
    window.explorer.budget.aim(Aim(0.08))
    qtbot.wait(wait_ms)
    before = [(found.peak_bytes, found.cost) for found in exploration.known]
    if exploration.solve.running:
        with qtbot.waitSignal(window.session.settled, timeout=10000):
            os.kill(window.session.solver.pid, signal.SIGKILL)
        assert exploration.solve.status == "failed" and "ended" in window.explorer.solving._status.text()
    assert exploration.shown.peak_bytes == exploration.budget_bytes and exploration.aim == Aim(0.08)
    for peak, cost in before:
        assert exploration.best_for(peak).cost <= cost
    with qtbot.waitSignal(window.session.settled, timeout=150_000):
        window.session.solve(1.0)
    assert exploration.solve.status in ("optimal", "feasible")
    assert exploration.shown.overhead <= 0.08 + 1e-9


@pytest.mark.heavy  # starts TensorFlow once for each stage
def test_device_process_killed_while_it_starts_and_at_every_stage_of_a_profile(window, qtbot) -> None:
    pytest.importorskip("tensorflow")
    open_chain(window, qtbot)
    session = window.session
    request, graph = zoo_request("two_io", 2), session.exploration.graph
    stages: list[str] = []
    session.progressed.connect(lambda stage, *_: stages.append(stage) if stage not in stages else None)
    killed: set[str] = set()
    for _ in range(8):
        stages.clear()
        ended: list[str] = []
        note = session.failed.connect(lambda sentence, hint, ended=ended: ended.append(sentence))
        session.profile(request, costs="analytic")
        if not killed:
            killed.add("starting")
        else:
            qtbot.waitUntil(
                lambda: bool({*stages} - killed) or session.exploration.graph is not graph, timeout=120000
            )
            if session.exploration.graph is not graph:
                break  # every stage has had its kill; this profile went through
            killed.add(next(stage for stage in stages if stage not in killed))
        os.kill(session.device.process.pid, signal.SIGKILL)
        qtbot.waitUntil(lambda ended=ended: bool(ended), timeout=20000)
        session.failed.disconnect(note)
        assert ended == ["The device process ended (signal 9). Nothing was lost."]
        assert session.exploration.graph is graph and session.exploration.shown is not None
    assert session.exploration.graph is not graph and len(killed) > 1, killed


FAILING = """
import sys
import time
from itertools import pairwise
from pathlib import Path
from PySide6.QtCore import QTimer, qWarning
from PySide6.QtWidgets import QApplication
from app.crash_log import keep_log, open_log
application = QApplication([])
from app.models.session import Session
log, said, session = open_log(Path(sys.argv[1])), [], Session()
keep_log(log, lambda *each: said.append(each), session.logged)
session.solver._module = "no_such_module"  # what Python says of that goes to the process's stderr
session.solver._restarts = 99
session.solver.died.connect(application.quit)
session.solver.start()
application.exec()
QTimer.singleShot(0, lambda: 1 / 0)
QTimer.singleShot(20, lambda: qWarning("a warning of Qt's"))
QTimer.singleShot(60, application.quit)
application.exec()
print(said[0])
if sys.argv[2] == "die":
    import ctypes
    ctypes.string_at(0)
"""


@pytest.mark.parametrize("end", ["leave", "die"])
def test_errors_are_logged_and_the_window_goes_on(tmp_path: Path, end: str) -> None:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-c", FAILING, str(tmp_path / "new"), end]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == (0 if end == "leave" else -signal.SIGSEGV)
    text = (tmp_path / "new" / "window.log").read_text()
    assert "ZeroDivisionError" in text and "a warning of Qt's" in text
    assert "No module named no_such_module" in text
    assert ("Segmentation fault" in text) is (end == "die")
    if end == "leave":
        assert "unexpected ZeroDivisionError" in done.stdout
        assert "nothing that was found is lost" in done.stdout
        assert "please report this fault of checkmate, and attach" in done.stdout


def test_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    (tmp_path / "window.log").write_text("x" * (2**20 + 1))
    with open_log(tmp_path) as log:
        log.write("new")
    assert (tmp_path / "window.log").read_text() == "new"
    assert (tmp_path / "window.old.log").stat().st_size > 2**20
    assert open_log(tmp_path / "window.log") is None


CHATTY = """
import sys, time
from checkmate.workers.window_messages import WINDOW_MESSAGES, MemoryNeeded
for number in range(200):
    sys.stdout.buffer.write(WINDOW_MESSAGES.encode(MemoryNeeded(number, 0)))
sys.stdout.buffer.flush()
time.sleep(1.5)
"""


def test_many_messages_at_once_do_not_block_the_window(qtbot, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "chatty.py").write_text(CHATTY)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    worker, heard, beats, ended = WorkerProcess("chatty", "chatty"), [], [time.perf_counter()], []
    worker.received.connect(lambda message: (time.sleep(0.003), heard.append(message.question)))
    worker.died.connect(lambda sentence: (ended.append(len(heard)), worker.close()))
    timer = QTimer()
    timer.timeout.connect(lambda: beats.append(time.perf_counter()))
    timer.start(5)
    worker.start()
    qtbot.waitUntil(lambda: bool(ended), timeout=20000)
    # All of it, in order, before the end of the process is reported.
    assert heard[:200] == list(range(200)) and ended == [200]
    worker.close()
    # Handled at once it would take 0.6 s.
    assert max(b - a for a, b in pairwise(beats[1:])) < 0.4
