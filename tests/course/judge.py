"""Judge a long course: what grew, and how often the budget was missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GROWTH_MB = 64.0  # of the training process, from its first settled quarter to its last


@dataclass(frozen=True)
class Course:
    """What a long course noted.

    ``training``: its rounds. ``window``: what ``long_use.measure`` found. ``code``: how training ended.
    ``plain_growth_mb``: what each compilation adds to plain training with the same batches.
    """

    training: list[dict[str, Any]]
    window: dict[str, Any]
    code: int
    said: str
    plain_growth_mb: float = 0.0


def highest(rows: list[dict[str, Any]]) -> float:
    """Return the most memory that a process held in these rounds, in MiB."""
    return max((row["rss_mb"] for row in rows), default=0.0)


def grown(rows: list[dict[str, Any]]) -> float:
    """Return how many MiB the last quarter's highest is over the second's."""
    quarter = max(1, len(rows) // 4)
    return round(highest(rows[-quarter:]) - highest(rows[quarter : 2 * quarter]), 1)


def compilations(rows: list[dict[str, Any]]) -> int:
    """Return how many there were between the quarters that ``grown`` compares."""
    second = rows[: 2 * max(1, len(rows) // 4)]
    return int(rows[-1]["compiled"] - second[-1]["compiled"]) if rows else 0


def judge(course: Course) -> list[str]:
    """Return what broke."""
    training, window = course.training, course.window
    grew, missed = grown(training), training[-1]["missed"] if training else 0
    plain = compilations(training) * course.plain_growth_mb
    verdict = window["verdict"]
    broke = {
        f"training ended with {course.code} after {len(training)} rounds": course.code or not training,
        f"{missed} steps were over the budget without a word": missed,
        f"training grew by {grew} MiB": grew > GROWTH_MB + plain,
        f"Qt warned: {window['warnings']}": window["warnings"],
        f"{window['unsettled']} solves never ended": window["unsettled"],
        f"the window told of problems: {window['problems']}": window["problems"],
        f"the window grew by {window['per_1000_moves']} in 1,000 moves": not verdict["flat"],
        "processes or files were left behind": not verdict["no_orphans"],
    }
    return [what for what, is_so in broke.items() if is_so]
