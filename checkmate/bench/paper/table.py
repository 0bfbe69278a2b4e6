"""Print what ``bench paper`` found, as JSON-able facts and as tables.

Each number is shown beside the published one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkmate.bench.common.machine import Machine
from checkmate.bench.common.rows import Row
from checkmate.bench.paper.published import NOTES, STRATEGIES, figures_of
from checkmate.bench.paper.questions import FORMAT, PaperPlan
from checkmate.bench.paper.ratios import OURS, Ratio, best_known, proved, ratios, strategy_costs, worst
from checkmate.graphs.paper import find_network
from checkmate.text_table import aligned_lines
from checkmate.units import format_bytes, format_seconds

_NONE = "–"


def facts(rows: Sequence[Row], plan: PaperPlan, machine: Machine) -> dict[str, Any]:
    """Return everything as one JSON object.

    It has the rows as measured, the tables made of them, and what is published.
    """
    return {
        "format": FORMAT,
        "version": 1,
        "machine": machine.to_json(),
        "options": {"time_limit_s": plan.options.time_limit_s, "workers": plan.options.workers},
        "rows": list(rows),
        "ratios": [_ratio_facts(model, curve, rounding) for model, curve, rounding in curves_of(rows)],
        "published": [_published(model) for model in dict.fromkeys(row["model"] for row in rows)],
        "notes": list(NOTES),
    }


def _published(model: str) -> dict[str, Any]:
    figures = figures_of(model)
    told = {"model": model, "ratios": dict(figures.ratios), "batch": figures.batch}
    return {**told, "batch_is_a_bound": figures.batch_bound, "note": figures.note}


def _ratio_facts(model: str, curve: Mapping[str, Any], rounding: Sequence[Row]) -> dict[str, Any]:
    costs = strategy_costs(curve, rounding)
    return {
        "model": model,
        "geometric_means": {name: vars(found) for name, found in ratios(curve, rounding).items()},
        "worst_of_ours": worst(costs[OURS], best_known(costs)),
        "proved_budgets": proved(curve),
    }


def rows_of(rows: Iterable[Row], kind: str) -> dict[str, Row]:
    """Return the rows of one kind, by model."""
    return {row["model"]: row for row in rows if row["kind"] == kind}


def curves_of(rows: Sequence[Row]) -> list[tuple[str, Mapping[str, Any], Sequence[Row]]]:
    """Return (model, its curve, its roundings) for each curve."""
    rounding = rows_of(rows, "rounding")
    return [
        (m, row["curve"], rounding.get(m, {}).get("rounding", ()))
        for m, row in rows_of(rows, "curve").items()
    ]


def text(rows: Sequence[Row], plan: PaperPlan, machine: Machine) -> str:
    """Return what ``bench paper`` prints."""
    curves, batches = curves_of(rows), rows_of(rows, "batch")
    lines = [*aligned_lines(batch_rows(batches)), ""] if batches else []
    if curves and "curves" in plan.parts:
        lines += [line for model, curve, rounding in curves for line in _curve_lines(model, curve, rounding)]
    if curves and "ratios" in plan.parts:
        lines += [*aligned_lines(ratio_rows(rows)), ""]
    if not lines:
        return "nothing was measured"
    limit = (
        f"time limit {plan.options.time_limit_s:g} s for each curve, rounding and batch; "
        f"{plan.options.workers} worker"
    )
    return "\n".join(
        [
            *lines,
            *NOTES,
            *model_notes(rows),
            f"{limit}{'s' * (plan.options.workers != 1)}",
            *_crowd(rows),
            f"on {machine}",
        ]
    )


def _crowd(rows: Sequence[Row]) -> list[str]:
    """Return a note where several tasks shared the cores. Seconds are then not those of a solver alone."""
    most = max((row.get("at_once", 1) for row in rows), default=1)
    return (
        [f"up to {most} tasks ran at once and shared cores, so the seconds are not those of one solver alone"]
        if most > 1
        else []
    )


def model_notes(rows: Sequence[Row]) -> list[str]:
    """Return the notes on single networks."""
    notes: dict[str, list[str]] = {}
    for model in dict.fromkeys(row["model"] for row in rows):
        if note := figures_of(model).note:
            notes.setdefault(note, []).append(find_network(model).title)
    return [f"{', '.join(titles)}: {note}." for note, titles in notes.items()]


def batch_rows(found: Mapping[str, Row]) -> list[list[str]]:
    """Return the largest batches by model, below a head."""
    head = [
        "largest batch",
        "here",
        "the paper",
        "proved limit",
        "op limit",
        "keep all",
        "best baseline",
        "extra %",
        "allowed %",
        "s",
    ]
    table = [[find_network(model).title, *_batch_cells(model, row)] for model, row in found.items()]
    return [head, *table]


def _batch_cells(model: str, row: Row) -> list[str]:
    published = figures_of(model).batch_text or _NONE
    if row["batch"] is None:
        return ["none", published, *[_NONE] * 6, _number(row["seconds"], 1)]
    reached = [batch for batch in row["baselines"].values() if batch is not None]
    return [
        str(row["batch"]) + "*" * bool(row.get("cancelled")),
        published,
        str(row["proved_limit"]),
        _number(row["op_limit"], 2),
        str(row["plain_batch"]),
        str(max(reached)) if reached else _NONE,
        _number(100 * row["overhead"], 2),
        _number(100 * row["cost_limit_overhead"], 1),
        _number(row["seconds"], 1),
    ]


def _curve_lines(model: str, curve: Mapping[str, Any], rounding: Sequence[Row]) -> list[str]:
    stopped = ", stopped before its time" if curve["cancelled"] else ""
    table = aligned_lines(curve_rows(model, curve, rounding))
    return [*table, f"all budgets in {format_seconds(curve['seconds'])}{stopped}", ""]


def curve_rows(model: str, curve: Mapping[str, Any], rounding: Sequence[Row]) -> list[list[str]]:
    """Return the extra cost in percent at each budget, below a head.

    The columns are ours, the bound, and every strategy.
    """
    costs, base = strategy_costs(curve, rounding), curve["base_cost"]
    plain, seconds = (
        curve["keep_everything_peak_bytes"],
        {row["budget_bytes"]: row["seconds"] for row in rounding},
    )
    head = [f"{find_network(model).title}, extra cost %", "of plain", OURS, "bound", "s", *list(costs)[1:]]
    table = []
    for place, row in enumerate(curve["budgets"]):
        bound = "infeasible" if row["status"] == "infeasible" else _extra(row["lower_bound"], base)
        told = [_extra(column[place], base) for name, column in costs.items() if name != OURS]
        if row["budget_bytes"] in seconds:
            told[0] += f" ({_number(seconds[row['budget_bytes']], 1)} s)"
        ours = [_extra(row["cost"], base), bound, _number(row["seconds"], 1)]
        table.append(
            [format_bytes(row["budget_bytes"]), f"{100 * row['budget_bytes'] / plain:.0f} %", *ours, *told]
        )
    return [head, *table]


def ratio_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Return each network's approximation ratios, below a head. The paper's ratios are in the line below."""
    names = [OURS, *STRATEGIES]
    head = ["cost over the best known", *names, "best over bound", "ours at worst", "proved"]
    table = []
    for model, curve, rounding in curves_of(rows):
        found, costs = ratios(curve, rounding), strategy_costs(curve, rounding)
        at_worst = worst(costs[OURS], best_known(costs))
        cells = [_ratio(found.get(name)) for name in names]
        of_all = f"{proved(curve)} of {len(curve['budgets'])}"
        table.append(
            [find_network(model).title, *cells, _ratio(found["bound"]), _number(at_worst, 4), of_all]
        )
        if figures_of(model).ratios:
            published = [_number(figures_of(model).ratios.get(name), 2) for name in STRATEGIES]
            table.append(["  the paper", "", *published, "", "", ""])
    return [head, *table]


def _ratio(found: Ratio | None) -> str:
    if found is None or found.mean is None:
        return _NONE
    return f"{found.mean:.3f}" + ("" if found.solved == found.budgets else f" ({found.solved})")


def _extra(cost: float | None, base: float) -> str:
    return _NONE if cost is None or base <= 0 else f"{max(0.0, 100 * (cost / base - 1)):.2f}"


def _number(value: float | None, digits: int) -> str:
    return _NONE if value is None else f"{value:.{digits}f}"
