"""Measure how fast steps of many equal blocks are solved, and how well.

``python -m tests.benchmarks.blocks -o docs/results/solvers/blocks.json`` solves steps of up to 100,000 ops
(``checkmate.graphs.blocks``) by ``auto`` and by greedy, for the table of docs/pages/benchmarks/blocks.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkmate.bench.common.machine import this_machine
from checkmate.graphs.blocks import training_blocks
from checkmate.ir.graph import Graph
from checkmate.machine.libraries import versions
from checkmate.pipeline import keep_everything_peak, solve
from checkmate.solvers.listeners import SilentListener
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.sequence.local_search import warm_up

_SHARES = (0.7, 0.45, 0.25)
_CASES = ((57, 10.0, _SHARES), (230, 15.0, _SHARES), (1140, 60.0, (0.45,)))  # blocks, seconds


class _Clock(SilentListener):
    """Note when the first schedule came, and when the gap was a percent."""

    def __init__(self, base: float) -> None:
        self._begun, self._bound, self._cost = time.perf_counter(), base, float("inf")
        self.first: tuple[float, float] | None = None  # seconds, cost
        self.near: float | None = None

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        self._cost = min(self._cost, cost)
        self.first = self.first or (self._seconds(), cost)
        self._look()

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        self._bound = max(self._bound, lower_bound)
        self._look()

    def _seconds(self) -> float:
        return time.perf_counter() - self._begun

    def _look(self) -> None:
        if self.near is None and self._cost - self._bound <= 0.01 * self._cost:
            self.near = self._seconds()


def row(graph: Graph, blocks: int, share: float, solver: str, seconds: float) -> dict[str, Any]:
    """Solve the step for a share of its memory, and say what came of it."""
    clock = _Clock(graph.base_cost)
    budget = int(share * keep_everything_peak(graph))
    result = solve(graph, budget, solver=solver, options=SolveOptions(time_limit_s=seconds), listener=clock)
    base = graph.base_cost
    return {
        "blocks": blocks,
        "ops": graph.n,
        "share": share,
        "solver": solver,
        "time_limit_s": seconds,
        "first_s": None if clock.first is None else clock.first[0],
        "first_overhead": None if clock.first is None else clock.first[1] / base - 1,
        "within_a_percent_s": clock.near,
        "overhead": result.overhead,
        "bound_overhead": None if result.lower_bound is None else result.lower_bound / base - 1,
        "gap": result.gap,
    }


def main() -> None:
    """Measure, and write after each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    output = parser.parse_args().output
    warm_up()
    facts: dict[str, Any] = {
        "format": "checkmate-blocks",
        "version": 1,
        "machine": this_machine().to_json(),
        "made_with": versions(("numpy", "numba", "highspy")),
        "rows": [],
    }
    for blocks, seconds, shares in _CASES:
        graph = training_blocks(blocks)
        for share in shares:
            for solver in ("auto", "greedy"):
                facts["rows"].append(row(graph, blocks, share, solver, seconds))
                print(facts["rows"][-1], flush=True)
                output.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
