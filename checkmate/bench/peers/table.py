"""Print rows of peers and of ours, for the terminal or in Markdown.

Below the table is a summary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from checkmate.bench.common.machine import Machine
from checkmate.bench.common.rows import Row
from checkmate.bench.peers.rows import ROUNDING, ROUNDING_OF_ONE, gradients_right, share, summary
from checkmate.catalog.peers import PEERS, ROUNDING_16, ROUNDING_16_OF_ONE, XLA_ALONE
from checkmate.request import Target
from checkmate.text_table import aligned_lines, markdown_lines

_NONE = "–"
_MIB = 2**20


def _gradients(row: Row) -> str:
    found = row.get("compared")
    if not found:
        return _NONE
    if found["bitwise"]:
        return "bitwise"
    return f"{'differ' if gradients_right(found) else 'WRONG'} {100 * found['worst']:.2g} %"


def _state(row: Row) -> str:
    found = row.get("compared")
    if not found:
        return _NONE
    state = found.get("state")
    if state is None:
        return "right" if found["state_bitwise"] else "DIFFER"
    if state["count"] == 0:
        return "none"
    if not state["twice"] and not state["differs"]:
        return "right"
    words = [f"{state[what]} of {state['count']} {word}" for what, word in _WRONG if state[what]]
    return ", ".join(words)


_WRONG = (("twice", "TWICE"), ("differs", "DIFFER"))

Column = tuple[str, Callable[[Row, Sequence[Row]], str]]

# What the bytes of a row are: on the allocator's meter, or in XLA's assignment of buffers.
_BYTES = {Target.EXECUTOR: "peak MiB", Target.XLA: "MiB read from XLA"}

_COLUMNS: tuple[Column, ...] = (
    ("model", lambda r, _: f"{r['model']} b{r['batch_size']}"),
    ("method", lambda r, _: str(r["label"])),
    ("memory", lambda r, _: f"{r['peak_bytes'] / _MIB:.1f}" if "peak_bytes" in r else _NONE),
    ("of plain %", lambda r, rows: _percent(share(r, rows), "")),
    ("step s", lambda r, _: f"{r['seconds']:.3f}" if "seconds" in r else _NONE),
    ("overhead %", lambda r, _: _percent(r.get("overhead"), "+")),
    ("gradients", lambda r, _: _gradients(r)),
    ("state", lambda r, _: _state(r)),
    ("", lambda r, _: "" if r["method"] == "plain" and r["status"] == "ok" else str(r["status"])),
)


def _percent(value: float | None, sign: str) -> str:
    return _NONE if value is None else f"{100 * value:{sign}.1f}"


def _cells(row: Row, rows: Sequence[Row]) -> list[str]:
    return [cell(row, rows) for _, cell in _COLUMNS]


def _titles(target: Target) -> list[str]:
    return [_BYTES[target] if title == "memory" else title for title, _ in _COLUMNS]


def line(row: Row, target: Target = Target.EXECUTOR) -> str:
    """Return one row in words, for a log."""
    cells = [f"{title} {cell}".strip() for title, cell in zip(_titles(target), _cells(row, []), strict=True)]
    kept = ", ".join(cell for cell in cells if not cell.endswith(_NONE) and cell)
    return kept + (f": {row['note']}" if row.get("note") else "")


def table(rows: Sequence[Row], target: Target = Target.EXECUTOR) -> list[list[str]]:
    """Return a line per row, below the titles."""
    return [_titles(target), *(_cells(row, rows) for row in rows)]


def notes(rows: Sequence[Row], target: Target = Target.EXECUTOR) -> list[str]:
    """Return the notes on rows, the summary and what the columns mean."""
    legend = _compiled_legend() if target is Target.XLA else _legend()
    return [*_notes(rows), *_summary(rows), *legend]


def text(rows: Sequence[Row], machine: Machine, target: Target = Target.EXECUTOR) -> str:
    """Return what ``bench peers`` prints."""
    lines = aligned_lines(table(rows, target), left=(0, 1))
    return "\n".join([*lines, "", *notes(rows, target), f"on {machine}"])


def markdown(rows: Sequence[Row], target: Target = Target.EXECUTOR) -> str:
    """Return the table for a README."""
    titles, *cells = table(rows, target)
    return "\n".join(markdown_lines(titles, cells))


def _notes(rows: Sequence[Row]) -> list[str]:
    return [f"{row['model']}, {row['label']}: {row['note']}" for row in rows if row.get("note")]


def _summary(rows: Sequence[Row]) -> list[str]:
    found: dict[str, Any] = summary(rows)
    equal = found["at_equal_memory"]
    lines = [
        f"peers: {found['ok']} of {found['peers']} saved memory, {found['no_effect']} had no effect, "
        f"{found['failed']} failed, {found['not_applicable']} do not apply; {found['correct']} of "
        f"{found['compared']} compared train as the plain step does",
        f"ours: {found['ours_correct']} of {found['ours_compared']} compared train as the plain step does",
    ]
    if equal["count"]:
        lines.append(
            "ours in no more memory than a peer: median overhead "
            f"{100 * equal['ours_overhead_median']:.1f} %, where the peer has "
            f"{100 * equal['peers_overhead_median']:.1f} %; ours is less in {equal['ours_less']} of "
            f"{equal['count']} cases"
        )
    return lines


def _legend() -> list[str]:
    return [
        "peak: on the allocator's meter, fresh process, default kernels; step: the least of several "
        "rounds in turns, one process;",
        "overhead: over the plain step; gradients, state: after one step from the same start as the plain "
        "one, Eigen kernels, no rewriting",
        "(a difference is the worst gradient's); state: moving statistics, seeds, counters.",
        *(f"{method.label}: {method.description}" for method in PEERS),
    ]


def _compiled_legend() -> list[str]:
    return [
        "MiB read from XLA: what it assigned to arguments, results and temporaries when it compiled the "
        "step; nothing was run for it;",
        "step: the least processor time (on a GPU: time) of several rounds in turns, one process; overhead: "
        "over XLA alone; gradients, state:",
        "after one step from the same start as XLA alone (a difference is the worst gradient's); state: "
        "moving statistics, seeds, counters.",
        "XLA rounds differently where it fuses other ops: gradients are right within "
        f"{ROUNDING:g} of all together and {100 * ROUNDING_OF_ONE:.0f} % of each,",
        "statistics within rounding, seeds and counters exactly; with 16-bit layers, gradients within "
        f"{100 * ROUNDING_16:.0f} and {100 * ROUNDING_16_OF_ONE:.0f} %, statistics within "
        f"{100 * ROUNDING_16:.0f} % of an update.",
        *(f"{method.label}: {method.description}" for method in (XLA_ALONE, *PEERS)),
    ]
