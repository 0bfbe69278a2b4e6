"""Make a certificate for a command, write it, and say what it proves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkmate.cli.shared.proved import Proved
from checkmate.ir.graph import Graph
from checkmate.progress import Cancelled, Report
from checkmate.units import format_overhead, plural

if TYPE_CHECKING:
    from checkmate.solvers.certificates import Certificate


@dataclass(frozen=True, eq=False)
class Certified:
    """Hold a certificate that was written to ``path``.

    ``known_cost``: of the schedule beside it; infinite where there is none.
    """

    graph: Graph
    certificate: Certificate
    known_cost: float
    path: Path

    def facts(self) -> dict[str, Any]:
        """Return it as ``--json`` prints it."""
        found = self.certificate
        return {
            **Proved(found.budget_bytes, found.cost, self.known_cost).facts(),
            "bound": found.bound if math.isfinite(found.bound) else None,
            "base_cost": self.graph.base_cost,
            "cases": found.cases,
        }

    def text(self) -> str:
        found = self.certificate
        lines = [Proved(found.budget_bytes, found.cost, self.known_cost).text(self.graph)]
        if found.cost is not None and found.bound > found.cost * (1 + 1e-7):
            more = format_overhead(found.bound, self.graph.base_cost)
            lines.append(f"  a solver proves {more}; with more time the certificate may prove it too")
        lines.append(f"wrote {self.path}: {plural(found.cases, 'case')}")
        return "\n".join(lines)


def certified(
    graph: Graph,
    budget: int,
    path: Path,
    *,
    known_cost: float,
    seconds: float,
    report: Report,
    cancelled: Cancelled,
) -> Certified | None:
    """Make a certificate and write it.

    None where there was not enough time for any.

    Raises:
        FormatError: the file cannot be written.
    """
    from checkmate import planning
    from checkmate.formats.schedule import write_certificate

    found = planning.certify(
        graph, budget, known_cost=known_cost, seconds=seconds, report=report, cancelled=cancelled
    )
    if found is None:
        return None
    write_certificate(path, found.data)
    return Certified(graph, found, known_cost, path)
