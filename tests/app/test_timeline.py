from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QFontMetricsF, QGuiApplication, QImage, QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip

from app.models.span import Scale
from app.presenters.axes import StepAxis
from app.views.timeline.plot_legend import HEIGHT, legend_lines, legend_metrics
from app.views.timeline.pointed_plot import PointedPlot, TickAxis
from checkmate import planning
from checkmate.catalog.bundled import find_graph
from checkmate.formats.graph import read_graph
from checkmate.units import format_bytes
from tests.app.windows import cell_place, cursor_line, exploration_of, training_chain
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


def plots_of(explorer) -> list[PointedPlot]:
    return [explorer.curve, *explorer.matrices]


def place_in_window(window, plot: PointedPlot, step: int) -> float:
    line = cursor_line(plot, step)
    return plot.mapTo(window, QPointF(line.x1(), line.center().y())).x()


@pytest.mark.parametrize("by_cost", [False, True])
def test_what_is_below_each_other_in_curve_r_and_s_is_one_moment(window, qtbot, by_cost: bool) -> None:
    _, explorer = opened(window, qtbot)
    plots, span, box = plots_of(explorer), explorer.span, explorer.curve.getPlotItem().vb
    if by_cost:
        qtbot.keyClick(explorer.graph_view, Qt.Key.Key_T)
    for notches in (0, 2):
        turn(explorer.matrices[1], cell_place(explorer.matrices[1], 40, 20), notches)
        drawn(window, qtbot)
        assert (span.begin > 0) == (notches > 0)
        tops = [plot.mapTo(window, QPoint(0, 0)).y() for plot in plots]
        assert tops == sorted(set(tops))
        for plot in plots:
            assert plot.getPlotItem().vb.viewRange()[0] == pytest.approx(box.viewRange()[0])
            for step in (30, 40, 45):
                places = [place_in_window(window, one, step) for one in (explorer.curve, plot)]
                assert places[0] == pytest.approx(places[1], abs=0.01)


def test_the_plots_grow_with_the_timeline(window, qtbot) -> None:
    _, explorer = opened(window, qtbot)
    plots = plots_of(explorer)
    before = [plot.getPlotItem().vb.height() for plot in plots]
    explorer.area.enlarge(explorer.area.docks["timeline"])
    drawn(window, qtbot)
    whole = sum(plot.height() for plot in plots)
    for plot, height, share in zip(plots, before, (0.6, 0.2, 0.2), strict=True):
        assert plot.getPlotItem().vb.height() > 1.5 * height
        assert plot.height() / whole == pytest.approx(share, abs=0.06)
        assert plot.getPlotItem().vb.width() == explorer.curve.getPlotItem().vb.width()
    window.resize(1000, 640)
    explorer.area.share_room()
    drawn(window, qtbot)
    assert [plot.height() >= least for plot, least in zip(plots, (140, 70, 70), strict=True)] == [True] * 3


def test_playhead_pointer_and_selected_steps_are_in_all_three(window, qtbot) -> None:
    _, explorer = opened(window, qtbot)
    plots, (r, s) = plots_of(explorer), explorer.matrices
    qtbot.mouseClick(s.viewport(), Qt.MouseButton.LeftButton, pos=cell_place(s, 33, 5))
    assert window.playhead.step == 33 and window.selection.op == 5
    assert len({plot._line.value() for plot in plots}) == 1
    for view, at in ((explorer.curve, on_curve(explorer.curve, 21)), (r, cell_place(r, 22, 22))):
        move(view.viewport(), at)
        assert all(plot._hover.isVisible() for plot in plots)
        assert len({plot._hover.value() for plot in plots}) == 1
        assert all(matrix._row.isVisible() == (view is r) for matrix in (r, s))
    QApplication.sendEvent(r, QEvent(QEvent.Type.Leave))
    assert not any(plot._hover.isVisible() for plot in plots) and not s._row.isVisible()
    drag(r, cell_place(r, 20, 30), cell_place(r, 50, 30))
    assert explorer.span.chosen == (20, 50) and window.playhead.step == 33
    assert all(plot._chosen.isVisible() for plot in plots)
    assert len({plot._chosen.getRegion() for plot in plots}) == 1


def test_every_recomputation_is_seen_in_r_however_small_its_cell_is(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    r, shown = explorer.matrices[0], exploration.shown
    window.playhead.seek(0)
    image, wanted = r.grab().toImage(), r._theme.color("recomputed").name()
    for step in np.flatnonzero(~shown.schedule.first_occurrence).tolist():
        at = cell_place(r, step, int(shown.schedule.steps[step]))
        near = [(at.x() + x, at.y() + y) for x in (-1, 0, 1) for y in (-1, 0, 1)]
        assert wanted in {image.pixelColor(*place).name() for place in near}, step


def test_r_and_s_say_what_a_cell_means_and_zoom_to_it(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    shown, (r, s), span = exploration.shown, explorer.matrices, explorer.span
    again = int(np.flatnonzero(~shown.schedule.first_occurrence)[0])
    op, stage = int(shown.schedule.steps[again]), int(shown.matrices.stage_of_step[again])
    name = f"{shown.graph.ops[op].name} of {shown.graph.ops[op].group}"
    place = cell_place(r, again, op)
    move(r.viewport(), place + QPoint(1, 1))  # a dot is larger than its cell
    words = QToolTip.text()
    assert words.startswith(f"stage {stage + 1} computes {name} again, at step {again + 1}:\ndropped after")
    assert explorer.span.pointed == (again, op)
    first = int(np.flatnonzero(shown.schedule.steps == op)[0])
    move(s.viewport(), cell_place(s, first + 1, op))
    words = QToolTip.text()
    assert words.startswith(f"{name} is held as stage") and f"computed at step {first + 1}" in words
    for _ in range(6):
        turn(r, place, 1)
    drawn(window, qtbot)
    low, high = (80 * (1 - share) for share in reversed(span.heights[Scale.OPS]))
    column = int(np.flatnonzero(shown.matrices.order == op)[0])
    assert span.begin < again + 0.5 < span.end and low < column + 0.5 < high and high - low < 20
    move(r.viewport(), cell_place(r, again, op))
    assert QToolTip.text().startswith(f"stage {stage + 1} computes {name} again")
    steps = span.begin, span.end
    turn(r, place, -1, Qt.KeyboardModifier.ControlModifier)  # ops alone
    assert (span.begin, span.end) == steps and span.heights[Scale.OPS] != (1 - high / 80, 1 - low / 80)
    qtbot.mouseDClick(s.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert span.is_whole


def test_another_schedule_keeps_the_stages_on_screen_and_another_graph_shows_all(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    span = explorer.span
    turn(explorer.curve, on_curve(explorer.curve, 60), 4)
    stages = span.stages
    exploration.show(exploration.plain)
    assert span.stages == pytest.approx(stages) and not span.is_whole
    exploration.set_graph(training_chain(20))
    assert span.is_whole and span.count == 40


def test_s_of_many_ops_shows_how_many_cells_are_held(window, exploration, qtbot) -> None:
    """A pixel that stands for many cells is as dark as many of them are held."""
    s = window.explorer.matrices[1]
    graph = training_dag(3, 500)
    exploration.set_graph(graph)

    def darkness() -> float:
        drawn(window, qtbot)
        # The first half of the stages and ops: forward values alone.
        middle = cell_place(s, int(exploration.shown.matrices.stage_of_step.searchsorted(half)), half)
        area = s.getPlotItem().vb.sceneBoundingRect()
        image = s.grab().toImage().convertToFormat(QImage.Format.Format_Grayscale8)
        pixels = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1)
        part = pixels[int(area.top()) + 2 : middle.y(), int(area.left()) + 6 : middle.x()]
        return float(255 - part.mean())

    half = graph.n // 2
    plain = darkness()
    budget = int(exploration.plain.peak_bytes * 0.62)
    steps = planning.solve(graph, budget, solver="greedy").require_schedule().steps
    exploration.add(steps, budget_bytes=budget, solver="greedy", seconds=0.0)
    found = exploration.known[0]
    exploration.show(found)
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


def test_the_legends_of_r_and_s_have_every_colour_in_one_line(window, qtbot) -> None:
    _, explorer = opened(window, qtbot)
    for matrix, roles in zip(
        explorer.matrices, (("recomputed", "forward", "backward"), ("held",)), strict=True
    ):
        matrix.setFixedWidth(400)
        image = matrix.grab().toImage()
        colors = {image.pixelColor(x, y).name() for y in range(HEIGHT) for x in range(image.width())}
        assert colors >= {matrix._theme.color(role).name() for role in roles}
        move(matrix.viewport(), QPoint(100, 5))
        assert QToolTip.text().startswith(f"{matrix._title}: each")


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
