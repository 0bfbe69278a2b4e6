"""A trade-off curve as text, JSON-able facts, or CSV; its picture is in ``checkmate.charts.frontier``."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import Any

from checkmate.frontiers.summary import Baseline, BudgetRow, TradeOff
from checkmate.ir import SolveStatus
from checkmate.ir.result import gap_between
from checkmate.machine.cost_origin import origin_words
from checkmate.solvers.constraints import list_assumptions
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.text_table import aligned_lines
from checkmate.units import format_bytes, format_overhead, format_seconds

FORMAT, VERSION = "checkmate-frontier", 1


def overhead_percent(found: TradeOff, cost: float) -> float:
    """The extra cost over computing everything once, in percent."""
    return 100 * (cost / found.graph.base_cost - 1) if found.graph.base_cost > 0 else 0.0


def facts(found: TradeOff, *, steps: bool = False) -> dict[str, Any]:
    """The content of the format ``checkmate-frontier``. ``steps``: include every schedule's op indices.

    Bytes include the fixed ones; bounds hold for any order; null: proved that no schedule exists.
    """
    graph = found.graph
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": {
            "name": graph.name,
            "fingerprint": graph.fingerprint,
            "ops": graph.n,
            "fixed_bytes": graph.fixed_bytes,
        },
        "cost_unit": graph.cost_unit.value,
        "cost_origin": graph.cost_origin.value,
        "base_cost": graph.base_cost,
        "keep_everything_peak_bytes": found.plain_peak_bytes,
        "infeasible_up_to_bytes": found.frontier.infeasible_below,
        "solver": found.solver,
        "time_limit_s": found.time_limit_s,
        "seconds": found.seconds,
        "cancelled": found.cancelled,
        "notes": list(found.notes),
        "budgets": [_row_facts(found, row) for row in found.rows],
        "schedules": [_point_facts(found, point, steps=steps) for point in found.frontier],
        "bounds": [
            {"budget_bytes": budget, "lower_bound": _finite(low)} for budget, low in found.frontier.bounds
        ],
        "baselines": [
            {
                "solver": baseline.solver,
                "note": baseline.note,
                "points": [_point_facts(found, point, steps=False) for point in baseline.points],
            }
            for baseline in found.baselines
        ],
    }


def _row_facts(found: TradeOff, row: BudgetRow) -> dict[str, Any]:
    point = row.point
    return {
        "budget_bytes": row.budget_bytes,
        "status": row.status.value,
        **_reached(found, point),
        "lower_bound": _finite(row.lower_bound),
        "gap": row.gap,
        "solver": None if point is None else point.solver,
        "seconds": row.seconds,
        "assumptions": list(row.result.assumptions) if row.result is not None else [],
        "status_under_assumptions": row.result.status.value
        if row.result and row.result.assumptions
        else None,
    }


def _reached(found: TradeOff, point: FrontierPoint | None) -> dict[str, Any]:
    if point is None:
        return dict.fromkeys(("peak_bytes", "cost", "overhead_percent"))
    overhead = overhead_percent(found, point.cost)
    return {"peak_bytes": point.peak_bytes, "cost": point.cost, "overhead_percent": overhead}


def _point_facts(found: TradeOff, point: FrontierPoint, *, steps: bool) -> dict[str, Any]:
    told = {**_reached(found, point), "budget_bytes": point.budget_bytes, "solver": point.solver}
    return {**told, "steps": point.schedule.steps.tolist()} if steps else told


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# New columns go to the end.
COLUMNS = (
    "kind", "solver", "budget_bytes", "peak_bytes", "cost", "overhead_percent", "lower_bound",
    "bound_overhead_percent", "gap", "status", "seconds", "budget_percent",
)  # fmt: skip


def csv_text(found: TradeOff) -> str:
    """One line per budget and per baseline's schedule. Cells are empty where nothing is known."""
    out = io.StringIO()
    lines = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    lines.writeheader()
    lines.writerows(_lines(found))
    return out.getvalue()


def _lines(found: TradeOff) -> Iterator[dict[str, Any]]:
    for row in found.rows:
        solver = None if row.point is None else row.point.solver
        low = _finite(row.lower_bound)
        budget = _measures(found, row.budget_bytes, row.point, low, row.seconds)
        yield {"kind": "budget", "solver": solver, "gap": row.gap, "status": row.status.value, **budget}
    for baseline in found.baselines:
        for point in baseline.points:
            low = found.frontier.bound(point.peak_bytes)
            yield {
                "kind": "baseline",
                "solver": baseline.solver,
                "gap": gap_between(point.cost, low),
                "status": SolveStatus.FEASIBLE.value,
                **_measures(found, point.budget_bytes, point, low, point.seconds),
            }


def _measures(
    found: TradeOff, budget_bytes: int, point: FrontierPoint | None, low: float | None, seconds: float
) -> dict[str, Any]:
    return {
        "budget_bytes": budget_bytes,
        **_reached(found, point),
        "lower_bound": low,
        "bound_overhead_percent": None if low is None else overhead_percent(found, low),
        "seconds": round(seconds, 4),
        "budget_percent": 100 * budget_bytes / max(1, found.plain_peak_bytes),
    }


def text(found: TradeOff) -> str:
    """What ``frontier`` prints."""
    rows = [
        ("budget", "of keep-all", "peak", "extra cost", "lower bound", "by", "known"),
        *(_row_cells(found, row) for row in found.rows),
    ]
    graph = found.graph
    split = f"{format_seconds(found.time_limit_s)} for all"
    lines = [
        f"{graph.name}: {graph.n} ops, keep-everything needs {format_bytes(found.plain_peak_bytes)}; "
        f"solved by {found.solver} in {format_seconds(found.seconds)} ({split})",
        *(f"  {line}" for line in aligned_lines(rows, left=(5, 6))),
        f"costs are {origin_words(graph)}, peaks are requested bytes (predicted); bounds hold for any "
        "order of execution",
    ]
    lines += found.notes
    if found.baselines:
        lines += ["", *_baseline_lines(found)]
    if found.cancelled:
        lines += ["", "cancelled: this is what was found so far"]
    return "\n".join(lines)


def _row_cells(found: TradeOff, row: BudgetRow) -> tuple[str, ...]:
    base, point = found.graph.base_cost, row.point
    return (
        format_bytes(row.budget_bytes),
        f"{100 * row.budget_bytes / max(1, found.plain_peak_bytes):.1f} %",
        "-" if point is None else format_bytes(point.peak_bytes),
        "-" if point is None else format_overhead(point.cost, base),
        "-" if math.isinf(row.lower_bound) else format_overhead(row.lower_bound, base),
        "-" if point is None else point.solver,
        known(row),
    )


def known(row: BudgetRow) -> str:
    """What is proved of a row, in words. What holds only under the solver's assumptions says so."""
    result, cost = row.result, None if row.point is None else row.point.cost
    if result is None:
        return known_words(row.status, cost, row.lower_bound)
    return known_words(row.status, cost, row.lower_bound, result.assumptions, result.status)


def known_words(
    status: SolveStatus,
    cost: float | None,
    lower_bound: float,
    assumptions: Sequence[str] = (),
    under: SolveStatus | None = None,
) -> str:
    """What is proved of a budget, in words. ``under``: how the solve under ``assumptions`` ended."""
    if status is SolveStatus.FEASIBLE:
        assert cost is not None
        said = "a schedule"
        if lower_bound > 0:
            said = f"at most {100 * (cost / lower_bound - 1):.2g} % above the best possible"
    else:
        said = {
            SolveStatus.OPTIMAL: "optimal, proved",
            SolveStatus.INFEASIBLE: "infeasible, proved",
            SolveStatus.CANCELLED: "cancelled before a schedule was found",
        }.get(status, "no schedule found; one may exist")
    proofs = (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE)
    if status not in proofs and assumptions and under in proofs:
        said += f"; {under.value} assuming {list_assumptions(assumptions)}"
    return said


def _baseline_lines(found: TradeOff) -> list[str]:
    head = ("baseline", "schedules", "smallest peak", "extra cost", "best at that peak", "")
    rows = [head, *(_baseline_cells(found, baseline) for baseline in found.baselines)]
    return [f"  {line}" for line in aligned_lines(rows, left=(0, 5))]


def _baseline_cells(found: TradeOff, baseline: Baseline) -> tuple[str, ...]:
    if not baseline.points:
        return (baseline.solver, "0", "-", "-", "-", baseline.note)
    last, base = baseline.points[-1], found.graph.base_cost
    best = found.frontier.best(last.peak_bytes)
    return (
        baseline.solver,
        str(len(baseline.points)),
        format_bytes(last.peak_bytes),
        format_overhead(last.cost, base),
        "-" if best is None else format_overhead(best.cost, base),
        baseline.note,
    )
