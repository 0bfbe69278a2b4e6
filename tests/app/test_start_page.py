from __future__ import annotations

import os
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QLabel, QPushButton

from app.models.recovery import Explored, Recent
from app.presenters.start import curve_words, outline
from app.theme import DARK, LIGHT
from app.views.window.start_page import SampleCard
from checkmate.catalog.samples import shown_samples

pytestmark = pytest.mark.heavy  # many windows, a second each


def cards_of(window) -> list[SampleCard]:
    return window._start.findChildren(SampleCard)


def test_three_samples_say_what_they_show(window) -> None:
    cards = cards_of(window)
    assert [card.button.text() for card in cards] == [sample.graph for sample in shown_samples()]
    assert len(cards) == 3
    for card, sample in zip(cards, shown_samples(), strict=True):
        said = [label.text() for label in card.findChildren(QLabel)]
        assert {sample.title, sample.shows, curve_words(sample)} <= set(said)
        for label in card.findChildren(QLabel):
            assert label.height() >= label.heightForWidth(label.width()), f"{label.text()} is cut"


@pytest.mark.parametrize("where", ["picture", "sentence", "name"])
def test_a_click_anywhere_on_a_card_opens_its_graph(window, exploration, qtbot, where: str) -> None:
    card = cards_of(window)[0]
    spot = {"picture": QPoint(60, 60), "sentence": QPoint(60, 140), "name": card.button.geometry().center()}
    widget = card.childAt(spot[where]) or card
    with qtbot.waitSignal(exploration.graph_changed, timeout=20000):
        qtbot.mouseClick(widget, Qt.MouseButton.LeftButton, pos=widget.mapFrom(card, spot[where]))
    assert exploration.graph.n == 280


def test_the_pictures_have_both_curves_and_the_budget_in_each_theme(window) -> None:
    for theme in (LIGHT, DARK):
        window.theme.now = theme
        for card in cards_of(window):
            image = card.grab().toImage()
            across, down = range(image.width()), range(image.height())
            seen = {image.pixelColor(x, y).name() for x in across for y in down}
            assert {theme.tokens[role] for role in ("held", "freed", "accent")} <= seen


def test_an_outline_keeps_the_peak_however_narrow() -> None:
    live = [1, 2, 9, 3, 4, 1, 1]
    assert outline(live, 3) == [2, 9, 4]
    assert outline(live, 1) == [9]
    assert len(outline(live, 20)) == 20 and max(outline(live, 20)) == 9


def test_recent_explorations_are_there_and_new_ones_come(window, qtbot, tmp_path: Path) -> None:
    page = window._start
    assert any("Nothing was explored yet" in label.text() for label in page.findChildren(QLabel))
    kept = Recent(tmp_path / "recent")
    window._recent = kept
    (tmp_path / "saved").write_text("x")
    os.utime(tmp_path / "saved", (1e9, 1e9))
    kept.keep(tmp_path / "saved", "net, batch 4")
    window.show_start()
    qtbot.waitUntil(lambda: not any("Nothing was" in one.text() for one in page.findChildren(QLabel)))
    link = next(one for one in page.findChildren(QPushButton) if one.text() == "net, batch 4")
    wanted: list[str] = []
    page.wanted.connect(wanted.append)
    link.click()
    assert wanted == [str(kept.entries()[0].path)]


def test_the_page_scrolls_in_the_smallest_window(window, qtbot) -> None:
    window.resize(1000, 640)
    page = window._start
    page.show_recent([Explored(Path("a"), f"exploration {number}", 0.0) for number in range(6)])
    qtbot.wait(20)
    last = next(one for one in page.findChildren(QPushButton) if one.text() == "lstm")
    page.ensureWidgetVisible(last)
    assert page.viewport().rect().contains(last.mapTo(page.viewport(), last.rect().center()))
    assert page.horizontalScrollBar().maximum() == 0
