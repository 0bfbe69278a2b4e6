from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QFontMetricsF, QGuiApplication, QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip

from app.presenters.axes import StepAxis
from app.views.timeline.plot_legend import HEIGHT, legend_lines, legend_metrics
from app.views.timeline.pointed_plot import TickAxis
from checkmate import planning
from checkmate.catalog.bundled import find_graph
from checkmate.formats.graph import read_graph
from checkmate.units import format_bytes
from tests.app.windows import cursor_line, exploration_of, training_chain
from tests.generated_graphs import training_dag

# What this platform says when a tooltip comes up.
pytestmark = pytest.mark.heavy


def opened(window, qtbot, layers: int = 40):
    """Show a schedule that recomputes, without a solver process."""
    exploration = window.session.exploration
    exploration.set_graph(training_chain(layers))
    budget = int(exploration.plain.peak_bytes * 0.7)
    steps = planning.solve(exploration.graph, budget, solver="greedy").require_schedule().steps
    exploration.add(steps, budget_bytes=budget, solver="greedy", seconds=0.0)
    exploration.show(exploration.known[0])
    assert exploration.shown.schedule.recomputations
    drawn(window, qtbot)
    return exploration, window.explorer


def drawn(window, qtbot) -> None:
    explorer = window.explorer
    QApplication.processEvents()
    qtbot.waitUntil(lambda: not explorer.turns.waiting and not explorer.curve._later.isActive())
    QApplication.processEvents()


def on_curve(curve, step: float) -> QPoint:
    line = cursor_line(curve, step)
    return QPointF(line.x1(), line.center().y()).toPoint()


def turn(view, at: QPoint, notches: float, modifiers=Qt.KeyboardModifier.NoModifier) -> None:
    """Turn the wheel over a place of a view, away from oneself if positive."""
    target = view.viewport() if hasattr(view, "viewport") else view
    event = QWheelEvent(
        QPointF(at),
        QPointF(target.mapToGlobal(at)),
        QPoint(0, 0),
        QPoint(0, round(120 * notches)),
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(target, event)


def drag(view, begin: QPoint, end: QPoint, modifiers=Qt.KeyboardModifier.NoModifier) -> None:
    target = view.viewport() if hasattr(view, "viewport") else view
    QTest.mousePress(target, Qt.MouseButton.LeftButton, modifiers, begin)
    for share in (0.3, 0.7, 1.0):
        between = begin + (end - begin) * share
        move(target, between, Qt.MouseButton.LeftButton, modifiers)
    QTest.mouseRelease(target, Qt.MouseButton.LeftButton, modifiers, end)


def move(target, at: QPoint, buttons=Qt.MouseButton.NoButton, modifiers=Qt.KeyboardModifier.NoModifier):
    """Move the pointer; unlike QTest's own, this one holds buttons."""
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        QPointF(at),
        QPointF(target.mapToGlobal(at)),
        Qt.MouseButton.NoButton,
        buttons,
        modifiers,
    )
    QApplication.sendEvent(target, event)


def test_the_curve_says_what_is_under_the_pointer(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    shown, curve = exploration.shown, explorer.curve
    again = int(np.flatnonzero(~shown.schedule.first_occurrence)[0])
    for step in (5, again, shown.timeline.peak_step):
        move(curve.viewport(), on_curve(curve, step))
        words = QToolTip.text()
        op = shown.graph.ops[int(shown.schedule.steps[step])]
        stage = int(shown.matrices.stage_of_step[step])
        assert f"step {step + 1:,} of {len(shown.schedule.steps)}" in words and f"stage {stage + 1}" in words
        assert op.name in words and "live" in words and "units" in words and "as the file says" in words
        assert ("recomputed, run 2" in words) == (step == again)
        assert ("the peak\n" in words and "% of" not in words) == (step == shown.timeline.peak_step)
        assert curve._hover.isVisible()


def test_the_wheel_zooms_around_the_pointer_and_all_views_follow(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    curve, span, count = explorer.curve, explorer.span, len(exploration.shown.schedule.steps)
    pictures = [matrix.grab().toImage() for matrix in explorer.matrices]
    at = on_curve(curve, 60)
    for _ in range(4):
        turn(curve, at, 1)
    drawn(window, qtbot)
    assert 0 < span.begin < 60 < span.end < count and span.end - span.begin < count / 2
    assert abs(curve.step_at(QPointF(at)) - 60) <= 1  # what was under the pointer still is
    low, high = curve.getPlotItem().vb.viewRange()[0]
    assert (low + 0.5, high + 0.5) == pytest.approx((span.begin, span.end))
    for matrix, old in zip(explorer.matrices, pictures, strict=True):
        assert matrix.grab().toImage() != old
    for _ in range(12):
        turn(curve, at, -1)
    drawn(window, qtbot)
    assert span.is_whole and (span.begin, span.end) == (0, count)
    for _ in range(40):
        turn(curve, at, 1)
    assert span.end - span.begin == 1  # down to one op


def test_keys_zoom_and_move_while_a_view_of_the_timeline_has_the_focus(window, qtbot) -> None:
    _, explorer = opened(window, qtbot)
    span, comparison = explorer.span, explorer.comparison
    for view in (explorer.curve, *explorer.matrices):
        explorer.graph_view.setFocus()
        drawn(window, qtbot)
        before = view.grab().toImage()
        view.setFocus()
        drawn(window, qtbot)
        assert view.grab().toImage() != before  # a frame says where the keys go
        for _ in range(3):
            qtbot.keyClick(view, Qt.Key.Key_W)
        length = span.end - span.begin
        assert length < span.count
        begin = span.begin
        qtbot.keyClick(view, Qt.Key.Key_D)
        assert span.begin > begin and span.end - span.begin == pytest.approx(length)
        assert not comparison.active  # D compares elsewhere
        qtbot.keyClick(view, Qt.Key.Key_A)
        assert span.begin == pytest.approx(begin)
        qtbot.keyClick(view, Qt.Key.Key_S)
        assert span.end - span.begin > length
        qtbot.keyClick(view, Qt.Key.Key_W)
        qtbot.keyClick(view, Qt.Key.Key_Home)
        assert span.is_whole
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_D)
    assert comparison.active


def test_a_drag_selects_steps_and_says_what_is_in_them(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    shown, curve, span = exploration.shown, explorer.curve, explorer.span
    window.playhead.seek(3)
    drag(curve, on_curve(curve, 20), on_curve(curve, 50))
    assert span.chosen == (20, 50) and window.playhead.step == 3
    live = shown.timeline.live_bytes[20:51]
    text = explorer.span_bar.text()
    assert text.startswith("31 steps, ") and f"{format_bytes(int(live.max()))} live" in text
    assert "steps 21 to 51" in text
    for width in (1100, 1700):
        window.resize(width, 900)
        drawn(window, qtbot)
        words = explorer.span_bar._words
        assert words.fontMetrics().horizontalAdvance(words.text()) <= words.width()
        assert words.text().startswith("31 steps"[:3]) and words.toolTip() == text
    assert curve._chosen.isVisible() and explorer.span_bar.closer.isVisible()
    qtbot.mouseClick(explorer.span_bar.closer, Qt.MouseButton.LeftButton)
    assert span.begin <= 20 < 51 <= span.end and span.end - span.begin < 35
    curve.setFocus()
    qtbot.keyClick(curve, Qt.Key.Key_Escape)
    assert span.chosen is None and not explorer.span_bar.closer.isVisible()
    qtbot.mouseClick(explorer.span_bar.whole, Qt.MouseButton.LeftButton)
    assert span.is_whole and not explorer.span_bar.whole.isVisible()


def test_a_click_on_the_curve_goes_there_and_a_double_click_shows_all(window, qtbot) -> None:
    _, explorer = opened(window, qtbot)
    curve, span = explorer.curve, explorer.span
    qtbot.mouseClick(curve.viewport(), Qt.MouseButton.LeftButton, pos=on_curve(curve, 30))
    assert window.playhead.step == 30
    turn(curve, on_curve(curve, 30), 3)
    drawn(window, qtbot)
    qtbot.mouseClick(curve.viewport(), Qt.MouseButton.LeftButton, pos=on_curve(curve, 33))
    assert window.playhead.step == 33
    qtbot.mouseDClick(curve.viewport(), Qt.MouseButton.LeftButton, pos=on_curve(curve, 33))
    assert span.is_whole


def test_the_curve_can_count_costs_in_place_of_steps(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    shown, curve, span = exploration.shown, explorer.curve, explorer.span
    axes = {side: curve.getPlotItem().getAxis(side) for side in ("bottom", "top")}
    assert [axis.labelText for axis in axes.values()] == ["step", "cost"]
    even = [on_curve(curve, step).x() for step in (10, 20, 30)]
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_T)
    drawn(window, qtbot)
    assert span.by_cost and [axis.labelText for axis in axes.values()] == ["cost", "step"]
    costs = np.concatenate([[0.0], np.cumsum(shown.graph.cost[shown.schedule.steps])])
    low, high = curve.getPlotItem().vb.viewRange()[0]
    assert (low, high) == pytest.approx((0.0, costs[-1]))
    assert np.allclose(curve._line.value(), costs[window.playhead.step : window.playhead.step + 2].mean())
    assert [on_curve(curve, step).x() for step in (10, 20, 30)] != even
    qtbot.mouseClick(curve.viewport(), Qt.MouseButton.LeftButton, pos=on_curve(curve, 40))
    assert window.playhead.step == 40
    assert np.isclose(curve._outline.yData.max() * curve._size, shown.peak_bytes)
    qtbot.mouseClick(explorer.span_bar.axis, Qt.MouseButton.LeftButton)
    assert not span.by_cost


def test_matrices_say_what_a_cell_is_and_zoom_to_cells(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    shown, (r, s), span = exploration.shown, explorer.matrices, explorer.span
    matrices = shown.matrices
    again = int(np.flatnonzero(~shown.schedule.first_occurrence)[0])
    stage, column = int(matrices.stage_of_step[again]), int(matrices.column_of_step[again])
    place = r._place(stage + 0.5, column + 0.5).toPoint()
    move(r, place)
    assert f"stage {stage + 1} · op {column + 1}" in QToolTip.text()
    assert f"recomputed here, in step {again + 1}" in QToolTip.text()
    held = int(np.flatnonzero(matrices.held_to - matrices.held_from > 3)[0])
    row, across = int(matrices.held_from[held]) + 1, int(matrices.held_column[held])
    move(s, s._place(row + 0.5, across + 0.5).toPoint())
    assert "held (" in QToolTip.text()
    for _ in range(6):
        turn(r, place, 1)
    top, bottom = span.rows
    left, right = span.columns
    assert top < stage + 0.5 < bottom < matrices.n and left < column + 0.5 < right
    assert right - left < matrices.n / 4
    move(r, place)
    assert f"stage {stage + 1} · op {column + 1}" in QToolTip.text()
    assert (span.begin, span.end) == pytest.approx((span.position(top), span.position(bottom)))
    qtbot.mouseDClick(s, Qt.MouseButton.LeftButton, pos=place)
    assert span.is_whole


def test_a_drag_with_shift_selects_stages(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    r, span, matrices = explorer.matrices[0], explorer.span, exploration.shown.matrices
    window.playhead.seek(2)
    ends = (r._place(row + 0.5, 10).toPoint() for row in (10, 19))
    drag(r, *ends, Qt.KeyboardModifier.ShiftModifier)
    chosen = np.flatnonzero((matrices.stage_of_step >= 10) & (matrices.stage_of_step <= 19))
    assert span.chosen == (chosen[0], chosen[-1]) and window.playhead.step == 2


def test_another_schedule_keeps_the_stages_on_screen_and_another_graph_shows_all(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    span = explorer.span
    turn(explorer.curve, on_curve(explorer.curve, 60), 4)
    rows = span.rows
    exploration.show(exploration.plain)
    assert span.rows == pytest.approx(rows) and not span.is_whole
    exploration.set_graph(training_chain(20))
    assert span.is_whole and span.count == 40


def test_s_of_many_ops_shows_how_many_cells_are_held(window, exploration, qtbot) -> None:
    """A pixel that stands for many cells is as dark as many of them are held."""
    s = window.explorer.matrices[1]
    graph = training_dag(3, 500)
    exploration.set_graph(graph)

    def darkness() -> float:
        drawn(window, qtbot)
        image = s.grab().toImage().convertToFormat(s.grab().toImage().Format.Format_Grayscale8)
        area = s._area()
        pixels = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1)
        # The first half of the stages, below the playhead's line: forward values alone.
        top, left, side = int(area.top()), int(area.left()), int(area.width())
        return float(255 - pixels[top + 4 : top + side // 2, left + 2 : left + side // 2].mean())

    plain = darkness()
    budget = int(exploration.plain.peak_bytes * 0.62)
    steps = planning.solve(graph, budget, solver="greedy").require_schedule().steps
    exploration.add(steps, budget_bytes=budget, solver="greedy", seconds=0.0)
    found = exploration.known[0]
    exploration.show(found)
    half = graph.n // 2
    shares = [one.matrices.S[:half, :half].mean() for one in (found, exploration.plain)]
    assert darkness() / plain < shares[0] / shares[1] + 0.06 < 0.8


def test_the_words_of_ticks_never_touch(qapp) -> None:
    wide = [(10.0 * number, f"{number}00 GFLOP") for number in range(10)]
    axis = TickAxis("top", lambda low, high, most: wide)
    ((_, places),) = axis.tickValues(0.0, 90.0, 300.0)
    words, metrics = dict(wide), QFontMetricsF(QGuiApplication.font())
    halves = [metrics.horizontalAdvance(words[place]) / 2 for place in places]
    pixels = [place * 300.0 / 90.0 for place in places]
    ends = zip(pixels, pixels[1:], halves, halves[1:], strict=False)
    assert len(places) > 1 and all(left + a < right - b for left, right, a, b in ends)


@pytest.mark.parametrize("size", [200.0, 260.0, 330.0])
def test_a_scale_has_three_ticks_where_their_words_have_room(qapp, size: float) -> None:
    exploration = exploration_of(read_graph(find_graph("unet-b8.graph")))
    shown = exploration.shown
    steps = StepAxis.of(shown.graph, shown.schedule, by_cost=False)
    low, high = float(steps.edges[0]), float(steps.edges[-1])
    for ticks_of in (steps.cost_ticks, steps.step_ticks):
        axis, metrics = TickAxis("top", ticks_of), QFontMetricsF(QGuiApplication.font())
        ((_, places),) = axis.tickValues(low, high, size)
        halves = [metrics.horizontalAdvance(words) / 2 for words in axis.tickStrings(places, 1.0, 1.0)]
        pixels = [(place - low) * size / (high - low) for place in places]
        drawn = [half <= at <= size - half for at, half in zip(pixels, halves, strict=True)]
        assert sum(drawn) >= 3  # words beyond an end are not drawn


def test_the_budgets_words_leave_room_for_those_of_a_peak_over_it(window, exploration) -> None:
    curve = window.explorer.curve
    exploration.set_graph(training_chain())
    assert curve._budget.label.anchors[0][1] == 1.0  # above the line
    exploration.set_budget(exploration.plain.peak_bytes // 2)
    assert curve._budget.label.anchors[0][1] == 0.0  # below it


@pytest.mark.parametrize("width", [130, 180, 300])
def test_the_legend_of_r_has_every_colour_however_narrow_it_is(window, qtbot, width: int) -> None:
    _, explorer = opened(window, qtbot)
    r, s = explorer.matrices
    for matrix in (r, s):
        matrix.resize(width, 260)
    image = r.grab().toImage()
    below = range(int(r._area().bottom()) + 18, image.height())
    colors = {image.pixelColor(x, y).name() for y in below for x in range(image.width())}
    assert colors >= {r._theme.color(role).name() for role in ("recomputed", "forward", "backward")}
    assert r._area() == s._area()  # a stage is at one height in both


def test_the_legend_of_the_curve_has_lines_for_all_that_is_drawn(window, qtbot) -> None:
    _, explorer = opened(window, qtbot)
    curve = explorer.curve
    curve.setFixedWidth(300)
    drawn(window, qtbot)
    metrics = legend_metrics(QGuiApplication.font())
    lines = legend_lines(curve.legend_entries(), metrics, curve.legend.boundingRect().width())
    assert 1 < len(lines) <= 3 and curve.legend.boundingRect().height() == HEIGHT * len(lines)
    words = sorted(entry.words for line in lines for entry in line)
    assert words == sorted(entry.words for entry in curve.legend_entries())
    image = curve.grab().toImage()
    colors = {image.pixelColor(x, y).name() for y in range(60) for x in range(image.width())}
    assert curve._theme.color("recomputed").name() in colors
