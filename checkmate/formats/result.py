"""Turn a solve's result into JSON-able data.

Schedule files, sweeps and the window's messages share these fields."""

from __future__ import annotations

from typing import Any

from checkmate.ir.result import SolveResult


def result_facts(result: SolveResult) -> dict[str, Any]:
    """Return the result's fields, without its schedule and statistics.

    Sizes are in bytes, costs in the graph's unit. ``lower_bound`` may be infinite, which strict JSON cannot
    express.
    """
    return {
        "solver": result.solver,
        "status": result.status.value,
        "budget_bytes": int(result.budget_bytes),
        "peak_bytes": None if result.peak_bytes is None else int(result.peak_bytes),
        "cost": _number(result.cost),
        "base_cost": float(result.base_cost),
        "lower_bound": _number(result.lower_bound),
        "solve_seconds": float(result.solve_seconds),
        "assumptions": list(result.assumptions),
        "message": result.message,
    }


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
