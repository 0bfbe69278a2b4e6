"""Verify a certificate here, whatever the process that wrote it says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from checkmate.certificate.verify import InvalidCertificateError, verify
from checkmate.errors import VerificationError
from checkmate.formats.graph import graph_to_json
from checkmate.formats.schedule import read_certificate
from checkmate.ir.graph import Graph


@dataclass(frozen=True)
class ProvedCost:
    """Hold what a certificate proves.

    ``cost``: no schedule within ``budget_bytes`` costs less; None: none fits. ``cases``: how many sums it
    has.
    """

    budget_bytes: int
    cost: float | None
    cases: int


def verified(path: Path, graph: Graph) -> ProvedCost:
    """Return what the certificate in ``path`` proves of ``graph``.

    Raises:
        FormatError, ScheduleError: as for ``read_certificate``. VerificationError: it proves nothing.
    """
    data = read_certificate(path, graph)
    try:
        cost = verify(json.loads(json.dumps(graph_to_json(graph))), data)
    except InvalidCertificateError as error:
        raise VerificationError(
            f"the certificate that was written does not hold: {error}", hint="please report the graph"
        ) from error
    cases = sum("sum" in part for part in data["proof"])
    return ProvedCost(int(data["budget_bytes"]), None if cost is None else float(cost), cases)
