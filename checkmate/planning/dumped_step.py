"""What a schedule could make of a step that XLA dumped, and the lines of code that would do it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate.formats import read_any_graph
from checkmate.hlo.read import is_dump
from checkmate.ir import Graph, Phase, Schedule
from checkmate.memory.simulate import simulate
from checkmate.planning.solving import least_memory
from checkmate.progress import Cancelled, Report
from checkmate.solvers.problem import SolveOptions
from checkmate.units import format_overhead

MAX_OVERHEAD = 0.05
_SECONDS = 1.5
_MOST_OPS = 20_000  # of a graph that is solved at once
_WORTH = 0.97  # of the plain peak


@dataclass(frozen=True)
class DumpedStep:
    """``share``: of the plain peak, that the step could peak at for ``overhead`` more, a fraction; both are
    estimated. ``lines``: of Python.
    """

    share: float
    overhead: float
    lines: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return (
            f"Your step could peak at {100 * self.share:.0f} % of that for "
            f"{format_overhead(1 + self.overhead, 1)} cost. This is an estimate of what XLA will hold: "
            "it fuses and orders again what is compiled anew."
        )

    def to_json(self) -> dict[str, Any]:
        return {"peak_share": self.share, "overhead": self.overhead, "lines": list(self.lines)}


def dumped_step(path: Path, report: Report, cancelled: Cancelled) -> DumpedStep | None:
    """Return what a schedule could do for a dump; None for another file, where it would do nothing, or if it
    was cancelled.
    """
    if not is_dump(path, of_module=True):
        return None
    graph = read_any_graph(path)
    if graph.n > _MOST_OPS or not any(op.phase is Phase.BACKWARD for op in graph.ops):
        return None
    plain = simulate(graph, Schedule.plain(graph)).peak_bytes
    options = SolveOptions(time_limit_s=_SECONDS)
    found = least_memory(
        graph, max_overhead=MAX_OVERHEAD, options=options, report=report, cancelled=cancelled
    )
    share = found.peak_bytes / plain
    if share > _WORTH or cancelled():
        return None
    return DumpedStep(share, found.result.overhead or 0.0, _lines(graph, f"{100 * share:.0f}%"))


def _lines(graph: Graph, budget: str) -> tuple[str, ...]:
    told = graph.metadata["hlo"]
    if told["framework"] == "keras":
        return "import checkmate", f'checkmate.rematerialize(model, "{budget}")', "model.fit(x, y)"
    if told["framework"] == "tensorflow":
        return (
            "import checkmate",
            f'step = checkmate.rematerialize_function(step, "{budget}")',
            "loss = step(x, y)",
        )
    donated = ", donate_argnums=0" if told["donated"] else ""
    return (
        "import checkmate.jax",
        f'step = checkmate.jax.rematerialize(step, "{budget}"{donated})',
        "state, loss = step(state, batch)",
    )
