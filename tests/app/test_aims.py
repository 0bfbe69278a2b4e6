from __future__ import annotations

import math

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QApplication

from app.models.exploration import Exploration
from app.presenters.wording import least_text
from app.state.solve import Aim, SliderTarget
from checkmate import planning
from checkmate.ir import GraphBuilder
from checkmate.memory.check import check
from checkmate.solvers.constraints import Constraints
from checkmate.units import format_bytes, parse_bytes
from tests.app.windows import open_chain, training_chain

pytestmark = pytest.mark.heavy  # each solves in a process of its own

CAP = Aim(0.15)
LAYERS = 6  # so few that everything is proved in a second or two


def aimed(window, qtbot, aim: Aim):
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        window.explorer.budget.aim(aim)
    return window.session.exploration.solve


def test_least_memory_at_a_cost_equals_the_command_lines(window, exploration, qtbot) -> None:
    open_chain(window, qtbot, LAYERS)
    solve = aimed(window, qtbot, CAP)
    found = planning.least_memory(exploration.graph, max_overhead=CAP.max_overhead)
    assert found.proved and solve.status == "optimal"
    peaks = {exploration.shown.peak_bytes, exploration.budget_bytes, exploration.least_bound}
    assert peaks == {found.peak_bytes}
    assert exploration.shown.overhead <= CAP.max_overhead + 1e-9
    steps = exploration.shown.schedule.steps.tolist()
    report = check(exploration.graph, steps, budget_bytes=found.peak_bytes)
    assert report.ok and report.cost == pytest.approx(exploration.shown.cost)


def test_least_possible_memory_is_proved_and_smaller_budgets_are_infeasible(window, qtbot) -> None:
    open_chain(window, qtbot, LAYERS)
    exploration = window.session.exploration
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        qtbot.mouseClick(window.explorer.budget.aims.possible, Qt.MouseButton.LeftButton)
    found = planning.least_memory(exploration.graph)
    assert found.proved and exploration.solve.status == "optimal"
    assert exploration.budget_bytes == found.peak_bytes == exploration.least_possible
    assert math.isinf(exploration.frontier.bound(found.peak_bytes - 1))
    assert "No schedule needs less" in window.explorer.solving._details.text()


def test_aim_shows_the_smallest_known_schedule_at_once_then_smaller_ones() -> None:
    exploration, graph = Exploration(), training_chain(LAYERS)
    exploration.set_graph(graph)
    smaller = planning.solve(graph, int(exploration.plain.peak_bytes * 0.85)).require_schedule().steps
    smallest = planning.least_memory(graph, max_overhead=0.5).schedule.steps
    exploration.add(np.asarray(smaller), budget_bytes=exploration.plain.peak_bytes, solver="x", seconds=0.0)
    over = exploration.known[0].overhead
    exploration.set_aim(Aim(over / 2))
    assert exploration.shown is exploration.plain and exploration.budget_bytes == exploration.plain.peak_bytes
    exploration.set_aim(Aim(0.5))
    assert exploration.shown.peak_bytes == exploration.budget_bytes < exploration.plain.peak_bytes
    before = exploration.budget_bytes
    exploration.add(np.asarray(smallest), budget_bytes=exploration.plain.peak_bytes, solver="x", seconds=0.0)
    assert exploration.budget_bytes == exploration.known[0].peak_bytes < before
    # A move of the slider ends the aim.
    exploration.set_budget(before)
    assert exploration.aim is None and exploration.asked == SliderTarget(before)
    exploration.set_aim(Aim(0.5))
    exploration.set_budget(exploration.budget_bytes)
    assert exploration.aim is None


def test_later_schedules_answer_the_aim_too() -> None:
    exploration, graph = Exploration(), training_chain(LAYERS)
    exploration.set_graph(graph)
    exploration.set_aim(Aim(0.5))
    exploration.begin_solve(1)
    solve = exploration.solve
    solve.status, solve.seconds = "feasible", 10.0
    news = []
    exploration.solve_changed.connect(lambda: news.append(solve.status))
    found = planning.least_memory(graph, max_overhead=0.5)
    assert found.proved
    exploration.add(found.schedule.steps, budget_bytes=found.peak_bytes, solver="x", seconds=0.0)
    assert solve.best[-1][1] == found.peak_bytes == exploration.budget_bytes and news == ["feasible"]
    exploration.add_bound(found.peak_bytes - 1, graph.base_cost * 1.6)
    assert solve.status == "optimal" and solve.gap == 0.0 and news[-1] == "optimal"
    # The results of another aim do not belong to this one.
    exploration.set_aim(Aim(0.0))
    exploration.add_bound(exploration.plain.peak_bytes - 1, graph.base_cost * 1.001)
    assert solve.lower_bound == found.peak_bytes


def test_budgets_and_aims_are_undone(window, exploration, qtbot) -> None:
    open_chain(window, qtbot, LAYERS)
    stack = window.what_ifs.stack
    budget = int(exploration.plain.peak_bytes * 0.9)
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        window.explorer.budget.choose(budget)
    aimed(window, qtbot, CAP)
    least = exploration.budget_bytes
    assert least < budget and stack.undoText() == "Least memory at most +15 %" and stack.count() == 2
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        stack.undo()
    assert exploration.asked == SliderTarget(budget) and exploration.solve.aim is None
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        stack.undo()
    assert exploration.budget_bytes == exploration.plain.peak_bytes and not stack.canUndo()
    stack.redo()
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        stack.redo()
    assert exploration.aim == CAP and exploration.budget_bytes == least


def test_aim_stays_in_force_under_other_constraints(window, exploration, qtbot) -> None:
    open_chain(window, qtbot, LAYERS)
    aimed(window, qtbot, CAP)
    without = exploration.budget_bytes
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        window.session.constrain(Constraints(never_recompute_groups=("layer*",)))
    assert exploration.aim == CAP and exploration.solve.aim == CAP
    assert exploration.budget_bytes == exploration.shown.peak_bytes > without
    assert exploration.shown in exploration.known


def test_stop_keeps_the_smallest_schedule_so_far(window, exploration, qtbot) -> None:
    open_chain(window, qtbot, layers=40)
    window.explorer.budget.aim(Aim(0.1))
    qtbot.wait(100)
    with qtbot.waitSignal(window.session.settled, timeout=5000):
        window.session.stop_solve()
    assert exploration.solve.status in ("cancelled", "feasible", "optimal")
    assert exploration.shown.peak_bytes == exploration.budget_bytes
    assert exploration.shown.overhead <= 0.1 + 1e-9


def test_controls_say_which_aim_is_in_force(window, exploration, qtbot) -> None:
    open_chain(window, qtbot, LAYERS)
    budget = window.explorer.budget
    budget.aims.percent.setText("nonsense")
    qtbot.mouseClick(budget.aims.least, Qt.MouseButton.LeftButton)
    assert exploration.aim is None and "Cannot read 'nonsense'" in budget._problem.text()
    assert not budget.aims.least.isChecked() and budget._problem.isVisible()
    budget.aims.percent.setText("11.5 %")
    qtbot.keyClick(budget.aims.percent, Qt.Key.Key_Up)
    qtbot.mouseClick(budget.aims.least, Qt.MouseButton.LeftButton)
    assert budget.aims.percent.text() == "+12.5 %" and not budget._problem.isVisible()
    assert exploration.aim == Aim(0.125) and budget.aims.least.isChecked()
    assert not budget.aims.possible.isChecked()
    budget._entry.setText("min")
    qtbot.keyClick(budget._entry, Qt.Key.Key_Return)
    assert exploration.aim == Aim(math.inf) and budget.aims.possible.isChecked()
    assert not budget.aims.least.isChecked()
    budget.choose(exploration.plain.peak_bytes)
    assert not budget.aims.possible.isChecked() and not budget.aims.least.isChecked()
    assert window.explorer.budget.note.text() == "Predicted"


def test_pulling_the_cost_axis_aims(window, exploration, qtbot) -> None:
    open_chain(window, qtbot, LAYERS)
    qtbot.waitUntil(lambda: len(exploration.known) > 2, timeout=60000)
    plot = window.explorer.budget.frontier
    asked = []
    window.explorer.budget.solve_wanted.connect(lambda: asked.append(exploration.aim))
    area = plot._area()
    top, bottom = (QPointF(area.left() - 4, y).toPoint() for y in (area.top() + 8, area.bottom() - 10))
    qtbot.mousePress(plot, Qt.MouseButton.LeftButton, pos=bottom)
    assert exploration.aim.max_overhead == pytest.approx(0.0, abs=0.002)
    assert exploration.shown.overhead <= exploration.aim.max_overhead + 1e-9
    qtbot.mouseMove(plot, top)
    qtbot.mouseRelease(plot, Qt.MouseButton.LeftButton, pos=top)
    assert asked and asked[-1] == exploration.aim
    assert plot._on_cap(QPointF(top)) and not plot._on_cap(QPointF(area.center()))


def test_words_never_call_a_limit_a_proof() -> None:
    size = 2**20 * 5
    assert "proved" in least_text("optimal", size, 0.0, "")
    for status in ("solving", "feasible", "cancelled"):
        assert "proved" not in least_text(status, size, 0.1, "")
    assert "within 10.0\u00a0%" in least_text("feasible", size, 0.1, "")
    assert "failed" in least_text("failed", size, None, "why")


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
    window.session.exploration.measured(training_chain(12))
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
