"""What is known of an exported step."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jaxlib.version

from checkmate import __version__
from checkmate.backends.jax.memory import StepMemory
from checkmate.backends.jax.report import JaxReport
from checkmate.units import format_bytes, format_bytes_apart

STEP_FILE, REPORT_FILE = "step.jax-export", "export.json"


@dataclass(frozen=True, eq=False)
class JaxExport:
    """An exported step: its folder, and what XLA says of it.

    ``report``: of the schedule, as it was compiled before. ``reloaded``: what the step takes that was read
    from the file again and compiled with JAX's defaults; no step was run. ``donate_argnums``: what to donate,
    since a file cannot say it. ``leaves``: the step takes and returns flat arrays. ``platform``: what it was
    exported for. ``arguments`` and ``results``: path, shape and type of each array.
    """

    folder: Path
    name: str
    report: JaxReport
    reloaded: StepMemory
    donate_argnums: tuple[int, ...]
    leaves: bool
    platform: str
    arguments: tuple[dict[str, Any], ...]
    results: tuple[dict[str, Any], ...]

    @property
    def over_bytes(self) -> int:
        """Return by how much the reloaded step is over the budget."""
        return max(0, self.reloaded.whole - self.report.budget_bytes)

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what is not as promised, one sentence each."""
        if not self.over_bytes:
            return ()
        whole, budget = format_bytes_apart(self.reloaded.whole, self.report.budget_bytes)
        return (f"the reloaded step takes {whole}, which is over the budget of {budget}",)

    @property
    def sentence(self) -> str:
        whole, budget = format_bytes_apart(self.reloaded.whole, self.report.budget_bytes)
        over = f", over the budget of {budget} by {format_bytes(self.over_bytes)}" if self.over_bytes else ""
        within = over or f" of {budget}"
        return f"wrote {self.folder}: read again, the step takes {whole}{within} (compiled, not run)"

    def to_json(self) -> dict[str, Any]:
        """Return the file's content."""
        report = self.report
        return {
            "format": "checkmate-jax-export",
            "version": 1,
            "step": self.name,
            "file": STEP_FILE,
            "platform": self.platform,
            "call": "leaves" if self.leaves else "tree",
            "donate_argnums": list(self.donate_argnums),
            "budget_bytes": report.budget_bytes,
            "plain_bytes": _bytes(report.plain),
            "reached_bytes": _bytes(report.reached),
            "reloaded_bytes": _bytes(self.reloaded),
            "predicted_overhead": report.predicted_overhead,
            "recomputations": report.recomputations,
            "ops": report.ops,
            "status": None if report.status is None else report.status.value,
            "gap": report.gap,
            "ok": not self.problems,
            "problems": list(self.problems),
            "arguments": list(self.arguments),
            "results": list(self.results),
            "versions": versions(),
        }


def versions() -> dict[str, str]:
    """Return the versions that a step was exported with."""
    return {
        "checkmate": __version__,
        "jax": jax.__version__,
        "jaxlib": jaxlib.version.__version__,
        "python": platform.python_version(),
    }


def _bytes(memory: StepMemory) -> dict[str, int]:
    return {**asdict(memory), "whole": memory.whole}
