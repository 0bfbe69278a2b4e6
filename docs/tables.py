"""Make each table of the pages from its result file."""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from checkmate.units import format_bytes, parse_bytes

_SAVES = 0.97  # of the plain peak: a way that takes more saves nothing
_SHOWN = (" 0.5", " 0.3", " 0.1", "each block")
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


def torch_rivals(facts: Facts) -> Iterator[tuple[Facts, Facts, Facts]]:
    """Yield each of PyTorch's ways that saves memory, with ours within as much: the fastest, and the one with
    the fewest operations.
    """
    rows = [row for row in facts["rows"] if "failed" not in row]
    for row in rows:
        plain = next(each for each in rows if each["model"] == row["model"] and each["way"] == "aot_eager")
        ours = [
            each
            for each in rows
            if each["model"] == row["model"]
            and "within" in each
            and each["peak_bytes"] <= min(row["peak_bytes"], each["within"])
        ]
        if "within" not in row and ours and row["peak_bytes"] < _SAVES * plain["peak_bytes"]:
            yield (
                row,
                min(ours, key=lambda each: float(each["seconds"])),
                min(ours, key=lambda each: float(each["flops"])),
            )


def torch_peers(facts: Facts) -> str:
    """Return what PyTorch's ways to save memory take, beside ours."""
    rows = []
    for row, fastest, fewest in torch_rivals(facts):
        if not row["way"].endswith(_SHOWN):
            continue
        eager = next(each for each in facts["rows"] if each["model"] == row["model"])
        rows.append(
            (
                row["model"],
                row["way"],
                f"{100 * row['peak_bytes'] / eager['peak_bytes']:.0f} %",
                f"{100 * row['overhead']:.1f}",
                f"{100 * fewest['overhead']:.1f}",
                f"{100 * row['seconds_over_plain']:.0f}",
                f"{100 * fastest['seconds_over_plain']:.0f}",
                "equal" if row["gradients_bitwise"] else "differ",
            )
        )
    columns = ("model", "way", "peak", "FLOPs +%", "ours", "time +%", "ours", "its gradients")
    return table(columns, rows)


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
            if paper[row["model"]]["batch"] is not None
        ),
    )


def _published(row: Facts) -> str:
    return f"{'≥ ' if row['batch_is_a_bound'] else ''}{row['batch']}"


def solved(facts: Facts) -> str:
    """Return when the default solver proved its cost to be the least."""
    assert all(row["status"] == "optimal" for row in facts["rows"])
    first, best, end = (max(row[key] for row in facts["rows"]) for key in ("first_s", "best_s", "end_s"))
    return (
        f"All {len(facts['rows'])} are proved to cost the least: a first schedule after at most {first:.2f} "
        f"s, the best after {best:.1f} s, the proof after {end:.1f} s.\n"
    )


def corners(facts: Facts) -> str:
    """Return how far from the least the costs at hard budgets may be."""
    gaps, worst = [row["gap"] for row in facts["rows"]], max(facts["rows"], key=lambda row: row["gap"])
    sizes = [row["ops"] for row in facts["rows"]]
    return (
        f"Of {len(facts['rows'])} steps of {min(sizes):,} to {max(sizes):,} ops, the gap is "
        f"{100 * statistics.median(gaps):.1f} % in the median, and {100 * worst['gap']:.1f} % at worst "
        f"({worst['name']}).\n"
    )


def _more(overhead: float) -> str:
    return f"+{100 * overhead:.2f} %"


_ON_A_GPU = ("gpt", "vit", "resnet")


def ways(*shown: str) -> Callable[[Facts], str]:
    """Return a view of temporaries and extra time of some ways, for the networks that ran on a GPU too."""

    def view(facts: Facts) -> str:
        networks: dict[str, dict[str, str]] = {}
        for name, way, cell in _temporaries(facts):
            networks.setdefault(name, {})[way] = cell
        rows = ([name, *(networks[name].get(way, "–") for way in shown)] for name in _ON_A_GPU)
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
    "torch": "PyTorch",
    "cuda": "CUDA",
    "driver": "driver",
    "equinox": "Equinox",
    "optax": "Optax",
    "python": "Python",
}


def _span(load: float | list[float]) -> str:
    return f"{load:.1f}" if isinstance(load, float) else f"{min(load):.0f} to {max(load):.0f}"
