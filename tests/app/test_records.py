from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication
from PySide6.QtWidgets import QApplication

from app.presenters.record_rows import curve_words
from app.views.dialogs.model_dialog import ModelDialog
from app.views.dialogs.record_dialog import RecordDialog
from app.views.window import openers
from app.views.window.main_window import MainWindow
from checkmate.records.changes import changes
from checkmate.records.read import read_record
from checkmate.request import ModelRequest
from checkmate.units import format_bytes
from tests.app.windows import button, menu_action, new_window, training_chain
from tests.unit.records.test_torch_snapshot import Made

DATA = Path(__file__).parents[1] / "unit" / "records" / "data"
LOG, PROFILE = DATA / "oom_2_21.log", DATA / "step.xplane.pb"
pytestmark = pytest.mark.heavy


def drop(window: MainWindow, path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    nothing, button = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton
    enter = QDragEnterEvent(QPoint(300, 300), Qt.DropAction.CopyAction, data, button, nothing)
    QApplication.sendEvent(window, enter)
    assert enter.isAccepted()
    dropped = QDropEvent(QPointF(300, 300), Qt.DropAction.CopyAction, data, button, nothing)
    QApplication.sendEvent(window, dropped)


def opened(window: MainWindow, qtbot, path: Path) -> RecordDialog:
    drop(window, path)
    qtbot.waitUntil(lambda: window.findChild(RecordDialog) is not None, timeout=20000)
    dialog = window.findChild(RecordDialog)
    assert dialog.isVisible()
    return dialog


def shown_rows(dialog: RecordDialog) -> list[list[str]]:
    model = dialog.table.model()
    rows, columns = range(model.rowCount()), range(model.columnCount())
    return [[model.index(row, column).data() for column in columns] for row in rows]


def test_a_dropped_log_says_what_was_asked_for_and_what_was_in_use(window, qtbot) -> None:
    dialog = opened(window, qtbot, LOG)
    record = dialog.record
    assert "could not be had in" in dialog.title.text() and record.asked.op in dialog.title.text()
    assert dialog.reason.text() and dialog.bar.isVisible() and not dialog.curve.isVisible()
    assert any(words.startswith("in use") for words in dialog.bar.words)
    assert any(words.startswith("asked for") for words in dialog.bar.words)
    rows = shown_rows(dialog)
    assert len(rows) == len(record.by_size) and rows[0][0].endswith("B each")
    assert "a profile does" in dialog.missing.text() and not dialog.grouping.isEnabled()


def test_a_dropped_profile_lists_layers_and_sizes(window, qtbot) -> None:
    dialog = opened(window, qtbot, PROFILE)
    by_layer = shown_rows(dialog)
    assert any("conv_" in row[0] for row in by_layer)
    second, most = max(dialog.record.curve, key=lambda point: point[1])
    assert dialog.curve.isVisible() and dialog.curve.entries()[0].words == f"most {format_bytes(most)}"
    assert f"{format_bytes(most)} in use" in curve_words(dialog.record, second)
    sizes = [format_bytes(row.bytes) for row in dialog.record.by_layer]
    assert [row[1] for row in by_layer] == sizes  # largest first
    dialog.grouping.setCurrentText("By size")
    by_size = shown_rows(dialog)
    assert by_size != by_layer and any(row[0].endswith("B each") for row in by_size)
    dialog.table.sortByColumn(3, Qt.SortOrder.DescendingOrder)
    counts = [int(row[3].replace(",", "")) for row in shown_rows(dialog) if row[3] != "–"]
    assert counts == sorted(counts, reverse=True)
    qtbot.mouseClick(dialog.copy, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text().startswith('"chunk, bytes","in use, bytes",share,chunks\n')


def test_the_limit_becomes_the_budget_of_the_profiled_model(window, exploration, qtbot, monkeypatch) -> None:
    asked: list[ModelRequest] = []
    monkeypatch.setattr(window.session, "profile", asked.append)  # it takes minutes
    dialog = opened(window, qtbot, LOG)
    limit = dialog.record.limit_bytes
    qtbot.mouseClick(dialog.profile, Qt.MouseButton.LeftButton)
    asking = window.findChild(ModelDialog)
    asking.model.setCurrentText("resnet")
    qtbot.mouseClick(button(asking, "Profile"), Qt.MouseButton.LeftButton)
    assert [request.model for request in asked] == ["resnet"]
    qtbot.waitUntil(lambda: window.records.dialog is None, timeout=5000)  # it made way
    graph = replace(training_chain(), metadata={"request": asked[0].to_json()})
    window.session.use_graph(graph)
    qtbot.waitUntil(lambda: exploration.budget_bytes == limit, timeout=10000)
    window.session.use_graph(training_chain(6))  # the wish was for one model
    qtbot.wait(50)
    assert exploration.budget_bytes != limit


def test_the_limit_can_be_the_budget_of_the_open_graph(window, qtbot, chain_open) -> None:
    dialog = opened(window, qtbot, LOG)
    assert dialog.use.text() == "Use it for chain" and dialog.use.isVisible()
    qtbot.mouseClick(dialog.use, Qt.MouseButton.LeftButton)
    assert window.session.exploration.budget_bytes == dialog.record.limit_bytes


def test_a_file_without_an_error_is_said_in_the_window(window, qtbot, tmp_path: Path, chain_open) -> None:
    path = tmp_path / "train.log"
    path.write_text("Epoch 1/5\n")
    drop(window, path)
    qtbot.waitUntil(lambda: window.notice.isVisible(), timeout=10000)
    assert "holds no out-of-memory error of TensorFlow" in window.notice.text
    assert window.findChild(RecordDialog) is None


def test_what_was_read_is_among_the_recent_files(qtbot, settings) -> None:
    made = new_window(qtbot, settings=settings)
    made.show()
    opened(made, qtbot, LOG)
    recent = menu_action(made, "Open recent").menu()
    recent.aboutToShow.emit()
    entry = next(action for action in recent.actions() if action.text() == LOG.name)
    made.records.dialog.close()
    entry.trigger()
    qtbot.waitUntil(
        lambda: made.records.dialog is not None and made.records.dialog.isVisible(), timeout=10000
    )


def test_another_file_is_compared(window, qtbot, monkeypatch, tmp_path: Path) -> None:
    snapshots = [tmp_path / "before.pickle", tmp_path / "after.pickle"]
    for count, path in zip((40, 80), snapshots, strict=True):
        path.write_bytes(pickle.dumps(Made(random.Random(1), count).snapshot()))
    dialog = opened(window, qtbot, snapshots[0])
    assert dialog.table.model().headerData(0, Qt.Orientation.Horizontal) == "Line of code"
    monkeypatch.setattr(openers, "ask_source", lambda *_: snapshots[1])
    qtbot.mouseClick(dialog.another, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "after.pickle" in dialog.missing.text(), timeout=20000)
    found = changes(dialog.record, read_record(snapshots[1]).records[0], by_size=False)
    assert [(row[0], row[3]) for row in shown_rows(dialog)] == [(each.name, each.words) for each in found]
    qtbot.mouseClick(dialog.copy, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text().startswith('name,"this file, bytes"')
