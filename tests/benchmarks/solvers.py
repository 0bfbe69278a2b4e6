"""Measure how near to the best ``auto`` comes, and how soon.

``python -m tests.benchmarks solvers -o corners.json`` solves steps whose budgets are hard: those of
``tests.benchmarks.eager_steps``, layered graphs and a step of equal blocks. ``--published FOLDER`` adds
layered graphs that were published with MOCCASIN, read from their files. ``--paper`` solves networks of the
Checkmate paper instead. ``--only WORD`` measures again the rows whose name has that word, and keeps the
others.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from checkmate.catalog.cards import cards_called
from checkmate.formats import read_any_graph
from checkmate.graphs.paper import find_network
from checkmate.ir import Graph
from checkmate.machine.supported import versions
from checkmate.memory.check import check
from checkmate.planning import keep_everything_peak, known_minimum, solve
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.problem import Listener, SolveOptions
from tests.benchmarks.eager_steps import eager_densenet, eager_unet, mobilenet_on, resnet152
from tests.benchmarks.measured_on import this_machine
from tests.generated_blocks import training_blocks
from tests.generated_graphs import random_layered


@dataclass(frozen=True)
class _Case:
    """A graph and its budget.

    ``share``: of the memory that keeping everything takes; if ``above_least``, of what that takes beyond what
    a single op needs, or beyond the least that is ``known`` to be enough.
    """

    name: str
    make: Callable[[], Graph]
    share: float
    above_least: bool = False
    known: bool = False

    def budget(self, graph: Graph) -> int:
        """Return the budget in bytes."""
        most = keep_everything_peak(graph)
        if not self.above_least:
            return int(self.share * most)
        least = (known_minimum(graph) if self.known else working_set_bound(graph)).bytes
        return least + int(self.share * (most - least))


_CASES = (
    _Case("U-Net, eager", eager_unet, 0.25),
    _Case("layered 250", lambda: random_layered(1, 250), 0.7),
    _Case("layered 1,000", lambda: random_layered(1, 1000), 0.7),
    _Case("DenseNet121, eager", eager_densenet, 0.75),
    _Case("ResNet152", resnet152, 0.05, above_least=True),
    _Case(
        "MobileNet, seconds of an A100",
        lambda: mobilenet_on(cards_called(["A100 40 GB"])[0]),
        0.0,
        above_least=True,
    ),
    _Case("57 equal blocks", lambda: training_blocks(57), 0.45),
)

_PAPER = tuple(
    _Case(name, find_network(name).graph, share, above_least=True, known=True)
    for name in ("vgg16", "unet", "mobilenet")
    for share in (0.1, 0.05)
)


def _published(folder: Path) -> Iterator[_Case]:
    """Yield the layered graphs of ``folder``."""
    for path in sorted(folder.glob("random_layered_n*.json")):
        ops = int(path.name.split("_")[2].removeprefix("n"))
        yield _Case(f"layered {ops:,}, published", partial(read_any_graph, path), 0.7)


class _Clock(Listener):
    """Note when the first schedule came, and when the gap was a percent."""

    def __init__(self, base: float) -> None:
        self._begun, self._bound, self._cost = time.perf_counter(), base, float("inf")
        self.first: tuple[float, float] | None = None  # seconds, cost
        self.near: float | None = None
        self.best_s: float | None = None

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        if cost < self._cost:
            self._cost, self.best_s = cost, self._seconds()
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


def row(case: _Case, seconds: float, workers: int) -> dict[str, Any]:
    """Solve one case, and say what came of it; its schedule is checked again."""
    graph = case.make()
    budget, base = case.budget(graph), graph.base_cost
    clock = _Clock(base)
    began = time.perf_counter()
    options = SolveOptions(time_limit_s=seconds, workers=workers)
    result = solve(graph, budget, solver="auto", options=options, listener=clock)
    ended = time.perf_counter() - began
    if result.schedule is not None:
        report = check(graph, result.schedule.steps.tolist(), budget_bytes=budget)
        if not report.ok:
            raise SystemExit(f"{case.name}: {report}")
    return {
        "name": case.name,
        "ops": graph.n,
        "share": case.share,
        "above_least": case.above_least,
        "budget_bytes": budget,
        "time_limit_s": seconds,
        "first_s": None if clock.first is None else clock.first[0],
        "first_overhead": None if clock.first is None else clock.first[1] / base - 1,
        "within_a_percent_s": clock.near,
        "best_s": clock.best_s,
        "end_s": ended,
        "status": str(result.status),
        "overhead": result.overhead,
        "bound_overhead": None if result.lower_bound is None else result.lower_bound / base - 1,
        "gap": result.gap,
        "load": this_machine()["load"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--published", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--paper", action="store_true")
    given = parser.parse_args()
    cases = _PAPER if given.paper else [*_CASES, *(_published(given.published) if given.published else ())]
    old = json.loads(given.output.read_text())["rows"] if given.only and given.output.exists() else []
    rows = {(entry["name"], entry["share"]): entry for entry in old}
    load_kernels()
    facts: dict[str, Any] = {
        "format": "checkmate-corners",
        "version": 1,
        "machine": this_machine(),
        "made_with": versions(("numpy", "numba", "highspy")),
    }
    for case in cases:
        if given.only in case.name:
            rows[case.name, case.share] = row(case, given.seconds, given.workers)
            print(rows[case.name, case.share], flush=True)
            facts["rows"] = list(rows.values())
            given.output.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
