"""The moment another graph is there, or is chosen, nothing is said of the one before."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QLineEdit

from app.presenters.hotspot_rows import View
from app.views.dialogs.record_dialog import RecordDialog
from app.views.window.main_window import MainWindow
from checkmate.formats import write_graph
from checkmate.ir import Graph
from tests.app.test_records import LOG, drop
from tests.app.windows import at_four, larger, training_chain

PATIENCE_MS = 60_000


@pytest.fixture
def open_graph(window, qtbot, tmp_path: Path):
    """Open a graph as a user does: from its file."""

    def opened(graph: Graph) -> None:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        write_graph(path, graph)
        window.open(str(path))
        assert window.session.exploration.graph.fingerprint == graph.fingerprint

    return opened


def scrolled(window: MainWindow) -> list[int]:
    lists = (window.explorer.layers._list, window.explorer.inspector.memory._list)
    return [one.verticalScrollBar().value() for one in lists]


def scroll_down(area: QAbstractItemView) -> None:
    area.verticalScrollBar().setValue(area.verticalScrollBar().maximum())


def test_how_far_a_budget_reaches_is_said_of_this_graph_alone(window, qtbot, open_graph) -> None:
    open_graph(at_four())
    words = window.explorer.batch.words
    qtbot.waitUntil(lambda: words.whole.startswith("Fits up to batch"), timeout=PATIENCE_MS)
    open_graph(larger(at_four()))
    assert not words.whole
    qtbot.waitUntil(lambda: words.whole.startswith("Fits up to batch"), timeout=PATIENCE_MS)


def test_lists_begin_at_their_top(window, qtbot, open_graph) -> None:
    window.resize(1000, 640)
    open_graph(training_chain(60))
    qtbot.mouseClick(window.explorer.inspector.memory.tabs[View.VALUES], Qt.MouseButton.LeftButton)
    qtbot.wait(50)  # the rows are laid out
    for one in (window.explorer.layers._list, window.explorer.inspector.memory._list):
        scroll_down(one)
    assert min(scrolled(window)) > 0
    open_graph(training_chain(50))
    qtbot.wait(50)
    assert scrolled(window) == [0, 0]


def test_the_page_on_which_another_is_chosen_says_nothing_of_this_one(window, qtbot, open_graph) -> None:
    open_graph(at_four())
    window.playhead.seek(3)
    facts, title, said = window._facts.text(), window.windowTitle(), window.statusBar().currentMessage()
    assert "batch 4" in facts and said.startswith("Step 4 of ")
    window.notice.say("The machine was busy.", "", ("Profile again", window.notice.hide))
    window.commands["file.start"].trigger()
    window.playhead.seek(5)  # as a solve that shows another schedule does meanwhile
    assert (window._name.text(), window._facts.text()) == ("Checkmate Explorer", "")
    assert window.windowTitle() == "Checkmate Explorer" and window.notice.isHidden()
    assert window.statusBar().currentMessage() == "Ready. Nothing leaves this machine."
    window.playhead.seek(3)
    qtbot.mouseClick(window._start.back, Qt.MouseButton.LeftButton)
    assert (window._facts.text(), window.windowTitle()) == (facts, title)
    assert window.statusBar().currentMessage() == said


def test_what_would_help_is_found_for_this_graph_alone(window, qtbot, open_graph) -> None:
    open_graph(training_chain(40))
    hotspot = window.explorer.inspector.hotspot
    qtbot.waitUntil(lambda: not hotspot.busy and len(hotspot.remedies) > 0, timeout=PATIENCE_MS)
    assert max(one.op for one in hotspot.remedies) >= training_chain(3).n
    open_graph(larger(training_chain(3), 100))  # with fewer ops, so that its rows cannot name those before
    assert not hotspot.remedies


def test_a_name_that_is_being_typed_is_not_given_to_another_graphs_schedule(
    window, exploration, qtbot, open_graph
) -> None:
    open_graph(training_chain())
    tree = window.explorer.schedules._list
    tree.setFocus()
    window.commands["schedule.rename"].trigger()
    qtbot.keyClicks(tree.findChild(QLineEdit), "mine")
    assert tree.editing
    open_graph(training_chain(7))
    assert not tree.editing and exploration.listing.own == []
    assert [row.found.graph for row in window.explorer.schedules.rows] == [exploration.graph]


def test_addresses_are_of_this_graph_alone(window, qtbot, open_graph) -> None:
    open_graph(at_four())
    window.commands["view.allocator"].trigger()
    allocator = window.explorer.allocator
    qtbot.waitUntil(lambda: allocator.answering is not None, timeout=PATIENCE_MS)
    open_graph(larger(at_four()))
    assert window.explorer.placing.found is None


def test_dialogs_speak_of_this_graph_alone(window, qtbot, open_graph) -> None:
    open_graph(at_four())
    window.commands["solve.cards"].trigger()
    drop(window, LOG)
    qtbot.waitUntil(lambda: window.findChild(RecordDialog) is not None, timeout=PATIENCE_MS)
    cards, record = window.explorer._cards, window.findChild(RecordDialog)
    before, name = cards.rows, record.use.text()
    assert before and name == "Use it for chain"
    open_graph(dataclasses.replace(larger(at_four()), name="other"))
    assert record.use.text() == "Use it for other"
    assert cards.rows and cards.rows is not before
    record.reject()
