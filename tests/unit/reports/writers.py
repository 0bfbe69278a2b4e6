"""Write small results of every kind, as the commands write them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.cli.commands import max_batch_text
from checkmate.formats import write_graph, write_report, write_schedule
from checkmate.formats.exploration import SavedExploration, write_exploration
from checkmate.formats.files import write_json
from checkmate.frontiers.summary import TradeOff
from checkmate.frontiers.sweep import trade_off
from checkmate.frontiers.table import facts
from checkmate.ir import Graph, VerificationReport
from checkmate.largest.batch import max_batch
from checkmate.largest.measured import MeasuredSize
from checkmate.largest.scaling import BatchScaling
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget
from tests.graphs_strategies import training_chain


@dataclass(frozen=True)
class Written:
    """The folder of the results, and what their writers returned."""

    folder: Path
    told: dict[str, Any]


BRIEF = SolveOptions(time_limit_s=10.0)  # all is proved long before


def graph(name: str = "chain") -> Graph:
    return replace(training_chain(5), name=name)


def curve(name: str = "chain") -> TradeOff:
    budgets = [Budget(bytes_=1), Budget(share=0.75), Budget(share=1.0)]
    return trade_off(graph(name), budgets, options=BRIEF, baselines=["chen-sqrt", "griewank"])


def write_curve(path: Path, name: str = "chain") -> TradeOff:
    found = curve(name)
    write_json(path, facts(found, steps=True))
    return found


def write_curves(path: Path) -> None:
    curves = [json.loads(json.dumps(facts(curve(name)))) for name in ("first", "second")]
    write_json(path, {"format": "checkmate-frontiers", "version": 1, "curves": curves})


def write_batch(path: Path) -> dict[str, Any]:
    one = replace(graph(), batch_size=1)
    found = max_batch(BatchScaling(one), 3 * planning.keep_everything_peak(one), options=BRIEF)
    told = max_batch_text.facts(found, MeasuredSize(note="a graph has no step to run"))
    write_json(path, told)
    return told


def write_scheduled(
    folder: Path, name: str = "chain", schedule: str = "schedule.json", g: str = "graph.json"
) -> None:
    asked = graph(name)
    result = planning.solve(asked, int(0.75 * planning.keep_everything_peak(asked)), options=BRIEF)
    write_graph(folder / g, asked)
    write_schedule(folder / schedule, asked, result)


def report(name: str = "chain") -> VerificationReport:
    return VerificationReport(
        model=name,
        device="a processor",
        batch_size=8,
        budget_bytes=2**20,
        gradients={
            "equal": True,
            "bitwise": True,
            "overall_relative_error": 2e-7,
            "worst": {"name": "conv1/kernel", "relative_error": 1e-6},
            "worst_of_largest": {"name": "conv1/kernel", "error": 2e-7},
        },
        loss={"plain": 0.5, "optimized": 0.5},
        peak_bytes={
            "predicted": 900000,
            "measured": 950000,
            "plain_measured": 1900000,
            "reloaded_measured": 960000,
        },
        seconds={"predicted": 0.1, "measured": 0.11, "plain_measured": 0.1},
        recomputations=3,
        steps=20,
        notes=("a note",),
    )


def write_run(folder: Path, name: str = "chain") -> None:
    write_scheduled(folder, name)
    (folder / "train_example.py").write_text("print()")
    write_report(folder / "report.json", report(name))


def write_jax_export(path: Path) -> dict[str, Any]:
    """Write what ``checkmate.jax.export`` does, for which JAX is needed."""

    def held(temporary: int) -> dict[str, int]:
        fixed = {"arguments": 4096, "results": 2048, "shared": 2048}
        return {**fixed, "temporary": temporary, "whole": 4096 + temporary}

    told = {
        "format": "checkmate-jax-export",
        "version": 1,
        "step": "chain",
        "file": "step.jax-export",
        "platform": "cpu",
        "call": "tree",
        "donate_argnums": [0],
        "budget_bytes": 20480,
        "plain_bytes": held(32768),
        "reached_bytes": held(16384),
        "reloaded_bytes": held(18432),
        "predicted_overhead": 0.125,
        "recomputations": 3,
        "ops": 20,
        "status": "feasible",
        "gap": 0.01,
        "ok": False,
        "problems": ["the reloaded step takes 22.0 KiB, which is over the budget of 20.0 KiB"],
        "arguments": [{"path": "[0]", "shape": [32, 32], "dtype": "float32", "donated": True}],
        "results": [{"path": "[0]", "shape": [32, 32], "dtype": "float32"}],
        "versions": {"jax": "0.10.2"},
    }
    write_json(path, told)
    return told


def write_explored(path: Path) -> None:
    asked = graph()
    results = [
        planning.solve(asked, int(share * planning.keep_everything_peak(asked)), options=BRIEF)
        for share in (0.75, 1)
    ]
    write_exploration(
        path,
        SavedExploration(
            asked, results[0].budget_bytes, tuple(results), ((5, float("inf")), (40, asked.base_cost))
        ),
    )


WRITERS: dict[str, Any] = {
    "curve.json": write_curve,
    "curves.json": write_curves,
    "batch.json": write_batch,
    "jax_export.json": write_jax_export,
    "explored.json.gz": write_explored,
}
