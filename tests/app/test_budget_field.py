from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from checkmate.ir.graph import GraphBuilder
from checkmate.units import format_bytes, parse_bytes
from tests.app.windows import open_chain, training_chain

pytestmark = pytest.mark.heavy  # many windows, a second each


@pytest.fixture
def field(window, qtbot):
    open_chain(window, qtbot)
    made = window.explorer.budget._entry
    made.setFocus()
    qtbot.waitUntil(made.hasFocus)
    return made


def enter(field, qtbot, text: str) -> None:
    field.selectAll()
    qtbot.keyClicks(field, text)
    qtbot.keyClick(field, Qt.Key.Key_Return)


def test_the_text_stays_only_as_long_as_it_is_the_budget(window, exploration, qtbot, field) -> None:
    enter(field, qtbot, "70%")
    assert field.text() == "70%"
    assert exploration.budget_bytes == pytest.approx(0.7 * exploration.plain.peak_bytes, abs=1)
    window.explorer.budget.choose(int(exploration.plain.peak_bytes * 0.8))
    assert field.text() == ""


def test_a_size_written_as_the_list_writes_it_shows_that_row(window, exploration, qtbot, field) -> None:
    builder = GraphBuilder("uneven")
    values = [builder.value(f"v{number}", 1_102_003) for number in range(3)]
    for number, value in enumerate(values):
        builder.op(f"op{number}", values[:number], [value])
    exploration.set_graph(builder.build())
    peak = exploration.plain.peak_bytes
    words = format_bytes(peak)
    assert parse_bytes(words) < peak
    enter(field, qtbot, words)
    assert exploration.budget_bytes == peak and field.text() == words
    assert exploration.standing.best is exploration.plain
    enter(field, qtbot, str(parse_bytes(words) - 1))  # in bytes it is meant as it is
    assert exploration.budget_bytes == parse_bytes(words) - 1


def test_a_number_that_lacks_its_unit_is_not_taken_for_bytes(window, exploration, qtbot, field) -> None:
    builder = GraphBuilder("large")
    value = builder.value("v", 2**21)
    builder.op("op", [], [value])
    exploration.set_graph(builder.build())
    before = exploration.budget_bytes
    enter(field, qtbot, "60")
    assert exploration.budget_bytes == before
    assert 'write "60%" for a share' in window.explorer.budget._problem.text()


def test_measured_costs_leave_the_playhead_where_it_is(window, qtbot, field) -> None:
    window.playhead.seek(9)
    window.session.exploration.set_graph(training_chain(12))
    assert window.playhead.step == 9


def test_escape_leaves_the_field_and_does_not_stop_the_solve(window, qtbot, field, monkeypatch) -> None:
    stopped = []
    monkeypatch.setattr(window.session, "stop_solve", lambda: stopped.append(True))
    enter(field, qtbot, "much")
    assert window.explorer.budget._problem.isVisible()
    qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert field.text() == "" and not field.hasFocus() and not stopped
    assert not window.explorer.budget._problem.isVisible()
    assert QApplication.focusWidget() is window.explorer.budget


def test_the_windows_commands_work_while_typing(window, qtbot, field) -> None:
    ran = []
    for name in ("file.export", "view.search"):
        window.commands[name].triggered.disconnect()
        window.commands[name].triggered.connect(lambda _=False, n=name: ran.append(n))
        window.commands[name].setEnabled(True)
    qtbot.keyClicks(field, "70%")
    qtbot.keyClick(field, Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(field, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
    assert ran == ["file.export", "view.search"] and field.text() == "70%"


@pytest.mark.parametrize(
    "text", ["much", "a very long text that nobody would type as a budget, or so it seems"]
)
def test_a_refusal_does_not_move_the_field(window, qtbot, field, text: str) -> None:
    places = [view.geometry() for view in (field, window.explorer.budget.frontier)]
    enter(field, qtbot, text)
    problem = window.explorer.budget._problem
    assert problem.isVisible() and text in problem.text()
    qtbot.wait(50)
    assert [view.geometry() for view in (field, window.explorer.budget.frontier)] == places
    assert not problem.geometry().intersects(field.geometry())
    assert window.explorer.budget.rect().contains(problem.geometry())
