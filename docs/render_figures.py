"""Write the tables of figures into the pages that are written by hand.

``python docs/render_figures.py`` fills every region that ``docs/regions.py`` describes, in ``docs/pages`` and
in the README. With ``--check`` it only says which page is out of date (exit code 1: one is).
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page_file import write_or_check
from readme_rows import readme_rows
from regions import filled, table

ROOT = Path(__file__).parent
RESULTS = ROOT / "results"
_MIB = 2**20


def pages() -> Iterator[Path]:
    """Yield the pages that may have regions."""
    yield ROOT.parent / "README.md"
    yield from sorted((ROOT / "pages").rglob("*.md"))


def figures(name: str) -> str:
    """Return the result ``name`` as Markdown."""
    if name == "readme":
        return table(("what", "result", "status"), readme_rows(RESULTS))
    facts = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return _KINDS[facts["format"]](facts) + f"\n*{_made(facts)} From `docs/results/{name}.json`.*\n"


def _record(facts: dict[str, Any]) -> str:
    notes = "".join(f"- {note}\n" for note in facts["notes"])
    return table(facts["columns"], facts["rows"]) + (f"\n{notes}" if notes else "")


def _chunks(facts: dict[str, Any]) -> str:
    """Return what the allocator held of what was requested, in each row."""
    columns = ("model", "budget", "budget MiB", "requested", "measured", "over requested", "attempts", "")
    return f"{table(columns, (_chunk_cells(row) for row in facts['rows']))}\n{_lost(facts)}\n"


def _lost(facts: dict[str, Any]) -> str:
    """Return in words how many rows fit, and what is lost between chunks."""
    peaks = [row["peak_bytes"] for row in facts["rows"] if row.get("peak_bytes")]
    lost = [100 * (each["measured"] / each["measured_requested"] - 1) for each in peaks]
    found, near = facts["summary"], sum(share <= 2 for share in lost)
    return (
        f"{found['rows']} rows: {found['within_budget']} are within their budget, "
        f"{found['over_budget']} over it, {found['without_schedule']} infeasible. "
        f"Between chunks {statistics.median(lost):.1f} % are lost in the median row, {max(lost):.1f} % in "
        f"the worst, and at most 2 % in {near} of {len(lost)}."
    )


def _chunk_cells(row: dict[str, Any]) -> list[str]:
    name = f"{row['model']} b{row['batch_size']}"
    first = [name, f"{row['budget']:.0%}".replace("%", " %"), f"{row['budget_bytes'] / 2**20:.1f}"]
    peaks = row.get("peak_bytes") or {}
    held, asked = peaks.get("measured"), peaks.get("measured_requested")
    if not held or not asked:
        return [*first, "–", "–", "–", "–", row["status"]]
    sizes = [f"{size / 2**20:.1f}" for size in (asked, held)]
    return [*first, *sizes, f"{100 * (held / asked - 1):+.1f} %", str(row["attempts"]), row["status"]]


def _requested(facts: dict[str, Any]) -> str:
    columns = ("network, Eigen's kernels", "batch", "predicted bytes", "traced bytes")
    return table(columns, ([r["name"], str(r["batch"]), *_bytes(r)] for r in facts["rows"]))


def _bytes(row: dict[str, Any]) -> Iterator[str]:
    yield from (f"{row[which]:,}" for which in ("predicted_bytes", "traced_bytes"))


def _layout(facts: dict[str, Any]) -> str:
    ways = list(facts["rows"][0]["peaks"])
    rows = ([row["net"], *(_change(row["peaks"][way]) for way in ways)] for row in facts["rows"])
    return table(("net", *ways), rows)


def _blocks(facts: dict[str, Any]) -> str:
    columns = ("ops", "budget", "first schedule", "within 1 %", "best", "bound", "greedy")
    rows = facts["rows"]
    greedy = {(row["ops"], row["share"]): row for row in rows if row["solver"] == "greedy"}
    return table(
        columns,
        (
            [
                f"{row['ops']:,}",
                f"{row['share']:.0%}",
                _first(row),
                "–" if row["within_a_percent_s"] is None else f"{row['within_a_percent_s']:.1f} s",
                _more(row["overhead"]),
                _more(row["bound_overhead"]),
                _first(greedy[row["ops"], row["share"]]),
            ]
            for row in rows
            if row["solver"] == "auto"
        ),
    )


def _corners(facts: dict[str, Any]) -> str:
    columns = ("step", "ops", "budget", "first schedule", "best", "bound", "gap", "bound before")
    return table(
        columns,
        (
            [
                row["name"],
                f"{row['ops']:,}",
                f"f = {row['share']:g}" if row["above_least"] else f"{row['share']:.0%}",
                _first(row),
                _more(row["overhead"]),
                _more(row["bound_overhead"]),
                f"{100 * row['gap']:.2f} %",
                _more(row["before"]["bound_overhead"]) if "before" in row else "not touched",
            ]
            for row in facts["rows"]
        ),
    )


def _first(row: dict[str, Any]) -> str:
    if row["first_s"] is None:
        return f"none in {row['time_limit_s']:.0f} s"
    return f"{row['first_s']:.1f} s, {_more(row['first_overhead'])}"


def _more(overhead: float | None) -> str:
    return "–" if overhead is None else f"+{100 * overhead:.2f} %"


def _change(peak: dict[str, int]) -> str:
    return f"{peak['before_bytes'] / _MIB:.1f} → {peak['after_bytes'] / _MIB:.1f}"


def _made(facts: dict[str, Any]) -> str:
    if "copied_from" in facts:
        return (
            f"Read in {facts['date']} on {facts['machine']}; {facts['versions']}; load: {facts['load']}. "
            f"Copied from {facts['copied_from']}."
        )
    machine, made_with = facts["machine"], facts.get("made_with")
    if made_with is None:
        first = facts["rows"][0]["made_with"]
        made_with = {name: first[name] for name in ("tensorflow", "keras", "kernels")}
    said = ", ".join(f"{name} {version}" for name, version in made_with.items())
    return (
        f"Made on {machine['processor']}, {machine['cores']} cores, load {machine['load']:.1f} at the start; "
        f"{said}, Python {machine['python']}, checkmate {machine['checkmate']}."
    )


def _tried(facts: dict[str, Any]) -> str:
    rows = ([row["what"], f"{row['tried']:,}", f"{row['broke']:,}"] for row in facts["rows"])
    return (
        table(("what", "how many", "broke"), rows) + "".join(f"\n- {note}" for note in facts["notes"]) + "\n"
    )


def _stalls(facts: dict[str, Any]) -> str:
    columns = ("while", "beats", "stall p99 / worst, ms", "own work p99 / worst, ms")
    return table(
        columns,
        (
            [what, f"{row['beats']:,}", *(_late(row[kind]) for kind in ("stall_ms", "own_work_ms"))]
            for what, row in facts["rows"].items()
        ),
    )


def _late(milliseconds: dict[str, float]) -> str:
    return f"{milliseconds['p99']:.1f} / {milliseconds['worst']:.1f}"


def _answers(facts: dict[str, Any]) -> str:
    rows = ([what, *_answer(row)] for what, row in facts["rows"].items())
    return table(("what", "times", "median", "p99", "worst"), rows)


def _answer(row: dict[str, float]) -> Iterator[str]:
    if "bytes" in row:
        yield from ("1", f"{row['bytes'] / _MIB:.0f} MiB", "", "")
        return
    yield str(row["count"])
    yield from (f"{row[which]:.1f} ms" for which in ("median_ms", "p99_ms", "worst_ms"))


_KINDS = {
    "checkmate-stalls": _stalls,
    "checkmate-answers": _answers,
    "checkmate-record": _record,
    "checkmate-requested": _requested,
    "checkmate-layout": _layout,
    "checkmate-blocks": _blocks,
    "checkmate-corners": _corners,
    "checkmate-tried": _tried,
    "checkmate-fidelity": _chunks,
}

if __name__ == "__main__":
    codes = []
    for path in pages():
        text = path.read_text(encoding="utf-8")
        codes.append(write_or_check(path, filled(text, figures), "docs/render_figures.py"))
    sys.exit(max(codes))
