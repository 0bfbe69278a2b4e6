"""Test what a user's program writes where there is no terminal."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from checkmate.progress import Progress
from checkmate.terminal import PacedLines, progress_here


def test_a_line_for_each_new_stage_and_else_one_in_ten_seconds() -> None:
    now, lines = 100.0, []
    paced = PacedLines(lines.append, lambda: now)
    reports = [
        (0.0, "trace", "tracing the step"),
        (0.5, "solve", "solving for 80 MiB"),
        (0.6, "solve", "best so far +3 %"),
        (2.0, "measure", "measuring the step"),
        (3.0, "solve", "solving for 81 MiB"),
        (11.9, "measure", "measuring again"),
        (12.0, "solve", "best so far +2 %"),
        (12.1, "solve", "best so far +1 %"),
        (13.0, "solve", ""),
        (40.0, "solve", "the last"),
    ]
    for seconds, stage, message in reports:
        now = 100.0 + seconds
        paced.report(Progress(stage, message=message))
    assert lines == [
        "checkmate [  0 s] trace: tracing the step\n",
        "checkmate [  0 s] solve: solving for 80 MiB\n",
        "checkmate [  2 s] measure: measuring the step\n",
        "checkmate [ 12 s] solve: best so far +2 %\n",
        "checkmate [ 40 s] solve: the last\n",
    ]


def test_a_stage_that_is_busy_for_minutes_says_so_now_and_then() -> None:
    now, lines = 0.0, []
    paced = PacedLines(lines.append, lambda: now)
    for tenth in range(1200):
        now = tenth / 10
        paced.report(Progress("solve", message=f"best so far {tenth}"))
    assert len(lines) == 12


def test_what_goes_on_is_told_when_its_time_has_come() -> None:
    """Check a report that came too soon, and was the last for a long while."""
    now, lines = 0.0, []
    paced = PacedLines(lines.append, lambda: now)
    for seconds, message in ((0.0, "first"), (1.0, "second"), (2.0, "third")):
        now = seconds
        paced.report(Progress("measure", message=message))
    for tenth in range(20, 600):
        now = tenth / 10
        paced.tick()
    assert lines == ["checkmate [  0 s] measure: first\n", "checkmate [ 10 s] measure: third\n"]


@pytest.mark.parametrize("quiet", [False, True])
def test_a_log_gets_lines_and_no_bar(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with progress_here(quiet=quiet) as report:
        report(Progress("trace", message="tracing the step"))
    assert not [each for each in threading.enumerate() if each.name == "progress lines"]
    assert log.getvalue() == ("" if quiet else "checkmate [  0 s] trace: tracing the step\n")
