"""Print fidelity rows as a table for the terminal or in Markdown.

Below the table: a summary, and where the rows were measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checkmate.bench.common.machine import Machine
from checkmate.bench.common.rows import Row
from checkmate.bench.fidelity.rows import allocated_error, requested_error, seconds_error, summary
from checkmate.text_table import aligned_lines, markdown_lines

_NONE = "–"
_KERNELS = {"onednn": "oneDNN's", "eigen": "Eigen's", "cuda": "CUDA's"}
_MIB = 2**20


def _mib(row: Mapping[str, Any], name: str) -> str:
    peaks = row.get("peak_bytes", {})
    return f"{peaks[name] / _MIB:.1f}" if name in peaks else _NONE


def _percent(value: float | None, digits: int = 1) -> str:
    return _NONE if value is None else f"{100 * value:+.{digits}f}"


def _of(row: Mapping[str, Any], group: str, name: str) -> float | None:
    found: Any = row.get(group, {}).get(name)
    return None if found is None else float(found)


def _seconds(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def _gradients(row: Mapping[str, Any]) -> str:
    found = row.get("gradients")
    if not found:
        return _NONE
    return "bitwise" if found["bitwise"] else "equal" if found["equal"] else "DIFFER"


_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("model", lambda r: f"{r['model']} b{r['batch_size']}"),
    ("budget", lambda r: f"{100 * r['budget']:g} %"),
    ("plain MiB", lambda r: f"{r['plain_peak_bytes'] / _MIB:.1f}" if "plain_peak_bytes" in r else _NONE),
    ("budget MiB", lambda r: f"{r['budget_bytes'] / _MIB:.1f}" if "budget_bytes" in r else _NONE),
    ("predicted", lambda r: _mib(r, "predicted")),
    ("measured", lambda r: _mib(r, "measured")),
    ("%", lambda r: _percent(allocated_error(r))),
    ("requested %", lambda r: _percent(requested_error(r), 2)),
    ("step s", lambda r: _seconds(_of(r, "seconds", "predicted"))),
    ("measured s", lambda r: _seconds(_of(r, "seconds", "measured"))),
    ("% ", lambda r: _percent(seconds_error(r))),
    ("overhead %", lambda r: _percent(_of(r, "overhead", "predicted"))),
    ("measured %", lambda r: _percent(_of(r, "overhead", "measured"))),
    ("gradients", _gradients),
    ("", lambda r: r["status"]),
)


def line(row: Row) -> str:
    """Return one row in words, for a log."""
    cells = [f"{title} {cell(row)}".strip() for title, cell in _COLUMNS if cell(row) != _NONE]
    return ", ".join(cells) + (f": {_problem(row)}" if row.get("problem") else "")


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Return a line per row, below the titles."""
    return [[title for title, _ in _COLUMNS], *([cell(row) for _, cell in _COLUMNS] for row in rows)]


def notes(rows: Sequence[Row]) -> list[str]:
    """Return the problems, the summary and what the columns mean."""
    return [*_problems(rows), *_summary(rows), *_legend(), *_made_with(rows)]


def text(rows: Sequence[Row], machine: Machine) -> str:
    """Return what ``bench fidelity`` prints."""
    lines = aligned_lines(table(rows), left=())
    return "\n".join([*lines, "", *notes(rows), f"on {machine}"])


def markdown(rows: Sequence[Row]) -> str:
    """Return the table for a README."""
    titles = [title.strip() for title, _ in _COLUMNS]
    return "\n".join(markdown_lines(titles, table(rows)[1:]))


def _problems(rows: Sequence[Row]) -> list[str]:
    return [f"{r['model']} at {100 * r['budget']:g} %: {_problem(r)}" for r in rows if r.get("problem")]


def _problem(row: Row) -> str:
    return str(row["problem"]).replace("after 1 attempts:", "after 1 attempt:")  # older files have the plural


def _summary(rows: Sequence[Row]) -> list[str]:
    found = summary(rows)
    words = (
        ("requested", "requested bytes, predicted against traced", "%"),
        ("allocated", "peak on the meter, predicted against measured", "%"),
        ("seconds", "step, predicted against measured", "%"),
        ("overhead_points", "overhead, predicted minus measured", "points"),
    )
    lines = [
        f"{meaning}: median {100 * found[name]['median']:.2f} {unit}, worst "
        f"{100 * found[name]['worst']:.2f} {unit} ({found[name]['count']} rows)"
        for name, meaning, unit in words
        if found[name]["count"]
    ]
    lines.append(
        f"{found['within_budget']} of {found['rows']} rows within the budget, {found['over_budget']} over "
        f"it, {found['without_schedule']} without a schedule, {found['failed']} failed; gradients equal in "
        f"{found['gradients_equal']} of {found['gradients_compared']} compared"
    )
    return lines


def _legend() -> list[str]:
    return [
        "budget: share of the plain step's measured peak; predicted, measured: MiB on the allocator's "
        "meter, fresh process;",
        "requested %: of the step alone, without parameters; overhead: over the emitted step without "
        "recomputation.",
    ]


def _made_with(rows: Sequence[Row]) -> list[str]:
    """Return what the rows were made with, in one line for all that agree.

    Rows of older files do not say it.
    """
    alike: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("made_with"):
            alike.setdefault(_setting(row["made_with"]), []).append(row)
    return [
        (f"{', '.join(dict.fromkeys(row['model'] for row in found))}: " if len(alike) > 1 else "")
        + f"measured with {setting}; {_load([row['made_with'] for row in found])}"
        for setting, found in alike.items()
    ]


def _setting(made: Mapping[str, Any]) -> str:
    """Return versions, kernels and machine in words."""
    names = (("TensorFlow", "tensorflow"), ("Keras", "keras"), ("checkmate", "checkmate"))
    words = [f"{name} {made[key]}" for name, key in names if made.get(key)]
    if made.get("kernels"):
        words.append(f"{_KERNELS.get(made['kernels'], made['kernels'])} kernels")
    machine = dict.fromkeys(made[key] for key in ("device", "processor") if made.get(key))
    return f"{', '.join(words)} on {' beside '.join(machine)}"


def _load(made: Sequence[Mapping[str, Any]]) -> str:
    """Return the most that other programs took of the cores."""
    worst = max(made, key=lambda each: float(each["load"]))
    cores = worst["cores"]
    return (
        f"during a plain step other programs took at most {worst['load']:.1f} of {cores} "
        f"core{'s' * (cores != 1)}"
    )
