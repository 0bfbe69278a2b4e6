from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QWidget

from app.presenters.start import STOPS, Place
from tests.app.windows import button, open_chain

pytestmark = pytest.mark.heavy  # many windows, a second each


def start(window, qtbot) -> None:
    open_chain(window, qtbot)
    window.activateWindow()
    qtbot.keyClick(window, Qt.Key.Key_F1, Qt.KeyboardModifier.ShiftModifier)
    assert window.tour.at == 0 and window.tour.card.isVisible()


def place_in(window, widget: QWidget) -> QRect:
    return QRect(widget.mapTo(window, QPoint(0, 0)), widget.size())


def pointed_at(window) -> dict[Place, QWidget]:
    explorer = window.explorer
    return {
        Place.BUDGET: explorer.budget,
        Place.CURVE: explorer.curve,
        Place.GRAPH: explorer.graph_panel,
        Place.MATRICES: explorer.matrices[0],
        Place.EXPORT: window._export,
    }


def test_the_tour_goes_to_every_panel_and_back(window, qtbot) -> None:
    start(window, qtbot)
    targets = pointed_at(window)
    for number, stop in enumerate(STOPS):
        qtbot.wait(20)
        assert window.tour.at == number and window.tour.card._title.text() == stop.title
        ring = window.tour._ring.geometry()
        inside = place_in(window, targets[stop.place]) & window.rect()
        assert ring.contains(inside.center())
        card = place_in(window, window.tour.card)
        assert window.rect().contains(card)
        words = window.tour.card._words
        room, wrapped = QRect(0, 0, words.width(), 1000), Qt.TextFlag.TextWordWrap
        lines = QFontMetrics(words.font()).boundingRect(room, wrapped, words.text())
        assert 0 <= words.height() - lines.height() < 6
        for part in window.tour.card.findChildren(QWidget):
            assert part.isHidden() or card.contains(place_in(window, part))
            assert part.isHidden() or part.width() >= part.minimumSizeHint().width()
        if stop.place is not Place.GRAPH:  # which leaves no room beside it in a narrow window
            assert not card.intersects(inside)
        if number + 1 < len(STOPS):
            qtbot.mouseClick(window.tour.card.next, Qt.MouseButton.LeftButton)
    assert window.tour.card.next.text() == "Done"
    qtbot.mouseClick(window.tour.card.back, Qt.MouseButton.LeftButton)
    assert window.tour.at == len(STOPS) - 2
    for _ in range(2):
        qtbot.keyClick(window.tour.card.next, Qt.Key.Key_Return)
    assert window.tour.at is None and window.tour.card.isHidden() and window.tour._ring.isHidden()


def test_escape_leaves_the_tour_and_nothing_else(window, qtbot) -> None:
    start(window, qtbot)
    window.selection.select(3)
    qtbot.keyClick(window.explorer.graph_view, Qt.Key.Key_Escape)
    assert window.tour.at is None and window.tour.card.isHidden() and window.selection.op == 3
    qtbot.keyClick(window.explorer.graph_view, Qt.Key.Key_Escape)
    assert window.selection.op == -1  # as ever


@pytest.mark.heavy
def test_panels_stay_in_use_and_the_first_stop_tries_a_budget(window, exploration, qtbot) -> None:
    start(window, qtbot)
    window.tour.card.tried.click()
    qtbot.waitUntil(lambda: exploration.shown.schedule.recomputations > 0, timeout=60000)
    assert exploration.budget_bytes == int(0.6 * exploration.plain.peak_bytes)
    assert window.tour.at == 0
    window.tour._go(1)
    window.tour._go(1)
    assert (
        f"In this schedule {exploration.shown.schedule.recomputations} step" in window.tour.card._words.text()
    )
    qtbot.waitUntil(window.what_ifs.stack.canUndo, timeout=20000)
    qtbot.keyClick(window, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert exploration.budget_bytes == exploration.opened_at.budget_bytes and window.tour.at == 2


def test_a_closed_panel_comes_back_for_its_stop_and_the_card_follows(window, qtbot, chain_open) -> None:
    area = window.explorer.area
    area.toggle("timeline")
    assert not area.is_open("timeline")
    window.tour.start()
    window.tour._go(1)
    assert area.is_open("timeline")
    before = place_in(window, window.tour.card)
    window.resize(1100, 700)
    qtbot.wait(50)
    card = place_in(window, window.tour.card)
    assert card != before and window.rect().contains(card)


def test_it_starts_from_the_start_page_with_a_sample_and_never_by_itself(window, exploration, qtbot) -> None:
    assert window._start.isVisible() and window.tour.at is None
    with qtbot.waitSignal(exploration.graph_changed, timeout=20000):
        qtbot.mouseClick(window._start.tour, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.tour.at == 0, timeout=20000)
    assert exploration.graph.name.startswith("unet") and window.explorer.isVisible()
    window.tour.leave()
    window.open("resnet50-b256.graph")
    qtbot.waitUntil(lambda: exploration.graph.n == 353, timeout=20000)
    qtbot.wait(100)
    assert window.tour.at is None
    window.show_start()
    qtbot.mouseClick(window._start.tour, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.tour.at == 0, timeout=20000)
    assert exploration.graph.n == 353 and window.explorer.isVisible()  # what is open stays open


def test_the_start_page_ends_the_tour(window, qtbot) -> None:
    start(window, qtbot)
    window.commands["file.start"].trigger()
    assert window.tour.at is None and window.tour.card.isHidden()
    assert button(window._start, "Take the tour: five steps").isVisible()
