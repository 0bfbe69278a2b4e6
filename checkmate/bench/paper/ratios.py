"""Compute approximation ratios from measured rows.

A ratio is a strategy's cost over the least known cost, across budgets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
OURS = "checkmate"
_PROVED = 1e-6  # relative; a bound as near as this is the cost itself


@dataclass(frozen=True)
class Ratio:
    """Hold the mean ratio of a strategy.

    ``mean``: geometric, over the ``solved`` of ``budgets`` at which there is a schedule; None where there
    is none.
    """

    mean: float | None
    solved: int
    budgets: int


def ratio(costs: Sequence[float | None], best: Sequence[float | None]) -> Ratio:
    """Return the ratio of ``costs`` to ``best``, budget by budget.

    A budget without ``best``, where nothing fits, does not count at all.
    """
    known = [cost / least for cost, least in zip(costs, best, strict=True) if cost is not None and least]
    mean = math.exp(math.fsum(map(math.log, known)) / len(known)) if known else None
    return Ratio(mean, len(known), sum(least is not None for least in best))


def cheapest_within(points: Sequence[Mapping[str, Any]], budget: int) -> float | None:
    """Return the least cost among schedules that fit ``budget``. None where no peak is at most ``budget``."""
    return min((float(point["cost"]) for point in points if point["peak_bytes"] <= budget), default=None)


def strategy_costs(curve: Mapping[str, Any], rounding: Sequence[Row] = ()) -> dict[str, list[float | None]]:
    """Return the cost at each of the curve's budgets, by strategy.

    Ours comes first. ``rounding``: results at the same budgets, if any.
    """
    budgets = [row["budget_bytes"] for row in curve["budgets"]]
    found = {OURS: [row["cost"] for row in curve["budgets"]]}
    if rounding:
        known = {row["budget_bytes"]: row["cost"] for row in rounding}
        found["lp-rounding"] = [known.get(budget) for budget in budgets]
    for baseline in curve["baselines"]:
        found[baseline["solver"]] = [cheapest_within(baseline["points"], budget) for budget in budgets]
    return found


def best_known(costs: Mapping[str, Sequence[float | None]]) -> list[float | None]:
    """Return the least cost of all strategies at each budget."""
    return [
        min((c for c in column if c is not None), default=None)
        for column in zip(*costs.values(), strict=True)
    ]


def ratios(curve: Mapping[str, Any], rounding: Sequence[Row] = ()) -> dict[str, Ratio]:
    """Return each strategy's ratio to the best known cost.

    ``bound``: the best known over the proved bound, at least 1.
    """
    costs = strategy_costs(curve, rounding)
    best = best_known(costs)
    found = {name: ratio(column, best) for name, column in costs.items()}
    bounds = [row["lower_bound"] for row in curve["budgets"]]
    return {**found, "bound": ratio(best, bounds)}


def worst(costs: Sequence[float | None], best: Sequence[float | None]) -> float | None:
    """Return the largest ratio at any budget."""
    return max(
        (cost / least for cost, least in zip(costs, best, strict=True) if cost is not None and least),
        default=None,
    )


def proved(curve: Mapping[str, Any]) -> int:
    """Return the number of budgets at which the answer is proved.

    Either the cost is proved optimal, or it is proved that nothing fits.
    """
    return sum(row["status"] in ("optimal", "infeasible") for row in curve["budgets"])
