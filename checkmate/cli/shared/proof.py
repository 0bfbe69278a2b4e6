"""Say who vouches for what a solve claims."""

from __future__ import annotations

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.progress import Cancelled

_SAID = {
    "verified": "verified apart from the solver, with exact sums",
    "solver": "the solver's own; checkmate certify writes one that others can check",
}


def proof_of(graph: Graph, result: SolveResult, cancelled: Cancelled) -> str:
    """Return how a claim about every schedule is proved.

    ``verified``: by a certificate that was made and checked now. ``solver``: by the solver alone. Empty: the
    result claims nothing of every schedule.
    """
    from checkmate import pipeline

    if result.status not in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE) or result.assumptions:
        return ""
    return "verified" if pipeline.confirmed(graph, result, cancelled=cancelled) else "solver"


def proof_lines(proof: str) -> list[str]:
    """Return the line on a proof, if there is one."""
    return [f"  proof     {_SAID[proof]}"] if proof else []
