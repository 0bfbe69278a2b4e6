from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

from app.presenters.paper import film
from checkmate.formats import write_graph
from tests.app.windows import exploration_of, smaller, training_chain

pytestmark = pytest.mark.heavy  # many windows, a second each


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


def test_the_window_saves_its_playback(explored, qtbot, tmp_path: Path) -> None:
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


def test_cancelling_and_a_killed_process_leave_nothing(explored, qtbot, tmp_path: Path) -> None:
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


def test_a_film_that_cannot_be_saved_is_one_sentence(window, qtbot, tmp_path: Path) -> None:
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
def test_the_command_line_saves_without_a_screen(tmp_path: Path) -> None:
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
