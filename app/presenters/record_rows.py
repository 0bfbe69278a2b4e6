"""Memory records as rows, parts of a bar and a curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.presenters.range_rows import Cell
from app.presenters.view_tables import ViewTable
from checkmate.records.changes import changes
from checkmate.records.memory import MemoryRecord, Source
from checkmate.records.words import row_kind, row_name, rows, share
from checkmate.units import format_bytes

BYTES = 1  # the column that the table is sorted by at first
DIFFERENCE = 3


@dataclass(frozen=True)
class BarPart:
    """A part of what the allocator may use. ``role`` is its colour in the theme. ``solid`` is False for what
    is free, which is hatched or empty."""

    words: str
    bytes: int
    role: str
    solid: bool = True
    hatched: bool = False


def columns(record: MemoryRecord, *, by_size: bool) -> tuple[str, ...]:
    kind = row_kind(record, by_size=by_size)
    return ("Size of a chunk" if kind == "size" else kind.capitalize(), "In use", "Share", "Chunks")


def is_by_size(record: MemoryRecord, *, wanted: bool) -> bool:
    """Rows are by size if that is wanted, or if no layers are known."""
    return rows(record, by_size=wanted) is record.by_size


def record_cells(record: MemoryRecord, *, by_size: bool) -> list[tuple[Cell, ...]]:
    """A cell for each column and each row. A layer's tip is its whole name."""
    listed = rows(record, by_size=by_size)
    return [
        (
            _named(row.name),
            Cell(format_bytes(row.bytes), float(row.bytes)),
            Cell(_percent(share(row, listed)), float(row.bytes)),
            Cell(f"{row.count:,}" if row.count else "–", float(row.count)),
        )
        for row in listed
    ]


def _named(name: str) -> Cell:
    return Cell(row_name(name), float(name) if name.isdecimal() else name, row_name(name))


def _percent(share: float) -> str:
    return "< 0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def record_table(record: MemoryRecord, *, by_size: bool) -> ViewTable:
    listed = rows(record, by_size=by_size)
    name = "chunk, bytes" if listed is record.by_size else "layer"
    return ViewTable.of(
        f"{name}; in use, bytes; share; chunks",
        ((row.name, row.bytes, share(row, listed), row.count) for row in listed),
    )


def change_columns(before: MemoryRecord, after: MemoryRecord, *, by_size: bool) -> tuple[str, ...]:
    by_size = by_size or not (before.by_layer and after.by_layer)
    return (columns(before, by_size=by_size)[0], "This file", "The other", "Difference")


def change_cells(before: MemoryRecord, after: MemoryRecord, *, by_size: bool) -> list[tuple[Cell, ...]]:
    """A row for each difference; they are sorted by its size."""
    return [
        (
            _named(change.name),
            Cell(format_bytes(change.before), float(change.before)),
            Cell(format_bytes(change.after), float(change.after)),
            Cell(change.words, float(abs(change.more))),
        )
        for change in changes(before, after, by_size=by_size)
    ]


def change_table(before: MemoryRecord, after: MemoryRecord, *, by_size: bool) -> ViewTable:
    return ViewTable.of(
        "name; this file, bytes; the other, bytes; difference, bytes",
        (
            (change.name, change.before, change.after, change.more)
            for change in changes(before, after, by_size=by_size)
        ),
    )


def bar_parts(record: MemoryRecord) -> tuple[BarPart, ...]:
    """The known parts of the limit; empty if none is known."""
    used = record.in_use_bytes
    if used is None or record.room_bytes is None:
        return ()
    parts = [BarPart("in use", used, "forward")]
    if record.free_bytes is None or record.split_bytes is None or record.untouched_bytes is None:
        words = "not in use then" if record.source is Source.PROFILE else "not in use"
        parts.append(BarPart(words, record.room_bytes, "muted", solid=False))
    else:
        largest = record.free_bytes - record.split_bytes
        parts.append(BarPart("free, the largest piece", largest, "held", solid=False, hatched=True))
        parts.append(BarPart("free, in smaller pieces", record.split_bytes, "recomputed", False, True))
        parts.append(BarPart("not fetched", record.untouched_bytes, "muted", solid=False))
    return tuple(part for part in parts if part.bytes)


def curve_of(record: MemoryRecord) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where the columns of the record's curve begin and end, in seconds, and the bytes in each."""
    seconds, held = np.array(record.curve, np.float64).T
    return np.append(seconds, seconds[-1]), held


def curve_words(record: MemoryRecord, second: float) -> str:
    edges, held = curve_of(record)
    at = min(max(0, int(np.searchsorted(edges, second, side="right")) - 1), len(held) - 1)
    return f"{second:.3g} s\n{format_bytes(held[at])} in use"


def asked_part(record: MemoryRecord) -> BarPart | None:
    """The request that failed, to be drawn beside what was free."""
    needed = record.needed_bytes
    return None if needed is None else BarPart("asked for", needed, "problem")
