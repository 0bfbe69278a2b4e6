"""Repeat the Checkmate paper's evaluation, beside its published figures.

``python -m tests.benchmarks paper {batches,ratios} [NETWORK …] -o FILE.json``

Jain et al.: Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization, MLSys 2020
(arXiv 1910.02653). *batches*: the largest on 16 GB with at most one extra forward pass, operation counts as
costs. *ratios*: the geometric mean of a strategy's cost over the least known, over the budgets at which it
has a schedule. Rows of other networks in the file are kept.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.formats.files import write_json
from checkmate.frontiers.sweep import trade_off
from checkmate.graphs.paper import NETWORKS, PaperNetwork, find_network
from checkmate.ir import Graph
from checkmate.largest.batch import max_batch
from checkmate.largest.scaling import BatchScaling
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget
from tests.benchmarks.measured_on import this_machine

_DEVICE_BYTES = 16 * 10**9
# Shares of the way from the least known peak to keep-everything; the paper does not print its budgets.
_FRACTIONS = (0.05, 0.1, 0.25, 0.5, 0.75)
_BASELINES = ("chen-sqrt-ap", "chen-sqrt-linear", "chen-greedy-ap", "chen-greedy-linear", "griewank")
_PUBLISHED_RATIOS = {  # lp-rounding, chen-sqrt-ap, chen-greedy-ap, griewank
    "mobilenet": (1.06, 1.14, 1.07, 7.07),
    "vgg16": (1.01, 1.28, 1.06, 1.44),
    "vgg19": (1.00, 1.54, 1.39, 1.75),
    "unet": (1.03, 1.27, 1.23),
    "resnet50": (1.05, 1.20, 1.25),
}
# The largest batch, and whether it was only the best found when the paper's program was stopped.
_PUBLISHED_BATCHES = {
    "mobilenet": (1105, False),
    "vgg19": (289, False),
    "unet": (61, False),
    "resnet50": (193, True),
    "fcn8": (60, True),
    "fcn8_plain": (60, True),
    "segnet": (62, True),
    "segnet_plain": (62, True),
}

Row = dict[str, Any]


def published(model: str) -> Row:
    """Return what the paper reports for a network; empty where it reports nothing."""
    batch, bound = _PUBLISHED_BATCHES.get(model, (None, False))
    names = ("lp-rounding", "chen-sqrt-ap", "chen-greedy-ap", "griewank")
    ratios = dict(zip(names, _PUBLISHED_RATIOS.get(model, ()), strict=False))
    return {"model": model, "ratios": ratios, "batch": batch, "batch_is_a_bound": bound}


def largest_batch(network: PaperNetwork, options: SolveOptions) -> Row:
    """Return the largest batch on the paper's device, with the numbers to compare it with."""
    found = max_batch(BatchScaling(network.graph()), _DEVICE_BYTES, options=options)
    return {
        "model": network.name,
        "batch": found.batch,
        "proved_limit": found.upper_batch,
        "plain_batch": found.plain_batch,
        "baselines": dict(found.baselines),
        "overhead": found.result.overhead,
        "peak_bytes": found.result.peak_bytes,
        "seconds": found.seconds,
    }


def ratios(network: PaperNetwork, options: SolveOptions) -> Row:
    """Return each strategy's cost over the least known, across the budgets."""
    graph = network.graph()
    costs = strategy_costs(graph, _budgets(graph, options), options)
    least = [
        min((cost for cost in column if cost is not None), default=None)
        for column in zip(*costs.values(), strict=True)
    ]
    return {
        "model": network.name,
        "geometric_means": {name: ratio(column, least) for name, column in costs.items()},
    }


def _budgets(graph: Graph, options: SolveOptions) -> list[int]:
    plain = planning.keep_everything_peak(graph)
    least = planning.known_minimum(graph, options=replace(options, time_limit_s=1.0)).bytes
    return [least + math.floor(share * (plain - least)) for share in _FRACTIONS]


def strategy_costs(
    graph: Graph, budgets: Sequence[int], options: SolveOptions
) -> dict[str, list[float | None]]:
    """Return the cost at each budget by strategy; None where it has no schedule."""
    curve = trade_off(graph, [Budget(bytes_=each) for each in budgets], options=options, baselines=_BASELINES)
    found = {"checkmate": [None if row.point is None else row.point.cost for row in curve.rows]}
    found["lp-rounding"] = [
        planning.solve(graph, each, solver="lp-rounding", options=options).cost for each in budgets
    ]
    for baseline in curve.baselines:
        found[baseline.solver] = [
            min((point.cost for point in baseline.points if point.peak_bytes <= budget), default=None)
            for budget in budgets
        ]
    return found


def ratio(costs: Sequence[float | None], least: Sequence[float | None]) -> Mapping[str, Any]:
    """Return the geometric mean of costs over the least, and at how many budgets there is a schedule.

    A budget at which nothing fits does not count at all.
    """
    known = [cost / best for cost, best in zip(costs, least, strict=True) if cost is not None and best]
    mean = math.exp(math.fsum(map(math.log, known)) / len(known)) if known else None
    return {"mean": mean, "solved": len(known), "budgets": sum(best is not None for best in least)}


def main() -> None:
    """Measure one network after the other, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("batches", "ratios"))
    parser.add_argument("networks", nargs="*", default=[network.name for network in NETWORKS])
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each batch or curve")
    parser.add_argument("-o", "--output", type=Path, required=True)
    chosen = parser.parse_args()
    options = SolveOptions(time_limit_s=chosen.time_limit)
    key, measure = {"batches": ("rows", largest_batch), "ratios": ("ratios", ratios)}[chosen.part]
    old = json.loads(chosen.output.read_text(encoding="utf-8"))[key] if chosen.output.exists() else []
    rows = {row["model"]: row for row in old}
    for name in chosen.networks:
        rows[name] = measure(find_network(name), options)
        print(rows[name], flush=True)
        facts = {"machine": this_machine(), "options": {"time_limit_s": chosen.time_limit}}
        facts |= {key: list(rows.values()), "published": [published(model) for model in rows]}
        write_json(chosen.output, facts)


if __name__ == "__main__":
    main()
