"""Make the section of a sweep's journal: the finished solves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkmate.reports.page.parts import Note, Section, Table
from checkmate.reports.page.words import NONE, percent, seconds
from checkmate.sweeps.journal import JournalEntry, read_entries
from checkmate.units import format_bytes, plural


def sections(path: Path, data: Any) -> list[Section]:
    """Return the section of a ``checkmate-sweep``.

    ``data``, its first line, is not needed.

    Raises:
        FormatError: a line is no finished task.
    """
    entries = read_entries(path)
    solves = [entry for entry in entries if "status" in entry.data]
    others = [entry for entry in entries if "status" not in entry.data]
    columns = ("solve", "status", "budget", "peak, predicted", "extra cost %", "bound %, proved", "seconds")
    cards = (
        (str(len(entries)), "finished tasks"),
        (f"{sum(e.data['status'] == 'optimal' for e in solves)} of {len(solves)}", "solves proved optimal"),
    )
    blocks = (
        Table.of("Finished solves", columns, [_cells(entry) for entry in solves], words=(0, 1)),
        Table.of("Other tasks", ("task", "result"), [(e.name, _other(e)) for e in others], words=(0, 1)),
        Note(
            (
                "A bound with a star holds only under the solver's assumptions. A journal does not say "
                "which tasks are still to come.",
            )
        ),
    )
    return [Section("A sweep's journal", (plural(len(solves), "solve"),), cards, blocks)]


def _cells(entry: JournalEntry) -> tuple[str, ...]:
    told, base = entry.data, entry.data["base_cost"]
    return (
        entry.name,
        str(told["status"]),
        format_bytes(told["budget_bytes"]),
        NONE if told["peak_bytes"] is None else format_bytes(told["peak_bytes"]),
        _extra(told["cost"], base),
        _extra(told["lower_bound"], base) + "*" * bool(told["assumptions"]),
        seconds(told["solve_seconds"]),
    )


def _extra(cost: float | None, base: float) -> str:
    return percent(100 * (cost / base - 1)) if cost is not None and base > 0 else NONE


def _other(entry: JournalEntry) -> str:
    told = entry.data
    if "points" in told:
        return f"{len(told['points'])} schedules" + (f"; {told['note']}" if told.get("note") else "")
    return (
        f"the least peak known is {format_bytes(told['peak_bytes'])}" if "peak_bytes" in told else "finished"
    )
