"""Say what a certificate proves, and how near a schedule is to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate.errors import UsageError
from checkmate.ir.graph import Graph
from checkmate.ir.report import CheckReport
from checkmate.units import format_bytes, format_overhead

_OPTIMAL = 1e-6  # a share of the cost that rounding may take


@dataclass(frozen=True)
class Proved:
    """Hold what is proved for a budget, and the cost of a schedule.

    ``cost``: no schedule within ``budget_bytes`` costs less; None: none fits. ``schedule_cost``: infinite
    where there is no schedule.
    """

    budget_bytes: int
    cost: float | None
    schedule_cost: float = math.inf

    @property
    def gap(self) -> float | None:
        """Return the share of the schedule's cost that may be saved at most."""
        if self.cost is None or not math.isfinite(self.schedule_cost):
            return None
        return max(0.0, 1 - self.cost / self.schedule_cost) if self.schedule_cost else 0.0

    def facts(self) -> dict[str, Any]:
        """Return it as ``--json`` prints it."""
        return {
            "claim": "infeasible" if self.cost is None else "cost",
            "budget_bytes": self.budget_bytes,
            "cost": self.cost,
            "schedule_cost": self.schedule_cost if math.isfinite(self.schedule_cost) else None,
            "gap": self.gap,
        }

    def text(self, graph: Graph) -> str:
        budget = format_bytes(self.budget_bytes)
        if self.cost is None:
            return f"proved: no schedule of {graph.name} fits {budget}"
        least = f"{self.cost:.6g} ({format_overhead(self.cost, graph.base_cost)})"
        said = f"proved: no schedule of {graph.name} within {budget} costs less than {least}"
        if self.gap is None:
            return said
        near = "it is optimal" if self.gap <= _OPTIMAL else f"at most {100 * self.gap:.3g} % above the least"
        over = format_overhead(self.schedule_cost, graph.base_cost)
        return f"{said}\n  the schedule costs {self.schedule_cost:.6g} ({over}): {near}"


def proved_by(graph: Graph, path: Path, schedule: CheckReport | None = None) -> Proved:
    """Return what the certificate in ``path`` proves; it is checked.

    Raises:
        FormatError, ScheduleError: it is no certificate for this graph. VerificationError: it does not hold.
        UsageError: the schedule needs more memory than the certificate speaks of.
    """
    from checkmate.formats.schedule import read_certificate
    from checkmate.planning import check_certificate

    content = read_certificate(path, graph)
    budget = int(content["budget_bytes"])
    cost = check_certificate(graph, content)
    if schedule is None:
        return Proved(budget, cost)
    if schedule.peak_bytes > budget:
        raise UsageError(
            f"the certificate is for {format_bytes(budget)}, and the schedule needs "
            f"{format_bytes(schedule.peak_bytes)}",
            hint="make a certificate for the schedule: checkmate certify G.json S.json -o C.json",
        )
    return Proved(budget, cost, schedule.cost)
