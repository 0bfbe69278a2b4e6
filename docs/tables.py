"""Make each table of the pages from its result file."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from checkmate.units import format_bytes, parse_bytes

_MIB = 2**20
_EXAMPLES = Path(__file__).parent.parent / "examples"
Facts = dict[str, Any]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown, with columns of figures to the right."""
    listed = [list(row) for row in rows]
    numeric = [
        place > 0 and any(row[place][:1].isdigit() for row in listed)
        and all(re.match(r"^[*+≥–-]*[\d–]|^$", row[place]) for row in listed)
        for place in range(len(columns))
    ]  # fmt: skip
    lines = ["| " + " | ".join(columns) + " |", "|" + "|".join("---:" if n else "---" for n in numeric) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in listed)]) + "\n"


def records(facts: Facts) -> list[dict[str, str]]:
    """Return each row of a record as its cells by column."""
    return [dict(zip(facts["columns"], row, strict=True)) for row in facts["rows"]]


def record(facts: Facts) -> str:
    """Return a record as it is."""
    return table(facts["columns"], facts["rows"])


def rivals(facts: Facts) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Yield each other method with our cheapest schedule in no more memory."""
    rows = [row for row in records(facts) if row[""] == "ok" and row["overhead %"] != "–"]
    for row in rows:
        ours = [
            own
            for own in rows
            if own["model"] == row["model"]
            and own["method"].startswith("ours within")
            and float(own["peak MiB"]) <= float(row["peak MiB"])
        ]
        if ours and not row["method"].startswith("ours"):
            yield row, min(ours, key=lambda own: float(own["overhead %"]))


def peers(facts: Facts) -> str:
    """Return the memory and the time of each other method, beside ours."""
    networks: list[str] = []
    cells: dict[str, dict[str, str]] = {}
    for row, ours in rivals(facts):
        network = row["model"]
        networks += [network] if network not in networks else []
        cells.setdefault(row["method"], {})[network] = (
            f"{row['of plain %']} %: {row['overhead %']} %, ours {ours['overhead %']} %"
        )
    rows = ([f"`{name}`", *(found.get(each, "–") for each in networks)] for name, found in cells.items())
    return table(("method", *networks), rows)


def zoo(facts: Facts) -> str:
    """Return the measured peaks of each model at its budgets."""
    shares = sorted({row["budget"] for row in facts["rows"]}, reverse=True)
    models: dict[str, dict[float, Facts]] = {}
    for row in facts["rows"]:
        models.setdefault(f"{row['model']} b{row['batch_size']}", {})[row["budget"]] = row
    rows = (
        [name, f"{found[shares[0]]['plain_peak_bytes'] / _MIB:.1f}", *(_peak(found[at]) for at in shares)]
        for name, found in models.items()
    )
    return table(("model", "plain, MiB", *(f"within {share:.0%}" for share in shares)), rows)


def _peak(row: Facts) -> str:
    held = (row.get("peak_bytes") or {}).get("measured")
    return f"{held / _MIB:.1f}" if held and row["status"] == "fits" else f"– ({row['status']})"


def fidelity(facts: Facts) -> str:
    """Return how near the measurements came to the predictions."""
    found = facts["summary"]
    far, late = found["allocated"], found["overhead_points"]
    rows = [
        (
            "schedules: within the budget, over it, proved infeasible",
            f"{found['within_budget']}, {found['over_budget']}, {found['without_schedule']}",
        ),
        (
            "peak, measured against predicted: median, worst",
            f"{100 * far['median']:.1f} %, {100 * far['worst']:.1f} %",
        ),
        (
            "extra time, measured against predicted: median, worst",
            f"{100 * late['median']:.1f}, {100 * late['worst']:.1f} points",
        ),
        (
            "gradients equal to the plain step's",
            f"{found['gradients_equal']} of {found['gradients_compared']}",
        ),
    ]
    return table(("what", f"of {found['rows']} rows"), rows)


def batches(facts: Facts) -> str:
    """Return the largest batches beside those of the paper."""
    paper = {row["model"]: row for row in facts["published"]}
    return table(
        ("network", "here", "the paper", "proved limit", "keep all", "best baseline", "extra cost"),
        (
            [
                row["model"],
                str(row["batch"]),
                _published(paper[row["model"]]),
                str(row["proved_limit"]),
                str(row["plain_batch"]),
                str(max(filter(None, row["baselines"].values()), default="–")),
                _more(row["overhead"]),
            ]
            for row in facts["rows"]
        ),
    )


def _published(row: Facts) -> str:
    if row["batch"] is None:
        return "–"
    return f"{'≥ ' if row['batch_is_a_bound'] else ''}{row['batch']}"


def ratios(facts: Facts) -> str:
    """Return each strategy's cost over the least known, and the paper's."""
    paper = {row["model"]: row["ratios"] for row in facts["published"]}
    names = ("checkmate", "lp-rounding", "chen-sqrt-ap", "chen-greedy-ap", "griewank")
    rows = (
        [
            row["model"],
            *(_ratio(row["geometric_means"].get(name), paper[row["model"]].get(name)) for name in names),
        ]
        for row in facts["ratios"]
    )
    return table(("network", *names), rows)


def _ratio(found: Facts | None, paper: float | None) -> str:
    here = f"{found['mean']:.3f}" if found and found["solved"] else "–"
    if found and 0 < found["solved"] < found["budgets"]:
        here += f" ({found['solved']} of {found['budgets']})"
    return here if paper is None else f"{here}, paper {paper:.2f}"


def solved(facts: Facts) -> str:
    """Return what the default solver proved to be the least, and when."""
    assert all(row["status"] == "optimal" for row in facts["rows"])
    return table(
        ("network", "ops", "budget", "extra cost", "first schedule", "best", "proved"),
        (
            [
                row["name"],
                str(row["ops"]),
                f"f = {row['share']:g}",
                _more(row["overhead"]),
                *(f"{row[key]:.2f} s" for key in ("first_s", "best_s", "end_s")),
            ]
            for row in facts["rows"]
        ),
    )


def corners(facts: Facts) -> str:
    """Return cost, bound and gap of the steps whose budgets are hard."""
    return table(
        ("step", "ops", "budget", "extra cost", "bound", "gap"),
        (
            [
                row["name"],
                f"{row['ops']:,}",
                f"f = {row['share']:g}" if row["above_least"] else f"{row['share']:.0%}",
                _more(row["overhead"]),
                _more(row["bound_overhead"]),
                f"{100 * row['gap']:.2f} %",
            ]
            for row in facts["rows"]
        ),
    )


def _more(overhead: float) -> str:
    return f"+{100 * overhead:.2f} %"


def ways(*shown: str) -> Callable[[Facts], str]:
    """Return a view of temporaries and extra time of some ways, by network."""

    def view(facts: Facts) -> str:
        networks: dict[str, dict[str, str]] = {}
        for name, way, cell in _temporaries(facts):
            networks.setdefault(name, {})[way] = cell
        rows = ([name, *(found.get(way, "–") for way in shown)] for name, found in networks.items())
        return table(("network", *map(_as_code, shown)), rows)

    return view


def _as_code(way: str) -> str:
    return way if way[:1].isdigit() or way.startswith("plain") else f"`{way}`"


def _temporaries(facts: Facts) -> Iterator[tuple[str, str, str]]:
    """Yield network, way and what it took, of either form of result."""
    for network in facts.get("networks", ()):
        plain = network["ways"][0]["temp_bytes"]
        for way in network["ways"]:
            yield (
                network["network"],
                way["way"],
                _cell(way["temp_bytes"], plain, way["way"], way["cpu_ratio"] - 1),
            )
    plains = {row["network"]: row for row in reversed(facts.get("rows", ())) if row["way"] == "plain"}
    for row in facts.get("rows", ()):
        if "temporary" in row and row.get("batch") == plains[row["network"]].get("batch"):
            plain = plains[row["network"]]["temporary"]
            yield row["network"], row["way"], _cell(row["temporary"], plain, row["way"], row.get("measured"))


def _cell(temporary: int, plain: int, way: str, extra: float | None) -> str:
    share = re.fullmatch(r"(\d+) %", way)
    over = " (over)" if share and temporary > int(share[1]) / 100 * plain else ""
    time = "" if extra is None or way == "plain" else f", {100 * extra:+.0f} %"
    return f"{format_bytes(temporary)}{time}{over}"


def programs(facts: Facts) -> str:
    """Return what each example does, its peaks, and the time of its steps."""
    found = {row["program"].partition(":")[0]: row for row in reversed(facts["rows"])}
    rows = (
        [f"`{path.name}`", _summary(path), *_program(found.get(path.name))]
        for path in sorted(_EXAMPLES.glob("*.py"))
    )
    return table(("program", "what it does", "plain peak", "budget", "peak", "time of a step"), rows)


def _program(row: Facts | None) -> tuple[str, ...]:
    if row is None or "problem" in row:
        return "–", "–", "–", "–"
    budgets = [parse_bytes(plan["budget"].replace(",", "")) for plan in row["plans"]]
    return (
        format_bytes(row["plain_peak_bytes"]),
        format_bytes(max(budgets)) if budgets else "–",
        format_bytes(row["peak_bytes"]),
        f"{row['step_s'] / row['plain_step_s'] - 1:+.0%}",
    )


def _summary(path: Path) -> str:
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return words.splitlines()[0].removesuffix(".").partition(" within a ")[0].removesuffix(",")


def same_bits(facts: Facts) -> str:
    """Return in how many steps the bits were the plain step's."""
    steps = sum(row["steps"] for row in facts["rows"])
    others = sum(row["differing_steps"] for row in facts["rows"])
    return f"Of {steps} steps of {len(facts['rows'])} programs, {others} had other bits.\n"


def made_on(facts: Facts) -> str:
    """Return on what a result was measured, as a sentence."""
    if "versions" in facts:
        return f"Read in {facts['date']} on {facts['machine']}; {facts['versions']}; load: {facts['load']}."
    machine = facts.get("machine", facts)
    load = machine["load"] if "load" in machine else facts.get("load")
    known = {**machine, **facts.get("made_with", {}), **facts}
    if "rows" in facts and isinstance(facts["rows"][0].get("made_with"), dict):
        known |= facts["rows"][0]["made_with"]
    versions = [f"{_NAMES[name]} {known[name]}" for name in _NAMES if isinstance(known.get(name), str)]
    processor = known.get("processor") or f"one {facts['device']}"
    busy = "" if load is None else f", load {_span(load)}"
    return f"Measured on {processor}, {known['cores']} cores{busy}; {', '.join(versions)}."


_NAMES = {
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "kernels": "kernels",
    "jax": "JAX",
    "cuda": "CUDA",
    "driver": "driver",
    "equinox": "Equinox",
    "optax": "Optax",
    "python": "Python",
}


def _span(load: float | list[float]) -> str:
    return f"{load:.1f}" if isinstance(load, float) else f"{min(load):.0f} to {max(load):.0f}"
