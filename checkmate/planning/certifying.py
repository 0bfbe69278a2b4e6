"""Make a certificate of a bound, and check one that was given."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from checkmate.arguments import BudgetLike, GraphLike, graph_of
from checkmate.certificate.verify import InvalidCertificateError, verify
from checkmate.errors import VerificationError
from checkmate.formats.graph import graph_to_json
from checkmate.formats.schedule import read_certificate
from checkmate.ir import Graph, SolveResult, SolveStatus
from checkmate.planning.solving import resolve_budget
from checkmate.progress import Cancelled, Report, never
from checkmate.solvers.certificates import Certificate, certificate_of
from checkmate.solvers.tolerances import PROVED
from checkmate.terminal import progress_line

_SECONDS = 60.0
_CONFIRM_S, _CONFIRM_OPS = 1.0, 300  # programs of more ops alone take longer


def certify(
    graph: GraphLike,
    budget: BudgetLike,
    *,
    known_cost: float = math.inf,
    seconds: float = _SECONDS,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
) -> Certificate | None:
    """Return the best certificate for a budget that there is time for.

    It works like the command ``checkmate certify``. It proves that no schedule within ``budget`` costs less
    than its cost, or that none fits. None: there was not enough time for any. ``known_cost``: of a schedule
    within the budget. Other arguments are as for ``solve``.

    Raises:
        UsageError: the budget cannot be read. FormatError: the graph's file is missing or broken.
    """
    graph = graph_of(graph)
    with progress_line(quiet=quiet, report=report) as told:
        return certificate_of(
            graph,
            _content(graph),
            resolve_budget(graph, budget),
            known_cost=known_cost,
            seconds=seconds,
            report=told,
            cancelled=cancelled,
        )


def confirmed(graph: Graph, result: SolveResult, *, cancelled: Cancelled = never) -> bool:
    """Return whether a verified certificate proves what a result claims: optimal, or infeasible."""
    claims = result.status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE) and not result.assumptions
    cost = math.inf if result.cost is None else result.cost
    if claims and cost <= graph.base_cost:
        return True  # every op runs at least once
    if not claims or graph.n > _CONFIRM_OPS:
        return False  # which says nothing about the claim
    made = certify(
        graph, result.budget_bytes, known_cost=cost, seconds=_CONFIRM_S, quiet=True, cancelled=cancelled
    )
    if made is None:
        return False
    return made.cost is None if result.cost is None else (made.cost or 0.0) >= cost * PROVED


def check_certificate(graph: GraphLike, certificate: dict[str, Any] | str | Path) -> float | None:
    """Return the cost that a certificate proves to be the least possible.

    It works like the command ``checkmate check --certificate``. ``certificate`` is a file or its content.
    None: it proves that no schedule fits its budget. ``graph`` is as for ``solve``.

    Raises:
        VerificationError: it does not prove what it claims. FormatError, ScheduleError: the file is no
        certificate for this graph.
    """
    graph = graph_of(graph)
    if isinstance(certificate, str | Path):
        certificate = read_certificate(Path(certificate), graph)
    try:
        found = verify(_content(graph), certificate)
    except InvalidCertificateError as error:
        raise VerificationError(
            f"the certificate does not hold: {error}", hint="make one with checkmate certify"
        ) from error
    return None if found is None else float(found)


def _content(graph: Graph) -> dict[str, Any]:
    return dict(json.loads(json.dumps(graph_to_json(graph))))
