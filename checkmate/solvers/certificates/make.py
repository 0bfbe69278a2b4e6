"""Make a certificate of a graph and a budget, and check it."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from typing import Any

from checkmate.certificate.verify import InvalidCertificateError, verify
from checkmate.errors import SolverCrashedError
from checkmate.ir.graph import Graph
from checkmate.progress import Cancelled, Progress, Report
from checkmate.solvers.bounds import below_minimum, working_set_bound
from checkmate.solvers.certificates.proof import CaseProof, CaseProver
from checkmate.solvers.pathcut.prover import Prover
from checkmate.solvers.tolerances import PROVED

_LOOKING = 0.3  # the share of the time that is spent on finding cuts


@dataclass(frozen=True, eq=False)
class Certificate:
    """Hold a certificate that was checked.

    ``cost``: no schedule within ``budget_bytes`` costs less, in the graph's unit; None: no schedule fits.
    ``bound``: the best bound that was known without a certificate; infinite where none fits. ``cases``: how
    many sums it has. ``data``: the file's content.
    """

    budget_bytes: int
    cost: float | None
    bound: float
    cases: int
    data: dict[str, Any]


def certificate_of(
    graph: Graph,
    content: dict[str, Any],
    budget_bytes: int,
    *,
    known_cost: float = math.inf,
    seconds: float,
    report: Report,
    cancelled: Cancelled,
) -> Certificate | None:
    """Return the best certificate that there is time for; None: there is none.

    ``content``: the graph as in its file. ``known_cost``: of a schedule within the budget; nothing above it
    is tried.

    Raises:
        SolverCrashedError: what was made does not hold, which is a fault of this program.
    """
    started = time.perf_counter()
    if below_minimum(graph, budget_bytes) is not None:
        need = working_set_bound(graph)
        cuts = [] if need.at_end else [need.op]
        alone = CaseProver(content, budget_bytes, cuts, None, started + seconds, cancelled).prove()
        return None if alone is None else _checked(content, budget_bytes, cuts, alone, math.inf)
    # CP-SAT gets through programs of more cuts than can be proved case by case.
    prover = Prover(graph, budget_bytes, with_sat=False)
    report(Progress("certify", message="looking for the ops that decide the bound"))
    prover.run(
        until=started + _LOOKING * seconds,
        cancelled=cancelled,
        on_bound=lambda bound: None,
        on_steps=lambda steps: None,
        enough=lambda bound: bound >= known_cost * PROVED,
    )
    target = None if math.isinf(prover.bound) else min(prover.bound, known_cost)
    report(Progress("certify", message="proving the bound case by case"))
    cuts = list(prover.best_cuts)
    made = CaseProver(content, budget_bytes, cuts, target, started + seconds, cancelled).prove()
    return None if made is None else _checked(content, budget_bytes, cuts, made, prover.bound)


def _checked(
    content: dict[str, Any], budget_bytes: int, cuts: list[int], proof: CaseProof, bound: float
) -> Certificate:
    """Return the certificate as a reader of its file would find it."""
    data = {
        "graph": content.get("name", ""),
        "graph_fingerprint": content.get("fingerprint", ""),
        "budget_bytes": budget_bytes,
        "claim": "infeasible" if proof.cost is None else "cost",
        "cost": proof.cost,
        "cuts": cuts,
        "proof": proof.nodes,
    }
    data = json.loads(json.dumps(data))
    try:
        verify(content, data)
    except InvalidCertificateError as error:
        raise SolverCrashedError(f"the certificate that was made does not hold: {error}") from error
    return Certificate(budget_bytes, proof.cost, bound, proof.cases, data)
