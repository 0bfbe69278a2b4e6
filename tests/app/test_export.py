"""Exporting from the window: what its dialog says, and that a device process killed meanwhile costs nothing but the time."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton

from app.views.export_dialog import ExportDialog
from checkmate.formats import read_schedule
from checkmate.request import ModelRequest

pytest.importorskip("tensorflow")


@pytest.fixture
def profiled(window, qtbot):
    """A window with a small network profiled, and a schedule on screen that recomputes."""
    with qtbot.waitSignal(window.session.exploration.graph_changed, timeout=120000):
        window.session.profile(ModelRequest("zoo.two_io", batch_size=16), costs="analytic")
    exploration = window.session.exploration
    qtbot.waitUntil(lambda: exploration.known[0].peak_bytes < 0.8 * exploration.plain.peak_bytes, timeout=60000)
    window.session.stop_solve()
    exploration.show(exploration.known[0])
    return window


def said(dialog: ExportDialog) -> str:
    return " ".join(label.text() for label in dialog.findChildren(QLabel))


def button(dialog: ExportDialog, text: str) -> QPushButton:
    return next(found for found in dialog.findChildren(QPushButton) if found.text() == text)


@pytest.mark.heavy
@pytest.mark.qt_log_ignore("propagateSizeHints")
def test_device_process_killed_while_it_exports(profiled, qtbot, tmp_path: Path) -> None:
    session = profiled.session
    shown, folder = session.exploration.shown, tmp_path / "out"
    dialog = ExportDialog(session, profiled)
    qtbot.addWidget(dialog)
    dialog.show()
    dialog.findChild(QLineEdit).setText(str(folder))
    messages: list[str] = []
    session.progressed.connect(lambda stage, message, *_: messages.append(message))
    for doing in ("tracing", "measuring the scheduled step", "writing the SavedModel", "measuring the reloaded step"):
        messages.clear()
        button(dialog, "Export and verify").click()
        qtbot.waitUntil(lambda doing=doing: any(doing in message for message in messages), timeout=240000)
        own = psutil.Process(session.device.pid)
        helpers = own.children(recursive=True)
        os.kill(own.pid, signal.SIGKILL)
        qtbot.waitUntil(lambda: "The device process ended (signal 9). Nothing was lost." in said(dialog), timeout=20000)
        assert session.exploration.graph is shown.graph and session.exploration.shown is not None
        assert bool(helpers) is doing.startswith("measuring")
        _, left = psutil.wait_procs(helpers, timeout=10)
        assert not left, doing
    with qtbot.waitSignal(session.device_ended, timeout=240000):
        button(dialog, "Export and verify").click()
    qtbot.waitUntil(lambda: "measured," in said(dialog), timeout=5000)
    assert "gradients bitwise equal to the plain step's" in said(dialog)
    written = read_schedule(folder / "schedule.json", shown.graph)
    assert written.schedule.steps.tolist() == shown.schedule.steps.tolist()


@pytest.mark.heavy
@pytest.mark.qt_log_ignore("propagateSizeHints")
def test_a_graph_of_another_step_is_profiled_again_on_a_click(window, qtbot, tmp_path: Path) -> None:
    session, exploration = window.session, window.session.exploration
    with qtbot.waitSignal(exploration.graph_changed, timeout=240000):
        session.profile(ModelRequest("zoo.two_io", batch_size=16), costs="analytic")
    graph = exploration.graph
    wider = tuple(replace(value, shape=value.shape and (*value.shape, 1)) for value in graph.values)
    session.use_graph(replace(graph, values=(replace(wider[0], bytes=wider[0].bytes + 8), *wider[1:])))
    qtbot.waitUntil(lambda: exploration.shown is not None, timeout=60000)
    dialog = ExportDialog(session, window)
    qtbot.addWidget(dialog)
    dialog.show()
    dialog.findChild(QLineEdit).setText(str(tmp_path / "out"))
    with qtbot.waitSignal(session.step_changed, timeout=240000):
        button(dialog, "Export and verify").click()
    assert "was made for graph" in said(dialog) and "has changed" in window.notice.text
    assert not (tmp_path / "out").exists()
    dialog.close()
    assert window.notice.action.text() == "Profile again"
    with qtbot.waitSignal(exploration.graph_changed, timeout=240000):
        window.notice.action.click()
    assert exploration.graph.fingerprint == graph.fingerprint
    session.cancel_device()
