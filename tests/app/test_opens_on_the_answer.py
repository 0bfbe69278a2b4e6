from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QToolTip

from app.presenters.hotspot_rows import View
from tests.app.windows import open_chain, smaller, training_chain


def test_a_graph_opens_on_its_peak_and_what_helps_there(window, qtbot) -> None:
    open_chain(window, qtbot)
    shown, inspector = window.session.exploration.shown, window.explorer.inspector
    assert window.playhead.step == shown.timeline.peak_step > 0
    assert inspector.memory.view is View.HELPS and inspector._name.text().startswith("Peak ")
    assert "waits for" in inspector._name.text() and inspector.note.text().endswith("peak")


def test_the_playhead_stays_on_the_peak_until_it_is_moved(window, exploration) -> None:
    exploration.set_graph(training_chain())
    found = smaller(exploration)
    assert found.timeline.peak_step != exploration.plain.timeline.peak_step
    for one in (found, exploration.plain):
        exploration.show(one)
        assert window.playhead.step == one.timeline.peak_step
    window.playhead.seek(3)
    exploration.show(found)
    assert window.playhead.step != found.timeline.peak_step
    exploration.set_graph(training_chain(7))
    assert window.playhead.step == exploration.shown.timeline.peak_step


def test_what_the_curve_says_stays_where_the_pointer_rests(window, qtbot, qapp) -> None:
    open_chain(window, qtbot)
    window.explorer.turns.finish()
    port = window.explorer.curve.viewport()
    middle = port.rect().center()
    qtbot.mouseMove(port, middle - QPoint(9, 0))
    qtbot.mouseMove(port, middle)
    said = QToolTip.text()
    assert said.startswith("step ")
    # Qt asks for a widget's tip where the pointer has rested.
    qapp.sendEvent(port, QHelpEvent(QEvent.Type.ToolTip, middle, port.mapToGlobal(middle)))
    qtbot.wait(500)  # it goes a little later
    assert QToolTip.isVisible() and QToolTip.text() == said
