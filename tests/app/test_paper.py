from __future__ import annotations

import gc
import re
import xml.etree.ElementTree as ET
import zlib

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QMenu

from app.presenters.paper import FigureFile, Paper, Shows, Width, figure_file
from app.theme import DARK, LIGHT, ThemeChoice
from app.views.dialogs.export_dialog import FigureDialog
from checkmate.cli.main import build_parser
from checkmate.errors import UsageError

COLUMN = Paper(Width.COLUMN, 8.0)
SVG = "{http://www.w3.org/2000/svg}"
pytestmark = pytest.mark.heavy  # whole figures are drawn; what a view saves is in test_view_saver


def page_size(pdf: bytes) -> tuple[float, float]:
    found = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    return float(found.group(1)), float(found.group(2))


def drawn(pdf: bytes) -> bytes:
    parts = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    texts = []
    for part in parts:
        try:
            texts.append(zlib.decompress(part))
        except zlib.error:
            texts.append(part)
    return b"\n".join(texts)


def words(svg: bytes) -> str:
    return " ".join("".join(part.itertext()) for part in ET.fromstring(svg).iter(f"{SVG}text"))


@pytest.mark.parametrize("shows", list(Shows))
@pytest.mark.parametrize("width", [Width.COLUMN, Width.PAGE])
def test_a_pdf_is_as_wide_as_the_paper_and_has_its_font(explored, shows: Shows, width: Width) -> None:
    pdf = explored.explorer.figures.pdf(shows, Paper(width, 8.0))
    assert pdf.startswith(b"%PDF")
    assert page_size(pdf)[0] == pytest.approx(72 * width.value, abs=1.0)
    assert b"/FontFile2" in pdf and re.search(rb"/FontName /\w*\+?Inter", pdf)
    assert b"Tj" in drawn(pdf) or b"TJ" in drawn(pdf)  # words, not outlines of letters


def test_the_words_of_an_svg_are_words_and_its_width_is_the_papers(explored) -> None:
    figures = explored.explorer.figures
    for shows, said in (
        (Shows.CURVE, ("MiB", "peak", "budget", "step")),
        (Shows.BOTH, ("R: each dot", "S: each line", "op", "step")),
        (Shows.FRONTIER, ("keep everything", "not known yet")),
        (Shows.GRAPH, ("forward →", "backward ←", "layer0")),
    ):
        svg = figures.svg(shows, COLUMN)
        assert all(word in words(svg) for word in said), words(svg)
        wide = ET.fromstring(svg).get("width")
        assert wide.endswith("mm") and float(wide[:-2]) == pytest.approx(25.4 * 3.3, abs=0.5)


def test_a_figure_is_light_and_leaves_the_window_as_it_is(explored) -> None:
    explored.theme.choose(ThemeChoice.DARK)
    before = [(view.widget.size(), view.name) for view in explored.explorer.saver.views]
    svg = explored.explorer.figures.svg(Shows.FRONTIER, COLUMN).decode()
    assert LIGHT.tokens["accent"] in svg and DARK.tokens["accent"] not in svg
    assert explored.theme.now is DARK
    assert [(view.widget.size(), view.name) for view in explored.explorer.saver.views] == before


def test_words_without_room_and_other_names_are_refused(explored, tmp_path) -> None:
    with pytest.raises(UsageError, match="no room") as told:
        Paper(Width.COLUMN, 30.0)
    most = int(re.search(r"at most (\d+)", told.value.hint).group(1))
    assert Paper(Width.COLUMN, most).pixels >= 200
    with pytest.raises(UsageError, match="points cannot be drawn"):
        Paper(Width.PAGE, 1.0)
    with pytest.raises(UsageError, match="no figure's name"):
        FigureFile(tmp_path / "x.png", Shows.R, COLUMN)


def test_the_menu_of_a_view_leads_to_its_figure(explored, tmp_path) -> None:
    explorer = explored.explorer
    curve = next(view for view in explorer.saver.views if view.name == "Memory curve")
    menu: QMenu = explorer.saver.menu_of(curve)
    next(entry for entry in menu.actions() if entry.text() == "Save for a paper…").trigger()
    dialog = explored.findChild(FigureDialog)
    assert dialog.shows.currentText() == "Memory curve" and dialog.points.value() == 8.0
    dialog.width_of.setCurrentIndex(2)
    assert dialog.points.value() == 16.0
    dialog.points.setValue(40.0)
    dialog.width_of.setCurrentIndex(0)
    dialog.points.setValue(40.0)
    assert not dialog.save.isEnabled() and "no room" in dialog._hint.text()
    dialog.points.setValue(7.0)
    dialog.take(tmp_path / "curve.pdf")
    assert page_size((tmp_path / "curve.pdf").read_bytes())[0] == pytest.approx(72 * 3.3, abs=1.0)
    assert explored.statusBar().currentMessage() == f"Saved {tmp_path / 'curve.pdf'}."


def test_the_command_line_names_the_same_figures() -> None:
    parser = build_parser()
    for shows in Shows:
        for width in Width:
            told = ["--figure-of", shows.value, "--figure-width", width.name.lower()]
            found = parser.parse_args(["explore", "x", "--figure", "y.svg", *told])
            made = figure_file(found.figure, found.figure_of, found.figure_width, found.font_size)
            assert (made.shows, made.paper) == (shows, Paper(width, width.usual_points))


def test_figures_leave_nothing_behind(explored, qapp) -> None:
    def count() -> int:
        qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()  # the menus that a plot makes for itself
        return len(QApplication.allWidgets())

    before = count()
    for shows in Shows:
        explored.explorer.figures.svg(shows, COLUMN)
    assert count() == before
    explored.playhead.seek(3)  # what is gone does not answer
    explored.selection.select(2)
    explored.explorer.span.choose((1, 4))
