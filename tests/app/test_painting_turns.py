from __future__ import annotations

import threading

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QColor, QImage, QPainter, QRegion
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget

from app.state.knowledge import ListedSchedule
from app.views.common.paint_turns import PaintTurns
from checkmate.ir import GraphBuilder
from tests.app.windows import open_chain, training_chain

pytestmark = pytest.mark.heavy  # whole windows are drawn, turn by turn


class Painted(QWidget):
    def __init__(self, log: list[str], name: str) -> None:
        super().__init__()
        self._log, self._name, self.color = log, name, "red"

    def paintEvent(self, event) -> None:
        self._log.append(self._name)
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self.color))
        painter.end()


@pytest.fixture
def views(qtbot):
    log: list[str] = []
    parent = QWidget()
    layout = QVBoxLayout(parent)
    made = [Painted(log, name) for name in "abc"]
    for view in made:
        layout.addWidget(view)
    qtbot.addWidget(parent)
    parent.resize(80, 160)
    parent.show()
    qtbot.waitUntil(lambda: set(log) == set("abc"))
    qtbot.wait(50)
    log.clear()
    return parent, made, log


def test_one_view_is_painted_per_turn(views, qtbot) -> None:
    _, made, log = views
    turns = PaintTurns(made)
    turns.begin()
    for view in made:
        view.update()
    turn = 0
    while turns.waiting or not log:
        before = len(log)
        QApplication.processEvents()
        assert len(log) - before <= 1
        turn += 1
        assert turn < 100
    qtbot.waitUntil(lambda: log == ["a", "b", "c"])


def test_other_changes_are_painted_before_the_first_view(views, qtbot) -> None:
    _, made, log = views
    turns = PaintTurns(made[:2])
    turns.begin()
    for view in made:
        view.update()
    QApplication.processEvents()
    assert log == ["c"]
    qtbot.waitUntil(lambda: log == ["c", "a", "b"])


def test_a_view_that_waits_keeps_its_old_picture(views, qtbot) -> None:
    parent, made, log = views
    turns = PaintTurns(made)
    for view in made:
        view.color = "blue"
        view.update()
    turns.begin()
    seen = []
    while turns.waiting or not log:
        QApplication.processEvents()
        parent.update()
        seen.append([_pixels(parent).pixelColor(view.geometry().center()).name() for view in made])
    old, new = QColor("red").name(), QColor("blue").name()
    assert {color for row in seen for color in row} == {old, new}
    assert [old] * 3 in seen and len({tuple(row) for row in seen}) > 2


def test_a_view_of_another_size_does_not_wait(views, qtbot) -> None:
    parent, made, log = views
    turns = PaintTurns(made)
    turns.begin()
    parent.resize(100, 220)
    QApplication.processEvents()
    assert set(log) == set("abc")


def test_a_graph_is_prepared_before_its_page_is_painted(window, qtbot) -> None:
    pages = window.explorer.parentWidget()
    qtbot.waitUntil(lambda: not _empty(_pixels(window), pages.geometry()))
    before = _pixels(window)
    painted = []
    window.session.exploration.graph_changed.connect(lambda: painted.append(_pixels(window) != before))
    open_chain(window, qtbot)
    assert painted == [False]


def test_a_new_page_is_there_at_once(window, exploration, qtbot) -> None:
    explorer = window.explorer
    docks = (explorer.area.docks["budget"], explorer.area.docks["schedules"])
    views = (explorer.graph_view, *explorer.matrices, explorer.curve, *docks)
    pages = explorer.parentWidget()
    qtbot.waitUntil(lambda: not _empty(_pixels(window), pages.geometry()))
    before = _pixels(window)  # the start page, which has content where the views come
    exploration.set_graph(training_chain())
    shown, turns = [], 0
    while explorer.turns.waiting:
        QApplication.processEvents()
        pixels, turns = _pixels(window), turns + 1
        shown.append([_is_new(before, pixels, _in_window(view)) for view in views])
    first = next(number for number, row in enumerate(shown) if all(row))
    assert first > 0 and turns > 3 and not any(any(row) for row in shown[:first])
    layers = _in_window(explorer.layers)
    assert all(all(row) for row in shown[first:]) and not _empty(_pixels(window), layers)
    exploration.set_graph(training_chain(6))  # the page is there already: nothing of it goes away
    while explorer.turns.waiting:
        QApplication.processEvents()
        assert not any(_empty(_pixels(window), _in_window(view)) for view in views)


def _is_new(before: QImage, now: QImage, place: QRect) -> bool:
    return now.copy(place) != before.copy(place) and not _empty(now, place)


def _pixels(window: QWidget) -> QImage:
    store = window.backingStore()
    store.beginPaint(QRegion())
    pixels = store.paintDevice().copy()
    store.endPaint()
    return pixels


def _in_window(view: QWidget) -> QRect:
    return QRect(view.mapTo(view.window(), QPoint(0, 0)), view.size())


def _empty(pixels: QImage, area: QRect) -> bool:
    """Return whether the middle of an area has one colour only."""
    across, down = round(0.1 * area.width()), round(0.1 * area.height())
    part = pixels.copy(area.adjusted(across, down, -across, -down))
    across, down = range(0, part.width(), 3), range(part.height())
    return part.isNull() or len({part.pixel(x, y) for x in across for y in down}) < 2


def test_all_views_are_painted_however_often_they_change(views, qtbot) -> None:
    _, made, log = views
    turns = PaintTurns(made)
    for _ in range(12):
        turns.begin()
        QApplication.processEvents()
    assert {log.count(name) for name in "abc"} <= {3, 4, 5} and set(log) == set("abc")
    turns.finish()
    assert turns.waiting == 0


def test_the_window_saves_pictures_of_what_is_drawn(window, qtbot, tmp_path, chain_open) -> None:
    explorer = window.explorer
    qtbot.waitUntil(lambda: explorer.turns.waiting == 0)
    view = next(view for view in explorer.saver.views if view.name == "Memory curve")
    explorer.saver.copy_picture(view)
    whole = QApplication.clipboard().image()
    explorer.turns.begin()
    assert explorer.turns.waiting
    explorer.saver.copy_picture(view)
    assert QApplication.clipboard().image() == whole and explorer.turns.waiting == 0


def test_a_large_schedule_is_prepared_beforehand(window, exploration, qtbot, monkeypatch, chain_open) -> None:
    monkeypatch.setattr("app.models.exploration._AT_ONCE", 0)
    threads, known = set(), []
    prepare = ListedSchedule.prepare
    monkeypatch.setattr(
        ListedSchedule, "prepare", lambda found: (threads.add(threading.get_ident()), prepare(found))
    )
    exploration.shown_changed.connect(lambda: known.append(exploration.shown.prepared))
    before = exploration.shown
    window.explorer.budget.choose(int(exploration.plain.peak_bytes * 0.7))
    window.session.solve(1.0)
    qtbot.waitUntil(lambda: not exploration.solve.running, timeout=20000)
    qtbot.waitUntil(lambda: exploration.shown is exploration.best_for(exploration.budget_bytes), timeout=5000)
    assert exploration.shown is not before and known and all(known)
    assert threads and threading.get_ident() not in threads


def test_a_chosen_schedule_outlives_pending_ones(window, exploration, qtbot, monkeypatch, chain_open) -> None:
    window.explorer.budget.choose(int(exploration.plain.peak_bytes * 0.7))
    window.session.solve(1.0)
    qtbot.waitUntil(lambda: not exploration.solve.running, timeout=20000)
    window.session.solving.close()  # which would find more while nothing is asked
    qtbot.wait(50)
    monkeypatch.setattr("app.models.exploration._AT_ONCE", 0)
    best = exploration.best_for(exploration.budget_bytes)
    assert best is not exploration.plain
    exploration.show(exploration.plain)
    exploration.set_budget(exploration.budget_bytes)  # its own schedule is about to be shown again
    exploration.show(exploration.plain)
    qtbot.wait(50)
    exploration.show_best()
    exploration.show_now()
    assert exploration.shown is exploration.plain
    exploration.set_budget(exploration.budget_bytes)
    exploration.show_now()
    assert exploration.shown is best


def test_the_curve_has_as_many_columns_as_it_has_room_for(window, exploration, qtbot) -> None:
    with qtbot.waitSignal(exploration.known_changed, timeout=20000):
        window.session.use_graph(training_chain(600))
    curve, shown = window.explorer.curve, exploration.shown
    columns = []
    for width in (240, 500):
        curve.resize(width, 200)
        qtbot.waitUntil(lambda w=width: w <= curve._columns / 2 < w + 128)
        columns.append(len(curve._outline.yData))
        assert np.isclose(curve._outline.yData.max() * curve._size, shown.peak_bytes)
    assert columns[0] < columns[1] <= 1200


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_the_words_at_the_peak_stay_inside_the_plot(window, qtbot, share: float) -> None:
    count, most = 60, 10 * 2**20
    builder = GraphBuilder("one large value")
    last: list[int] = []
    for number in range(count):
        last = [builder.value(f"v{number}", most if number == round(share * (count - 1)) else 2**10)]
        builder.op(f"an_op_with_quite_a_long_name_{number}", [], last)
    window.session.exploration.set_graph(builder.build())
    curve = window.explorer.curve
    qtbot.waitUntil(lambda: "peak" in curve._peak_text.toPlainText(), timeout=20000)
    curve.resize(500, 200)
    qtbot.waitUntil(lambda: "long_name" in curve._peak_text.toPlainText(), timeout=20000)
    curve.getPlotItem().vb.updateMatrix()
    curve._peak_text.updateTransform(force=True)  # as when it is painted
    plot, words = curve.getPlotItem().vb.sceneBoundingRect(), curve._peak_text.textItem
    placed = words.mapRectToScene(words.boundingRect())
    assert plot.left() - 1 < placed.left() and placed.right() < plot.right() + 1
    assert plot.top() - 1 < placed.top() and placed.bottom() < plot.bottom()
