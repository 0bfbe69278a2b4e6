"""Make the sections of ``bench paper``.

They have the paper's tables beside its figures, and every network's curve with every strategy on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkmate.bench.paper.table import (
    batch_rows,
    curve_rows,
    curves_of,
    model_notes,
    ratio_rows,
    rows_of,
)
from checkmate.charts.frontier import curve_svg
from checkmate.frontiers.curve import Curve, CurveBaseline, CurvePoint, read_curve
from checkmate.graphs.paper import find_network
from checkmate.reports.page.parts import Block, Note, Picture, Section, Table
from checkmate.reports.page.words import machine
from checkmate.reports.sections.frontier import CAPTION
from checkmate.units import format_seconds

_BATCHES = (
    "Batches are solved and replayed; the proved limit holds for any order of execution; op limit: the "
    "batch, as a real number, at which one op alone fills the device. A star: stopped before its time was "
    "up."
)


def sections(path: Path, data: Any) -> list[Section]:
    """Return the sections of a ``checkmate-paper``.

    The tables come first, then a section per network with its curve.

    Raises:
        FormatError: a curve's field is missing or wrong.
    """
    rows, made_on = data["rows"], machine(data)
    notes = Note(tuple(dict.fromkeys([*map(str, data["notes"]), *model_notes(rows)])))
    batches, curves = rows_of(rows, "batch"), curves_of(rows)
    blocks: list[Block] = []
    if curves:
        head, *cells = ratio_rows(rows)
        title = "Cost over the least known, geometric mean over budgets; under each, what the paper prints"
        blocks.append(Table.of(title, head, cells))
    if batches:
        head, *cells = batch_rows(batches)
        blocks += [Table.of("Largest batch on the paper's device", head, cells), Note((_BATCHES,))]
    limit = data["options"]["time_limit_s"]
    facts = (
        "costs estimated: operations counted, as in the paper",
        f"at most {limit:g} s for each curve, rounding and batch",
    )
    whole = Section(
        "The Checkmate paper's evaluation, repeated", facts, blocks=(*blocks, notes), made_on=made_on
    )
    stated = {row["model"]: row for row in rows if row["kind"] == "curve"}
    return [whole, *(_network(path, stated[m], curve, rounding, made_on) for m, curve, rounding in curves)]


def _network(
    path: Path,
    row: Mapping[str, Any],
    told: Mapping[str, Any],
    rounding: Sequence[dict[str, Any]],
    made_on: str,
) -> Section:
    """Return each strategy's extra cost at each budget. It is shown as a picture and as a table."""
    model = row["model"]
    curve = read_curve(path, told, f"the curve of {model}")
    title = find_network(model).title
    curve = replace(curve, name=title, fixed_bytes=int(row.get("fixed_bytes", 0)))
    head, *cells = curve_rows(model, told, rounding)
    words = [place for place, name in enumerate(head) if place == 0 or not name]
    facts = (
        f"batch {row['batch_size']}",
        f"{curve.ops} ops",
        f"all budgets in {format_seconds(curve.seconds)}",
        *(["stopped before its time"] if curve.cancelled else []),
    )
    table = Table.of(
        "Extra cost, %: solved, proved and by strategy", ["budget", *head[1:]], cells, words=words
    )
    return Section(
        f"{title}: every strategy",
        facts,
        blocks=(Picture(curve_svg(_with(curve, rounding)), CAPTION), table),
        made_on=made_on,
    )


def _with(curve: Curve, rounding: Sequence[Mapping[str, Any]]) -> Curve:
    """Return the curve with the paper's rounding among the strategies."""
    points = [
        CurvePoint(int(row["peak_bytes"]), float(row["cost"]), "lp-rounding")
        for row in rounding
        if row["cost"] is not None
    ]
    if not points:
        return curve
    falling = tuple(sorted(points, key=lambda point: (-point.peak_bytes, point.cost)))
    return replace(curve, baselines=(CurveBaseline("lp-rounding (two-phase)", falling), *curve.baselines))
