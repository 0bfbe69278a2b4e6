from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import psutil
import pytest
from PIL import Image
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QMenu

from app.presenters.paper import FigureFile, Paper, Shows, Width, figure_file, film
from app.theme import DARK, LIGHT, ThemeChoice
from app.views.dialogs.export_dialog import FigureDialog
from checkmate.cli.main import build_parser
from checkmate.errors import UsageError
from checkmate.formats import write_graph
from tests.app.windows import exploration_of, smaller, training_chain

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
        (Shows.BOTH, ("R", "S", "operation", "stage")),
        (Shows.FRONTIER, ("keep everything", "none known")),
        (Shows.GRAPH, ("FORWARD", "BACKWARD", "layer0")),
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


def yellow(picture: Image.Image) -> np.ndarray:
    """Return the columns with the playhead's colour. It fills the whole height of the curve's panel there."""
    pixels = np.asarray(picture.convert("RGB")).astype(int)
    like = np.abs(pixels - np.array([255, 196, 0])).sum(axis=2) < 40
    return np.flatnonzero(like[pixels.shape[0] * 2 // 3 :].sum(axis=0) > 60)


@pytest.mark.parametrize("most", [5, 7, 40, 10**6])
def test_a_film_has_the_first_step_the_last_one_and_the_peak(most: int) -> None:
    exploration = exploration_of(training_chain(30))
    shown = smaller(exploration)
    made = film(shown.matrices, shown.timeline.peak_step, most)
    stages = shown.matrices.n
    assert len(made.steps) == len(made.milliseconds) <= max(most, 5)
    assert list(made.steps) == sorted(set(made.steps))
    assert {0, shown.timeline.peak_step, len(shown.schedule.steps) - 1} <= set(made.steps)
    assert made.every == 1 or stages > most - 3
    if made.every == 1:  # a picture of every stage's end
        assert len({int(shown.matrices.stage_of_step[step]) for step in made.steps}) == stages
    assert all(time % 10 == 0 for time in made.milliseconds)


def test_the_window_saves_its_playback(explored, qtbot, tmp_path) -> None:
    path, progress = tmp_path / "chain.gif", []
    views = explored.explorer.film
    views.film.progressed.connect(lambda drawn, frames: progress.append((drawn, frames)))
    step, shown = explored.playhead.step, explored.session.exploration.shown
    with qtbot.waitSignal(explored.session.noticed, timeout=60000) as notice:
        views.save(path)
        # What is shown now is not what is being saved, and the window's own playhead stays where it is.
        explored.session.exploration.show(explored.session.exploration.plain)
    assert f"Saved {path}" in notice.args[0] and views.dialog is None
    frames = len(film(shown.matrices, shown.timeline.peak_step).steps)
    assert progress == [(number + 1, frames) for number in range(frames)]
    with Image.open(path) as picture:
        assert picture.n_frames == frames and picture.size == (960, 600)
        places = []
        for number in range(frames):
            picture.seek(number)
            columns = yellow(picture)
            assert len(columns) in (2, 3, 4), (number, columns)
            places.append(float(columns.mean()))
    assert places == sorted(places) and places[-1] - places[0] > 500
    share = step / (len(shown.schedule.steps) - 1)
    assert explored.playhead.step == round(share * (explored.playhead.count - 1))


def test_cancelling_and_a_killed_process_leave_nothing(explored, qtbot, tmp_path) -> None:
    making, children = explored.explorer.film.film, psutil.Process().children
    before = {child.pid for child in children()}
    with qtbot.waitSignal(explored.session.noticed, timeout=30000) as notice:
        making.progressed.connect(lambda drawn, _: making.cancel() if drawn == 3 else None)
        explored.explorer.film.save(tmp_path / "cancelled.gif")
    assert "cancelled; nothing was written" in notice.args[0]
    making.progressed.disconnect()
    making.progressed.connect(
        lambda drawn, _: os.kill(making._process.pid, signal.SIGKILL) if drawn == 3 else None
    )
    with qtbot.waitSignal(explored.session.failed, timeout=30000) as failure:
        explored.explorer.film.save(tmp_path / "killed.gif")
    assert "process ended" in failure.args[0] and "Nothing was written" in failure.args[0]
    assert list(tmp_path.iterdir()) == [] and not making.busy
    qtbot.waitUntil(lambda: {child.pid for child in children()} <= before, timeout=5000)


def test_a_film_that_cannot_be_saved_is_one_sentence(window, qtbot, tmp_path) -> None:
    said = []
    window.session.failed.connect(lambda sentence, hint: said.append(sentence))
    window.explorer.film.save(tmp_path / "x.gif")
    window.session.exploration.set_graph(training_chain())
    window.explorer.film.save(tmp_path / "x.mp4")
    window.explorer.film.save(tmp_path / "nowhere" / "x.gif")
    assert len(said) == 3 and "nothing to play" in said[0]
    assert "not the name of an animated picture" in said[1]
    assert "no folder" in said[2]


@pytest.mark.heavy
def test_the_command_line_saves_without_a_screen(tmp_path) -> None:
    write_graph(tmp_path / "g.json", training_chain(6))
    command = [sys.executable, "-m", "checkmate", "explore", str(tmp_path / "g.json")]
    command += ["--theme", "dark", "--animation"]
    done = subprocess.run([*command, str(tmp_path / "g.png")], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "g.png") as picture:
        assert picture.n_frames >= 12
    for name, says in (("g.mp4", "not the name of an animated picture"), ("nowhere/g.gif", "no folder")):
        done = subprocess.run([*command, str(tmp_path / name)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
