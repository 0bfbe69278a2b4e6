"""Make the section of ``bench solvers`` and ``bench published``.

It shows cost, bound and seconds of every solve, and how the cost fell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from checkmate.charts.frontier import COLORS
from checkmate.charts.svg_chart import ACCENT, DARK, GRAY, Chart, LabelPlacer
from checkmate.reports.page.parts import Block, Note, Picture, Section, Table
from checkmate.reports.page.words import machine, number, percent, seconds
from checkmate.units import format_bytes, plural

_MOST_PICTURES = 12
_NOTE = (
    "Extra cost is over computing everything once, of schedules that were found and replayed; the bound is "
    "proved, with a star only under the solver's assumptions. Seconds are wall time from the call; "
    "published seconds are on their authors' machines."
)
Trial = Mapping[str, Any]


def sections(path: Path, data: Any) -> list[Section]:
    """Return the section of a ``checkmate-bench``."""
    trials: Sequence[Trial] = data["trials"]
    cases = list(dict.fromkeys((str(t["graph"]), str(t["budget"])) for t in trials))
    optimal = sum(t["status"] == "optimal" for t in trials)
    solved = sum(t["cost"] is not None for t in trials)
    cards = (
        (f"{solved} of {len(trials)}", "solves with a schedule"),
        (f"{optimal} of {len(trials)}", "proved optimal"),
    )
    beside = any(trial["published"] for trial in trials)
    title = "Solvers measured, beside what is published" if beside else "Solvers measured"
    options = data["options"]
    facts = (
        plural(len(cases), "case"),
        f"time limit {options['time_limit_s']:g} s, {plural(options['workers'], 'worker')}, seed "
        f"{options['seed']}",
    )
    blocks: list[Block] = [_table(trials)]
    if beside:
        blocks.append(_published(trials))
    if len(data["solvers"]) > 1:
        blocks.append(_standings(data["solvers"]))
    blocks.append(Note((_NOTE, *_messages(trials))))
    drawn = 0
    for graph, budget in cases:
        told = [
            t
            for t in trials
            if (str(t["graph"]), str(t["budget"])) == (graph, budget) and len(t["costs"]) > 1
        ]
        if told and drawn < _MOST_PICTURES:
            drawn += 1
            blocks.append(Picture(_picture(f"{graph} at {budget}", told)))
    return [Section(title, facts, cards, tuple(blocks), machine(data))]


def _table(trials: Sequence[Trial]) -> Table:
    columns = (
        "graph",
        "ops",
        "budget",
        "",
        "solver",
        "status",
        "extra cost %",
        "bound %, proved",
        "gap %",
        "× best",
        "first s",
        "to 1 % s",
        "all s",
    )
    return Table.of("Solves", columns, [_cells(trial) for trial in trials], words=(0, 4, 5))


def _cells(t: Trial) -> tuple[str, ...]:
    return (
        str(t["graph"]),
        str(t["ops"]),
        str(t["budget"]),
        format_bytes(t["budget_bytes"]),
        str(t["solver"]),
        str(t["status"]),
        percent(t["overhead_percent"]),
        percent(t["bound_percent"]) + "*" * bool(t["assumptions"]),
        percent(t["gap_percent"]),
        number(t["relative_to_best"], 4),
        seconds(t["seconds_to_first"]),
        seconds(t["seconds_to_within_1_percent"]),
        seconds(t["seconds"]),
    )


def _published(trials: Sequence[Trial]) -> Table:
    rows = []
    for t in trials:
        if not t["published"]:
            continue
        name = str(t["published"][0]["graph"])
        ours = f"checkmate {t['solver']} ({t['status']})"
        rows.append(
            (
                name,
                str(t["budget"]),
                ours,
                percent(t["overhead_percent"]),
                seconds(t["seconds"]),
                "measured here",
            )
        )
        for figure in t["published"]:
            told = (percent(figure["overhead_percent"]), seconds(figure["seconds"]), str(figure["source"]))
            rows.append(("", "", str(figure["method"]), *told))
    columns = ("graph", "budget", "method", "extra cost %", "seconds", "source")
    return Table.of("Beside what is published for the same graph and budget", columns, rows, words=(0, 2, 5))


def _standings(found: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (str(s["solver"]), number(s["relative_to_best"], 4), f"{s['solved']} of {s['cases']}") for s in found
    ]
    return Table.of("Cost over the best of these, geometric mean", ("solver", "× best", "solved"), rows)


def _messages(trials: Sequence[Trial]) -> list[str]:
    return [
        f"{t['graph']} at {t['budget']}, {t['solver']}: {t['message']}"
        for t in trials
        if t["message"] and t["cost"] is None
    ]


def _picture(name: str, trials: Sequence[Trial]) -> str:
    """Return a picture of the best extra cost over seconds.

    The axis is logarithmic. There is a line per solver, and the bound at the end.
    """
    lines = [(t, [(max(1e-3, float(s)), _extra(t, cost)) for s, cost in t["costs"]]) for t in trials]
    start = min(s for _, points in lines for s, _ in points)
    end = max(max(float(t["seconds"]), points[-1][0]) for t, points in lines)
    low, high = (
        math.floor(math.log10(start)),
        max(math.ceil(math.log10(end)), math.floor(math.log10(start)) + 1),
    )
    # A solver's first cost may be many times its last; the picture leaves such costs out.
    last = max(points[-1][1] for _, points in lines)
    top = max(1.0, min(max(y for _, points in lines for _, y in points), max(4 * last, 5.0)))
    chart = Chart((low, high), (0.0, 1.1 * top))
    marks = [(float(power), f"{10.0**power:g}") for power in range(low, high + 1)]
    chart.axes("seconds (logarithmic)", "extra cost over computing everything once, %", marks)
    labels = LabelPlacer(chart)
    for place, (trial, points) in enumerate(lines):
        color = ACCENT if place == 0 else COLORS[(place - 1) % len(COLORS)]
        until = max(float(trial["seconds"]), points[-1][0])
        corners = [(math.log10(x), min(y, chart.y[1])) for x, y in _stairs(points, until)]
        chart.line(corners, color, width=2)
        chart.legend_line(color, str(trial["solver"]))
        labels.put(*chart.at(*corners[-1]), f"{points[-1][1]:.2f} %", color, anchor="end")
        if trial["bound_percent"] is not None:
            bound = max(0.0, float(trial["bound_percent"]))
            said = (
                f"{trial['solver']}: bound {bound:.2f} "
                f"%{', under assumptions' if trial['assumptions'] else ''}"
            )
            chart.mark("bar", math.log10(max(1e-3, until)), min(bound, chart.y[1]), DARK, said)
    chart.legend_mark("bar", DARK, "lower bound at the end, proved")
    chart.line([(low, 0.0), (high, 0.0)], GRAY, width=1)
    return chart.svg(
        f"{name}: cost as it fell", "the best schedule known after so many seconds, each replayed"
    )


def _stairs(points: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    corners: list[tuple[float, float]] = []
    for x, y in points:
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    return [*corners, (end, corners[-1][1])]


def _extra(trial: Trial, cost: float) -> float:
    base = float(trial["base_cost"])
    return max(0.0, 100 * (float(cost) / base - 1)) if base > 0 else 0.0
