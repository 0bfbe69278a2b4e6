"""Judge a long course: what grew, and how often the budget was missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.tried import Tried

_STEPS = ("steps", "steps_said_to_miss", "over_budget", "said_to_miss", "held_by_others", "seen", "missed")
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


def judge(course: Course) -> tuple[list[Tried], list[str]]:
    """Return what was tried and what broke, and notes on what was held."""
    training, window = course.training, course.window
    last = training[-1] if training else dict.fromkeys((*_STEPS, "seconds", "compiled"), 0)
    said = last["steps_said_to_miss"]
    verdict, held = window["verdict"], window["samples"]
    plain = compilations(training) * course.plain_growth_mb
    rows = [
        Tried("training processes that ended by themselves", 1, int(course.code != 0 or not training)),
        Tried("training steps by plans that keep the budget", last["steps"] - said, last["missed"]),
        Tried("training steps by plans that were said to miss it", said, 0),
        Tried("rounds of training without growth", len(training), int(grown(training) > GROWTH_MB + plain)),
        Tried("moves of the window's slider", window["moves"], len(window["warnings"])),
        Tried("solves in the window", window["solves"], window["unsettled"]),
        Tried("graphs opened in the window", window["opens"], len(window["problems"])),
        Tried("the window's memory and objects", len(held), int(not verdict["flat"])),
        Tried("processes and files left behind", 1, int(not verdict["no_orphans"])),
    ]  # fmt: skip
    layouts = len({(row["size"], row["batch"]) for row in training}) + len({row["size"] for row in training})
    notes = [
        f"{last['seconds'] / 60:.0f} minutes of training with {layouts} layouts of batches, compiled "
        f"{last['compiled']} times; the window beside it for {window['seconds'] / 60:.0f} minutes.",
        f"Of {last['steps']:,} steps {last['over_budget']:,} were over the budget: "
        f"{last['said_to_miss']:,} where it was said before that nothing known keeps it, "
        f"{last['held_by_others']:,} where it was said that others hold more than was foreseen, "
        f"{last['seen']:,} that were seen: the next step went by another plan, and it was said; and "
        f"{last['missed']:,} without a word.",
        f"Training: {training[0]['rss_mb'] if training else 0:.0f} MiB after its first round, at most "
        f"{highest(training):.0f} MiB, {grown(training):+.0f} MiB from its second to its last quarter. Plain "
        f"training with the same batches grows by {course.plain_growth_mb:.0f} MiB each time that it is "
        f"compiled, so by {plain:.0f} MiB as often.",
        f"Window: {held[0]['rss_mb']:.0f} MiB at first, {held[-1]['rss_mb']:.0f} MiB at the end, "
        f" {window['per_1000_moves']['rss_mb']:+.2f} MiB in 1,000 moves over its second half.",
    ]
    return rows, notes
