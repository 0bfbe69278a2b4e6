"""Judge what the solver process claims by the schedules that were checked."""

from __future__ import annotations

import math

from app.state.knowledge import WhatIf
from app.state.solve import Aim
from checkmate.ir.result import SolveStatus
from checkmate.workers.messages.solver import SolveEnded

_ENOUGH = 0.999  # a bound below a cost by more than this does not prove it optimal


def is_false(ended: SolveEnded, budget_bytes: int, what_if: WhatIf) -> bool:
    """Return whether a solve's claims contradict a checked schedule. ``budget_bytes``: what was asked."""
    if ended.assumptions:
        return False
    infeasible = ended.status is SolveStatus.INFEASIBLE
    bound = math.inf if infeasible else ended.lower_bound or 0.0
    best = what_if.best_for(budget_bytes)
    unproved = ended.status is SolveStatus.OPTIMAL and (best is None or bound < best.cost * _ENOUGH)
    return unproved or what_if.contradicts(budget_bytes, bound)


def is_false_least(bound_bytes: int, what_if: WhatIf, aim: Aim, *, optimal: bool = False) -> bool:
    """Return whether a bound on the peak contradicts a checked schedule.

    ``optimal``: it is also said that none is smaller than the best one that was found.
    """
    best = what_if.least_within(aim.max_overhead)
    if best is None:
        return optimal
    return bound_bytes > best.peak_bytes or (optimal and bound_bytes < best.peak_bytes * _ENOUGH)
