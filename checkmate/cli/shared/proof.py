"""Say who vouches for what a solve claims."""

from __future__ import annotations

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.progress import Cancelled

_TRUSTED = "the solver's own, which is trusted here"
_VERIFIED = "verified apart from the solver, with exact sums"


def proof_of(graph: Graph, result: SolveResult, cancelled: Cancelled, *, certifiable: bool) -> str:
    """Return how a claim about every schedule is proved.

    ``verified``: by a certificate that was made and checked now. ``solver``: by the solver alone, as any
    bound is that leaves a gap. Empty: the result claims nothing of every schedule. ``certifiable``: a
    certificate could say what was asked.
    """
    from checkmate import pipeline

    proved = result.status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE)
    if not proved and (result.status is not SolveStatus.FEASIBLE or result.gap is None):
        return ""
    tried = proved and certifiable and not result.assumptions
    return "verified" if tried and pipeline.confirmed(graph, result, cancelled=cancelled) else "solver"


def proof_lines(result: SolveResult, proof: str, *, certifiable: bool) -> list[str]:
    """Return the line on who proves a claim, if there is one."""
    if not proof:
        return []
    what = "bound" if result.status is SolveStatus.FEASIBLE else "proof"
    if proof == "verified":
        return [f"  {what}     {_VERIFIED}"]
    more = "; checkmate certify writes one that others can check" if certifiable else ""
    return [f"  {what}     {_TRUSTED}{more}"]
