"""Test a long course in short, and the judge of long ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.course.__main__ import run
from tests.course.judge import Course, grown, judge

WINDOW = {
    "moves": 9, "solves": 2, "opens": 1, "seconds": 60.0, "unsettled": 0, "warnings": [], "problems": [],
    "samples": [{"rss_mb": 100.0}], "per_1000_moves": {"rss_mb": 0.0},
    "verdict": {"flat": True, "no_orphans": True},
}  # fmt: skip


def rounds(*rss: float, said: int = 0, missed: int = 0) -> list[dict[str, object]]:
    return [
        {"rss_mb": mb, "steps": 10 * (i + 1), "steps_said_to_miss": said, "over_budget": said + missed,
         "said_to_miss": said, "held_by_others": 0, "seen": 0, "missed": missed, "seconds": i, "compiled": 1,
         "size": 32, "batch": 8}
        for i, mb in enumerate(rss)
    ]  # fmt: skip


def test_a_good_course_has_nothing_broken() -> None:
    assert judge(Course(rounds(500, 900, 900, 901), WINDOW, 0, "")) == []


def test_a_missed_budget_a_leak_and_a_crash_are_seen() -> None:
    leak = [500 + 10 * i for i in range(40)]
    assert grown(rounds(*leak)) == 200  # the tops of the second and the last quarter
    assert len(judge(Course(rounds(*leak, missed=3), WINDOW, -9, ""))) == 3
    assert len(judge(Course([], WINDOW, 0, ""))) == 1


def test_growth_that_compiling_brings_to_plain_training_too_is_no_leak() -> None:
    held = rounds(500, 900, 900, 1020)
    held[-1]["compiled"] = 4
    assert len(judge(Course(held, WINDOW, 0, ""))) == 1
    assert judge(Course(held, WINDOW, 0, "", plain_growth_mb=30.0)) == []


def test_steps_that_were_said_to_miss_the_budget_are_counted_apart() -> None:
    assert judge(Course(rounds(500, 900, 900, 901, said=4), WINDOW, 0, "")) == []
    (missed,) = judge(Course(rounds(500, 900, 900, 901, said=4, missed=1), WINDOW, 0, ""))
    assert missed.startswith("1 steps were over the budget")


@pytest.mark.long
def test_two_minutes_of_use(qapp, tmp_path: Path) -> None:
    course = run(120, tmp_path)
    assert judge(course) == [], course.said[-2000:]
