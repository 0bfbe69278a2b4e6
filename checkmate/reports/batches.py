"""The sections of ``max-batch --json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkmate.formats.files import Fields
from checkmate.reports.html import Note, Section, Table
from checkmate.units import NONE, format_bytes, format_overhead, format_seconds


def sections(path: Path, data: Any) -> list[Section]:
    fields = Fields(path, data)
    return [_input(fields) if fields.get("dimension", str, "batch") == "input" else _batch(fields)]


def _measured(fields: Fields, unit: str) -> tuple[tuple[str, str], ...]:
    told = fields.inner("measured", {})
    size = told.get(unit, (int, list), None)
    if size is None:
        return ()
    peak = format_bytes(told.whole("peak_bytes"))
    words = f"largest {unit} traced and run within the budget: {peak} on the allocator's meter, measured"
    return ((_pixels(size) if isinstance(size, list) else f"{size:,}", words),)


def _not_measured(fields: Fields, unit: str) -> tuple[str, ...]:
    if _measured(fields, unit):
        return (f"solved for the extrapolated step; one {unit} was measured",)
    why = fields.inner("measured", {}).get("why_not", str, None)
    return ("for the step of that size, which was not measured" + (f": {why}" if why else ""),)


def _facts(fields: Fields, unit: str) -> tuple[str, ...]:
    solver = fields.get("solver", str, "")
    return (
        f"budget {format_bytes(fields.whole('budget_bytes'))}",
        *(["stopped before its time"] if fields.get("cancelled", bool) else []),
        f"{f'solved by {solver}' if solver else 'solved'} in {format_seconds(fields.number('seconds'))}",
        *_not_measured(fields, unit),
    )


def _cost(fields: Fields) -> tuple[str, str]:
    extra = format_overhead(fields.number("cost"), fields.number("base_cost"))
    return (
        extra,
        f"extra cost ({format_overhead(fields.number('cost_limit'), fields.number('base_cost'))} allowed)",
    )


def _peak(fields: Fields) -> tuple[str, str]:
    fixed = format_bytes(fields.whole("fixed_bytes"))
    return format_bytes(
        fields.whole("peak_bytes")
    ), f"peak of requested bytes, predicted; {fixed} of it fixed"


def _batch(fields: Fields) -> Section:
    batch, limit = fields.whole("batch"), fields.whole("upper_bound_batch")
    proved = (
        "proved largest"
        if fields.get("proved", bool)
        else f"largest found; proved: none above {limit:,} fits"
    )
    cards = ((f"{batch:,}", f"batch, {proved}"), _cost(fields), _peak(fields), *_measured(fields, "batch"))
    unfinished = fields.get("baselines_out_of_time", list, [])
    rows = [("keep everything, given order", _count(fields.whole("plain_batch", None)), "")]
    for name, found in fields.get("baselines", dict, {}).items():
        note = "out of time: at least this" if found is not None else "out of time"
        rows.append(
            (str(name), _count(found), note if name in unfinished else "" if found is not None else "no more")
        )
    rows += [("checkmate", f"{batch:,}", "solved"), ("limit", f"{limit:,}", "proved, any order of execution")]
    extrapolation = fields.get("extrapolation", str)
    blocks = (
        Table.of("Largest batches", ("strategy", "batch", ""), rows, words=(0, 2)),
        Note((f"Allowed: {fields.get('rule', str)}. {extrapolation[:1].upper()}{extrapolation[1:]}.",)),
    )
    return Section(f"{fields.get('name', str)}: the largest batch", _facts(fields, "batch"), cards, blocks)


def _input(fields: Fields) -> Section:
    proved = "proved largest" if fields.get("proved", bool) else "largest found"
    cards = (
        (_pixels(fields.ids("input")), f"input at batch {_count(fields.whole('batch', None))}, {proved}"),
        _cost(fields),
        _peak(fields),
        *_measured(fields, "input"),
    )
    rows = [
        ("keep everything, given order", _pixels(fields.get("plain_input", list, None)), ""),
        ("checkmate", _pixels(fields.ids("input")), "solved"),
        ("proved not to fit at that cost", _pixels(fields.get("refuted_input", list, None)), "proved"),
        (
            "above this, one op alone needs more",
            _pixels(fields.get("memory_limit_input", list, None)),
            "proved",
        ),
    ]
    blocks = (Table.of("Largest inputs, height × width", ("strategy", "pixels", ""), rows, words=(0, 2)),)
    return Section(f"{fields.get('name', str)}: the largest input", _facts(fields, "input"), cards, blocks)


def _pixels(size: Any) -> str:
    return NONE if not size else " × ".join(f"{int(side)}" for side in size)


def _count(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"
