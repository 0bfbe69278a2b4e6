"""Make the section of ``bench fidelity``: predicted and measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkmate.bench.fidelity.rows import summary
from checkmate.bench.fidelity.table import notes, table
from checkmate.charts.svg_chart import ACCENT, DARK, GRAY, Chart
from checkmate.reports.page.parts import Note, Picture, Section, Table
from checkmate.reports.page.words import machine
from checkmate.units import plural

_MIB = 2**20


def sections(path: Path, data: Any) -> list[Section]:
    """Return the section of a ``checkmate-fidelity``."""
    rows = data["rows"]
    head, *cells = table(rows)
    found = summary(rows)
    facts = (
        plural(len({(row["model"], row["batch_size"]) for row in rows}), "model"),
        plural(len(rows), "row"),
        "every peak, time and gradient measured in a fresh process",
    )
    cards = [
        (f"{found['within_budget']} of {found['rows']}", "rows whose measured peak is within the budget")
    ]
    if found["allocated"]["count"]:
        worst = f"peak, predicted against measured: median; worst {100 * found['allocated']['worst']:.1f} %"
        cards.append((f"{100 * found['allocated']['median']:.1f} %", worst))
    cards.append(
        (
            f"{found['gradients_equal']} of {found['gradients_compared']}",
            "gradients equal to the plain step's",
        )
    )
    named = Table.of("Rows", head, cells, words=(0, len(head) - 2, len(head) - 1))
    picture = (
        [Picture(_picture(rows), "On the line: as predicted.")]
        if any(row.get("peak_bytes") for row in rows)
        else []
    )
    return [
        Section(
            "Fidelity: predicted beside measured",
            facts,
            tuple(cards),
            (*picture, named, Note(tuple(notes(rows)))),
            machine(data),
        )
    ]


def _picture(rows: Any) -> str:
    """Return a picture of measured over predicted peak, a mark per row."""
    pairs = [(row, row["peak_bytes"]["predicted"] / _MIB, row["peak_bytes"]["measured"] / _MIB)
             for row in rows if row.get("peak_bytes")]  # fmt: skip
    most = 1.08 * max(max(x, y) for _, x, y in pairs) or 1.0
    chart = Chart((0.0, most), (0.0, most))
    chart.axes("peak predicted, MiB", "peak measured, MiB")
    chart.line([(0.0, 0.0), (most, most)], GRAY, width=1, dash="2 3")
    for row, x, y in pairs:
        said = (
            f"{row['model']} b{row['batch_size']} at {100 * row['budget']:g} %: predicted {x:.1f}, "
            f"measured {y:.1f} MiB"
        )
        fits = row["status"] == "fits"
        chart.mark("dot" if fits else "cross", x, y, ACCENT if fits else DARK, said)
    chart.legend_mark("dot", ACCENT, "measured peak within the budget")
    chart.legend_mark("cross", DARK, "over it")
    return chart.svg(
        "Peak on the allocator's meter", "scheduled steps in fresh processes, parameters included"
    )
