"""Make the section of ``bench peers``.

It shows other ways of training in less memory beside ours: measured, or compiled by XLA.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate.bench.peers.rows import PLAIN, correct, share, summary, target_of
from checkmate.bench.peers.table import notes, table
from checkmate.charts.svg_chart import ACCENT, DARK, Chart, LabelPlacer
from checkmate.reports.page.parts import Block, Note, Picture, Section, Table
from checkmate.reports.page.words import machine
from checkmate.request import Target
from checkmate.units import plural

_MOST_PICTURES = 12


@dataclass(frozen=True)
class _Wording:
    """Say what the bytes and seconds of a target are.

    ``fact``: of all rows. ``axis``: of the picture. ``whole``: what a share is of. ``how``: below the
    picture.
    """

    fact: str
    axis: str
    whole: str
    how: str


_WORDING = {
    Target.EXECUTOR: _Wording(
        "peaks and seconds measured in fresh processes",
        "measured peak, % of the plain step's",
        "the peak",
        "measured in fresh processes",
    ),
    Target.XLA: _Wording(
        "compiled by XLA: bytes read from XLA, seconds measured in a fresh process",
        "bytes that XLA assigned, % of XLA alone",
        "the bytes of XLA alone",
        "bytes read from XLA, seconds measured",
    ),
}


def sections(path: Path, data: Any) -> list[Section]:
    """Return the section of a ``checkmate-peers``."""
    rows, target = data["rows"], target_of(data)
    wording = _WORDING[target]
    head, *cells = table(rows, target)
    found = summary(rows)
    models = list(dict.fromkeys((row["model"], row["batch_size"]) for row in rows))
    facts = (
        plural(len(models), "model"),
        plural(len(rows), "row"),
        wording.fact,
    )
    cards = (
        (f"{found['ok']} of {found['peers']}", "runs of other methods that saved memory"),
        (f"{found['correct']} of {found['compared']}", "of them compared: train as the plain step does"),
        (
            f"{found['ours_correct']} of {found['ours_compared']}",
            "ours compared: train as the plain step does",
        ),
    )
    blocks: list[Block] = []
    for model, batch in models[:_MOST_PICTURES]:
        timed = [
            row for row in rows if (row["model"], row["batch_size"]) == (model, batch) and _timed(row, rows)
        ]
        if timed:
            blocks.append(Picture(_picture(f"{model}, batch {batch}", timed, rows, wording)))
    words = (0, 1, len(head) - 3, len(head) - 2, len(head) - 1)
    blocks += [Table.of("Rows", head, cells, words=words), Note(tuple(notes(rows, target)))]
    return [
        Section(
            "Compared with other ways to train in less memory", facts, cards, tuple(blocks), machine(data)
        )
    ]


def _timed(row: Any, rows: Any) -> bool:
    return share(row, rows) is not None and (row.get("overhead") is not None or row["method"] == PLAIN)


def _picture(name: str, timed: Any, rows: Any, wording: _Wording) -> str:
    """Return a picture of extra time over the share of the plain memory. There is a mark per way."""
    places = [(row, 100 * (share(row, rows) or 0.0), 100 * (row.get("overhead") or 0.0)) for row in timed]
    low, high = min(y for _, _, y in places), max(y for _, _, y in places)
    room = max(2.0, 0.15 * (high - low))
    chart = Chart((0.0, 1.1 * max(x for _, x, _ in places)), (min(0.0, low - room), max(5.0, high + room)))
    chart.axes(wording.axis, "measured extra time over the plain step, %")
    labels = LabelPlacer(chart)
    for _, x, y in places:
        labels.avoid(*chart.at(x, y))
    for row, x, y in places:
        ours, label = bool(row["ours"]), str(row["label"])
        color = ACCENT if ours else DARK
        kind = "cross" if correct(row) is False else "dot" if ours else "square"
        chart.mark(kind, x, y, color, f"{label}: {x:.1f} % of {wording.whole}, {y:+.1f} % time")
        labels.put(*chart.at(x, y), label, color)
    chart.legend_mark("dot", ACCENT, "ours")
    chart.legend_mark("square", DARK, "other methods")
    if any(correct(row) is False for row in timed):
        chart.legend_mark("cross", DARK, "does not train as the plain step does")
    return chart.svg(name, f"{wording.how}; further left and further down is better")
