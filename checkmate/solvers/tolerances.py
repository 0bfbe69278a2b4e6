"""How far two numbers may differ and still count as equal, for several solvers alike."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

# A share of a cost. Float sums of the same costs in another order may differ by this.
ROUNDING = 1e-9

# A lower bound of this share of the cost proves optimality; the rest is float rounding.
PROVED = 1 - ROUNDING

# The same for a bound by a solver library, whose own tolerance on a proof is larger.
PROVED_BY_LIBRARY = 1 - 1e-6

# A bound above a known cost by this share, or by this cost, is no rounding: it is false.
FALSE = 1e-4

# A share of the mean op cost that counts as nothing.
NEGLIGIBLE = 1e-6

# The least cost to divide by, so that nothing is divided by zero.
LEAST_COST = 1e-300

# HiGHS: larger figures are its infinities, a solve ends at this absolute gap, and a smaller rise is no better
# bound.
HIGHS_INFINITY = 1e30
HIGHS_GAP = 1e-7
HIGHS_RISE = 1e-9

_LARGEST_WHOLE = 2**50  # sums of whole costs below this are exact
_WHOLE = 1e-6  # a bound may be too high by this, in costs and as a share of its own tolerance


def round_up_if_whole(costs: NDArray[np.float64], bound: float) -> float:
    """Every schedule's cost is a whole number if all costs are; then a bound is rounded up to one."""
    if float(costs.sum()) < _LARGEST_WHOLE and bool((costs == np.floor(costs)).all()):
        return math.ceil(bound - _WHOLE * max(1.0, _WHOLE * bound))
    return bound
