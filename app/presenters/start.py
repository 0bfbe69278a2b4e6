"""What the start page's cards and the stops of the tour say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from app.presenters.solve_text import why_no_export
from app.state.knowledge import ListedSchedule
from app.state.solve import Standing
from checkmate.catalog.samples import ShownSample
from checkmate.units import format_bytes, plural

_COSTS = {"measured": "of the step's time (measured ops)", "analytic": "of the step's operations"}


def facts(sample: ShownSample) -> str:
    return f"{sample.ops} ops · batch {sample.batch_size}"


def curve_words(sample: ShownSample) -> str:
    proof = ", proved least" if sample.proved else ""
    costs = _COSTS.get(sample.cost_origin, "of the step's cost")
    return (
        f"{format_bytes(max(sample.plain_bytes))} where everything is kept; "
        f"{format_bytes(max(sample.kept_bytes))} for {100 * sample.extra_cost:+.1f} % {costs}{proof}."
    )


def outline(live: Sequence[int], columns: int) -> list[int]:
    """The largest bytes in each of ``columns`` equal parts of the step, so that the peak is always seen."""
    starts = [column * len(live) // columns for column in range(columns + 1)]
    return [max(live[start : max(start + 1, end)]) for start, end in pairwise(starts)]


class Place(Enum):
    """What a stop points at."""

    BUDGET = "budget"
    CURVE = "curve"
    GRAPH = "graph"
    MATRICES = "matrices"
    EXPORT = "export"


@dataclass(frozen=True)
class Stop:
    place: Place
    title: str
    words: str


STOPS = (
    Stop(
        Place.BUDGET,
        "Give the step less memory",
        "Drag the handle to the left. Memory is across, extra cost is up, and each point is a known "
        "schedule. The best one for your budget is on screen at once; a solver looks for a better one.",
    ),
    Stop(
        Place.CURVE,
        "Where the memory goes",
        "The bytes in memory at each step. The highest step counts: it must stay under the budget, the "
        "dashed line. Click a step to go there, turn the wheel to zoom, drag to select steps.",
    ),
    Stop(
        Place.GRAPH,
        "What is computed again",
        "The forward pass is above, the backward pass below. Click a box, and the inspector says why it is "
        "computed again, and what holds its values.",
    ),
    Stop(
        Place.MATRICES,
        "The whole schedule in two pictures",
        "Below the curve, at the same moments; each row is an op. R: when it is computed, in magenta when it "
        "is computed again. S: when what it makes is held in memory.",
    ),
    Stop(
        Place.EXPORT,
        "Take it with you",
        "Export writes a TensorFlow training graph that keeps to the schedule. It is checked against your "
        "model, and its peak is measured on this machine.",
    ),
)


def words_of(stop: Stop, shown: ListedSchedule | None, standing: Standing | None) -> str:
    if stop.place is Place.GRAPH and shown is not None:
        again = shown.schedule.recomputations
        if again:
            return f"{stop.words} {_again(again)}"
        return f"{stop.words} This schedule computes everything once; at a smaller budget, boxes have a ↻."
    if stop.place is Place.EXPORT:
        why = why_no_export(standing)
        return f"{stop.words} Not now: {why[0].lower()}{why[1:]}" if why else stop.words
    return stop.words


def _again(count: int) -> str:
    repeat = "repeats" if count == 1 else "repeat"
    return f"In this schedule {plural(count, 'step')} {repeat} an op: see the boxes with a ↻."
