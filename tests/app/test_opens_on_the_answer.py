from __future__ import annotations

import dataclasses

from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QToolTip

from app.models.exploration import Exploration
from app.presenters.hotspot_rows import View
from app.presenters.schedule_rows import RowGroup, ScheduleRow, cost_text, grouped
from app.state.solve import SliderTarget
from checkmate import planning
from checkmate.units import FIRST_SHARE
from tests.app.windows import exploration_of, open_chain, smaller, training_chain


def test_a_graph_opens_on_its_peak_and_what_helps_there(window, qtbot) -> None:
    open_chain(window, qtbot)
    shown, inspector = window.session.exploration.shown, window.explorer.inspector
    assert window.playhead.step == shown.timeline.peak_step > 0
    assert inspector.memory.view is View.HELPS and inspector._name.text().startswith("Peak ")
    assert "waits for" in inspector._name.text() and inspector.note.text().endswith("peak")


def test_a_schedule_for_a_share_of_the_peak_is_solved_by_itself(window, exploration, qtbot) -> None:
    open_chain(window, qtbot)
    listed = window.explorer.schedules
    qtbot.waitUntil(lambda: len(listed.rows) > 1 and " of the peak" in listed.rows[1].name, timeout=60000)
    assert listed.rows[0].found is exploration.plain
    assert listed.rows[1].found.peak_bytes <= FIRST_SHARE * exploration.plain.peak_bytes
    assert exploration.shown is exploration.plain and exploration.solve is None
    assert window.playhead.step == exploration.plain.timeline.peak_step
    assert window.explorer.inspector.memory.view is View.HELPS


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


def baselines_of(exploration: Exploration) -> list[ScheduleRow]:
    return list(grouped(exploration.what_if, exploration.listing.own)[RowGroup.BASELINES])


def test_beside_keeping_everything_is_the_best_for_a_share_of_its_peak() -> None:
    exploration = exploration_of(training_chain())
    whole, budget = baselines_of(exploration), int(FIRST_SHARE * exploration.plain.peak_bytes)
    assert [(row.found, row.detail) for row in whole] == [(exploration.plain, "")]
    for solver in ("greedy", "auto"):  # what is listed follows what is known
        found = planning.solve(exploration.graph, budget, solver=solver)
        steps = found.require_schedule().steps
        exploration.add(steps, budget_bytes=budget, solver=solver, seconds=0.0)
        _, row = baselines_of(exploration)
        assert row.found is exploration.best_for(budget) and row.found.peak_bytes <= budget
        assert row.name == f"60\u00a0% of the peak · {cost_text(row.found.overhead)}"
    assert row.found not in [one.found for one in grouped(exploration.what_if, [])[RowGroup.FRONTIER]]
    exploration.listing.answer(SliderTarget(budget), row.found)  # asked for, it is the user's own
    assert [row.found for row in baselines_of(exploration)] == [exploration.plain]


def test_where_the_share_is_proved_too_little_the_least_memory_is_listed() -> None:
    exploration = exploration_of(dataclasses.replace(training_chain(), fixed_bytes=2**30))
    least = smaller(exploration, 1 - 1e-3)
    assert [row.found for row in baselines_of(exploration)] == [exploration.plain]  # who knows
    for needed, word in ((2**30, "known"), (least.peak_bytes, "possible")):
        exploration.set_needed(needed, exploration.what_if)
        _, row = baselines_of(exploration)
        assert row.found is least and row.name == f"Least memory {word} · {cost_text(least.overhead)}"
    exploration.set_needed(exploration.plain.peak_bytes, exploration.what_if)
    assert baselines_of(exploration)[0].detail == "none needs less, proved"


def test_measured_costs_leave_the_playhead_where_it_is(window, exploration) -> None:
    for at in (None, 3):
        exploration.set_graph(training_chain())
        exploration.set_passing(True)
        if at is not None:
            window.playhead.seek(at)
        window.playhead.play(at is not None)
        exploration.measured(training_chain())
        peak = exploration.shown.timeline.peak_step
        assert window.playhead.step == (peak if at is None else at) and window.playhead.playing is (
            at is not None
        )
    exploration.set_graph(training_chain(7))
    assert window.playhead.step == exploration.shown.timeline.peak_step and not window.playhead.playing
