"""Repeat the Checkmate paper's evaluation.

It has costs at many budgets, approximation ratios, and largest batches. A run is a list of tasks, one or more
per network. Each task's outcome is one row of plain JSON data, saved as soon as it is there, so a run can be
resumed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.bench.common import rows as saved
from checkmate.bench.common.convergence import Recorder
from checkmate.bench.common.rows import Row
from checkmate.bench.paper.published import BUDGET_BYTES
from checkmate.errors import CancelledError, SolveError, UsageError
from checkmate.frontiers.summary import TradeOff
from checkmate.frontiers.sweep import trade_off
from checkmate.frontiers.table import facts as curve_facts
from checkmate.graphs.paper import NETWORKS, PaperNetwork
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.largest.batch import MaxBatch, max_batch
from checkmate.largest.scaling import BatchScaling
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.solvers.once_bound import run_once_bound
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget, parse_budget

FORMAT = "checkmate-paper"
PARTS = ("curves", "ratios", "batches")
FRACTIONS = (0.05, 0.1, 0.25, 0.5, 0.75)
BASELINES = ("chen-sqrt-ap", "chen-sqrt-linear", "chen-greedy-ap", "chen-greedy-linear", "griewank")
MODELS = tuple(network.name for network in NETWORKS)


@dataclass(frozen=True)
class PaperPlan:
    """Say what to measure.

    ``budgets``: shares, sizes or ``min``. ``fractions``: budgets so far from the least known peak (0) to
    keep-everything (1). ``options.time_limit_s``: for each network's curve, for each of its roundings, and
    for its largest batch.
    """

    networks: tuple[PaperNetwork, ...]
    parts: tuple[str, ...] = PARTS
    budgets: tuple[str, ...] = ()
    fractions: tuple[float, ...] = FRACTIONS
    options: SolveOptions = field(default_factory=SolveOptions)
    device_bytes: int = BUDGET_BYTES

    def tasks(self) -> Iterator[tuple[str, PaperNetwork]]:
        """Yield (kind of row, network) in the order of work.

        What is quick to know about every network comes first.
        """
        for network in self.networks:
            if "batches" in self.parts:
                yield "batch", network
        for network in self.networks:
            if {"curves", "ratios"} & set(self.parts):
                yield "curve", network
            if "ratios" in self.parts:
                yield "rounding", network

    def asked(self, kind: str) -> dict[str, Any]:
        """Return what a row of ``kind`` depends on, as JSON has it.

        A row of an earlier run is used only where this is equal.
        """
        options = self.options
        question = {"time_limit_s": options.time_limit_s, "seed": options.seed, "workers": options.workers}
        if kind == "batch":
            return question | {"device_bytes": self.device_bytes}
        return question | {"budgets": list(self.budgets), "fractions": list(self.fractions)}


@dataclass(frozen=True)
class PaperRows:
    """Hold the rows of this run.

    ``cancelled``: some rows are missing, or hold what was known when the run was stopped.
    """

    rows: list[Row]
    cancelled: bool


def run(
    plan: PaperPlan,
    *,
    done: Sequence[Row] = (),
    save: Callable[[list[Row]], None] = lambda rows: None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> PaperRows:
    """Run each task; return a row for each.

    ``save`` is called with all rows so far after each. Rows of ``done`` that answer a task are taken as they
    are. Cancelling (also Ctrl-C) ends the run with the rows that are there; a row that was cut short says
    ``cancelled``.
    """
    known, others = split_known(plan, done)
    rows: list[Row] = []
    tasks = list(plan.tasks())
    for number, (kind, network) in enumerate(tasks):
        if (kind, network.name) in known:
            rows.append(known[kind, network.name])
            continue
        report(Progress("paper", number, len(tasks), f"{network.title}: {kind}"))
        try:
            stop_if(cancelled)
            row = _MEASURE[kind](plan, network, rows, report, cancelled)
        except (KeyboardInterrupt, CancelledError):
            return PaperRows(rows, True)
        rows.append({"kind": kind, "model": network.name, "asked": plan.asked(kind), **row})
        later = [row for key, row in known.items() if row not in rows]
        save([*rows, *later, *others])
        if row.get("cancelled"):
            return PaperRows(rows, True)
    return PaperRows(rows, False)


def split_known(plan: PaperPlan, done: Sequence[Row]) -> tuple[dict[tuple[str, str], Row], list[Row]]:
    """Split ``done`` into rows that answer a task and other rows.

    The first are by kind and model. The others leave out those that were cut short.
    """
    others = [row for row in done if not row.get("cancelled")]
    known: dict[tuple[str, str], Row] = {}
    for kind, network in plan.tasks():
        key = (kind, network.name, plan.asked(kind))
        row = next((row for row in others if (row["kind"], row["model"], row["asked"]) == key), None)
        if row is not None:
            others.remove(row)
            known[kind, network.name] = row
    return known, others


def _curve(
    plan: PaperPlan, network: PaperNetwork, rows: list[Row], report: Report, cancelled: Cancelled
) -> Row:
    return curve_of(plan, network, report, cancelled)[1]


def curve_of(
    plan: PaperPlan, network: PaperNetwork, report: Report, cancelled: Cancelled
) -> tuple[TradeOff, Row]:
    """Return a network's curve and its row.

    It has the cost at each budget, with bounds and the known strategies' schedules.
    """
    graph = network.graph()
    budgets = _budgets(plan, graph, cancelled)
    found: TradeOff = trade_off(
        graph, budgets, options=plan.options, baselines=BASELINES, report=report, cancelled=cancelled
    )
    told = curve_facts(found)
    told.pop("bounds")  # thousands of corners; every budget's row has its own bound
    return found, {
        "batch_size": graph.batch_size, "ops": graph.n, "fixed_bytes": graph.fixed_bytes,
        "seconds": found.seconds, "cancelled": found.cancelled, "curve": told,
    }  # fmt: skip


def _budgets(plan: PaperPlan, graph: Graph, cancelled: Cancelled) -> list[Budget]:
    budgets = [parse_budget(text) for text in plan.budgets]
    if plan.fractions:
        plain = planning.keep_everything_peak(graph)
        probe = replace(plan.options, time_limit_s=min(1.0, plan.options.time_limit_s))
        least = planning.known_minimum(graph, options=probe, listener=Recorder(cancelled=cancelled)).bytes
        stop_if(cancelled)
        budgets += [Budget(bytes_=least + math.floor(f * (plain - least))) for f in plan.fractions]
    return budgets


def _rounding(
    plan: PaperPlan, network: PaperNetwork, rows: list[Row], report: Report, cancelled: Cancelled
) -> Row:
    """Return the paper's two-phase rounding at the curve's budgets."""
    graph = network.graph()
    curve = next(row["curve"] for row in rows if (row["kind"], row["model"]) == ("curve", network.name))
    budgets = [row["budget_bytes"] for row in curve["budgets"]]
    begun, found = time.perf_counter(), list[SolveResult]()
    for place, budget in enumerate(budgets):
        stop_if(cancelled)
        report(Progress("paper", place, len(budgets), f"{network.title}: rounding"))
        result = planning.solve(
            graph, budget, solver="lp-rounding", options=plan.options, listener=Recorder(cancelled=cancelled)
        )
        stop_if(cancelled)
        found.append(result)
    return rounding_row(found, time.perf_counter() - begun)


def rounding_row(results: Sequence[SolveResult], seconds: float) -> Row:
    """Return what two-phase rounding found at each budget."""
    told = [
        {
            "budget_bytes": result.budget_bytes, "status": result.status.value, "cost": result.cost,
            "peak_bytes": result.peak_bytes, "seconds": result.solve_seconds, "message": result.message,
        }
        for result in results
    ]  # fmt: skip
    return {"rounding": told, "seconds": seconds}


def _batch(
    plan: PaperPlan, network: PaperNetwork, rows: list[Row], report: Report, cancelled: Cancelled
) -> Row:
    """Return the largest batch on the paper's device. At most one extra forward pass is allowed."""
    scaling = BatchScaling(network.graph())
    begun = time.perf_counter()
    try:
        found = max_batch(
            scaling, plan.device_bytes, options=plan.options, report=report, cancelled=cancelled
        )
    except SolveError as error:
        stop_if(cancelled)
        return {"batch": None, "message": str(error), "seconds": time.perf_counter() - begun}
    return batch_row(found, plan.device_bytes)


def batch_row(found: MaxBatch, budget: int) -> Row:
    """Return the largest batch, with the numbers to compare it with."""
    one = found.scaling.at(1)
    # A real number, as in the paper's program: the bytes left for examples, over the bytes per example of the
    # op that needs the most.
    need = (budget - one.fixed_bytes) / (run_once_bound(one).bytes - one.fixed_bytes)
    return {
        "batch": found.batch,
        "proved_limit": found.upper_batch,
        "op_limit": need,
        "plain_batch": found.plain_batch,
        "baselines": dict(found.baselines),
        "baselines_out_of_time": sorted(found.unfinished),
        "overhead": found.result.overhead,
        "cost_limit_overhead": found.cost_limit / found.result.base_cost - 1,
        "peak_bytes": found.result.peak_bytes,
        "fixed_bytes": one.fixed_bytes,
        "seconds": found.seconds,
        "cancelled": found.cancelled,
    }


_MEASURE: dict[str, Callable[[PaperPlan, PaperNetwork, list[Row], Report, Cancelled], Row]] = {
    "curve": _curve,
    "rounding": _rounding,
    "batch": _batch,
}


def read_rows(path: Path) -> list[Row]:
    """Return the rows of an earlier run; none where there is no file.

    Raises:
        FormatError: the file holds something else.
    """
    return saved.read_rows(path, FORMAT, "a run of bench paper", fields={"kind", "model", "asked"})


def parts_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the parts called ``names``; all parts if it is empty.

    Raises:
        UsageError: there is no such part.
    """
    for name in names:
        if name not in PARTS:
            raise UsageError(f"there is no part {name!r}", hint=f"choose from: {', '.join(PARTS)}")
    return tuple(dict.fromkeys(names)) or PARTS
