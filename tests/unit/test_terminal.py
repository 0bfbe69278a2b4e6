"""Test what a user's program writes where there is no terminal."""

from __future__ import annotations

import io
import sys
import threading
from itertools import pairwise
from typing import Any

import pytest

from checkmate.progress import Progress
from checkmate.terminal import CellLine, PacedLines, progress_line, time_words


def test_a_line_for_each_new_activity_and_else_one_in_ten_seconds() -> None:
    now, lines = 100.0, []
    paced = PacedLines(lines.append, lambda: now)
    reports = [
        (0.0, "trace", "tracing the step"),
        (0.5, "solve", "solving for 80 MiB"),
        (0.6, "solve", "best so far +3 %"),
        (2.0, "measure", "measuring the step"),
        (3.0, "solve", "solving for 81 MiB"),
        (11.9, "measure", "measuring the step"),
        (12.0, "solve", "best so far +2 %"),
        (12.1, "solve", "best so far +1 %"),
        (13.0, "solve", ""),
        (40.0, "solve", "solving for 82 MiB"),
    ]
    for seconds, stage, message in reports:
        now = 100.0 + seconds
        paced.report(Progress(stage, message=message))
    assert lines == [
        "checkmate [  0 s] trace: tracing the step\n",
        "checkmate [  0 s] solve: solving for 80 MiB\n",
        "checkmate [  1 s] solve: best so far +3 %\n",
        "checkmate [  2 s] measure: measuring the step\n",
        "checkmate [ 12 s] measure: measuring the step\n",
        "checkmate [ 40 s] solve: solving for 82 MiB\n",
    ]


def test_a_stage_that_is_busy_for_minutes_says_so_now_and_then() -> None:
    now, lines = 0.0, []
    paced = PacedLines(lines.append, lambda: now)
    for tenth in range(1200):
        now = tenth / 10
        paced.report(Progress("solve", message=f"best so far {tenth}"))
    assert 12 <= len(lines) <= 13


def test_what_goes_on_is_told_at_least_every_ten_seconds() -> None:
    """Check a report that came too soon, and was the last for a long while."""
    now, lines, written_at = 0.0, [], []

    def write(line: str) -> None:
        lines.append(line)
        written_at.append(now)

    paced = PacedLines(write, lambda: now)
    for half in range(25, 145):  # the clock is looked at twice a second; nothing is reported at first
        now = half / 2 - 12.5
        if half in (70, 71, 72):
            paced.report(Progress("measure", message=f"run {half}"))
        paced.tick()
    assert lines[:3] == [
        "checkmate [ 10 s] starting\n",
        "checkmate [ 19 s] starting\n",
        "checkmate [ 22 s] measure: run 70\n",
    ]
    assert set(lines[3:]) == {f"checkmate [ {at:.0f} s] measure: run 72\n" for at in written_at[3:]}
    gaps = [after - before for before, after in pairwise([0.0, *written_at, now])]
    assert max(gaps) <= 10.0 and len(lines) < 10


def test_the_line_of_a_terminal_says_the_seconds_and_those_left() -> None:
    assert time_words(28.4, 9.8) == "28 s, about 10 s left"
    assert time_words(0.0, None) == "0 s"
    assert time_words(200.0, 3600.0) == "3 min 20 s, about 60 min 0 s left"


def test_a_terminal_shows_these_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_line(quiet=False) as report:
        report(Progress("solve", 1.0, 4.0, "best so far +3 %"))
    shown = screen.getvalue()
    assert "best so far +3 %" in shown and " 0 s" in shown and "0:00" not in shown


def test_a_reporter_of_ones_own_takes_the_place_of_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[Progress] = []
    with progress_line(quiet=False, report=heard.append) as report:
        report(Progress("solve", message="best so far"))
    assert [each.message for each in heard] == ["best so far"] and not capsys.readouterr().err


@pytest.mark.parametrize("quiet", [False, True])
def test_a_log_gets_lines_and_no_bar(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with progress_line(quiet=quiet) as report:
        report(Progress("trace", message="tracing the step"))
    assert not [each for each in threading.enumerate() if each.name == "progress lines"]
    assert log.getvalue() == ("" if quiet else "checkmate [  0 s] trace: tracing the step\n")


class Cell:
    """Keeps what a notebook would display, and the updates of it."""

    def __init__(self) -> None:
        self.displays: list[dict[str, str]] = []
        self.updates: list[dict[str, str]] = []

    def __call__(self, shown: dict[str, str], **how: Any) -> Cell:
        assert how == {"raw": True, "display_id": True}
        self.displays.append(shown)
        return self

    def update(self, shown: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.updates.append(shown)


def test_a_cell_has_one_line_in_one_place() -> None:
    now, cell = 50.0, Cell()
    line = CellLine(cell, lambda: now)
    line.report(Progress("profile", 1.0, 4.0, "measuring <conv>"))
    now = 60.0
    line.tick()
    line.report(Progress("solve", message="best so far +3 %"))
    now = 61.0
    line.tick()
    line.close()
    assert len(cell.displays) == 1 and len(cell.updates) == 2
    first, (second, last) = cell.displays[0], cell.updates
    assert first["text/plain"] == "profile: measuring <conv> [10 s, about 30 s left]"
    assert "measuring &lt;conv&gt;" in first["text/html"] and 'value="0.250"' in first["text/html"]
    assert second["text/plain"] == "solve: best so far +3 % [11 s]" and "<progress" not in second["text/html"]
    assert last["text/plain"] == "took 11 s" and "took 11 s" in last["text/html"]


def test_a_cell_shows_nothing_of_what_is_over_at_once() -> None:
    cell = Cell()
    line = CellLine(cell)
    line.report(Progress("solve", message="best so far +3 %"))
    line.close()
    assert cell.displays == cell.updates == []
