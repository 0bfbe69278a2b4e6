"""Bounds proved under constraints, in files and out of them; no Qt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.state.knowledge import WhatIf
from checkmate.formats.exploration import Bounds, BoundsUnder, SavedExploration
from checkmate.solvers.constraints import Constraints, run_once
from checkmate.solvers.known_frontier import Frontier


@dataclass(frozen=True, eq=False)
class ProvedUnder:
    """Hold bounds, and the constraints that they were proved under.

    ``once``, bool[n]: which ops may run only once under them.
    """

    constraints: Constraints
    once: NDArray[np.bool_]
    bounds: Bounds

    def tell(self, what_if: WhatIf) -> None:
        """Add the bounds where they hold: under the same or further constraints."""
        if not (self.once & ~what_if.constrained.once).any():
            for budget, bound in self.bounds:
                what_if.frontier.add_bound(budget, bound)


def read_proved(saved: SavedExploration) -> tuple[ProvedUnder, ...]:
    """Return what a file says was proved under constraints.

    Raises:
        FormatError, UnknownNameError: constraints cannot be read, or do not fit the graph.
    """
    found = []
    for under in saved.constrained_bounds:
        constraints = Constraints.from_json(under.constraints)
        found.append(ProvedUnder(constraints, run_once(saved.graph, constraints), under.bounds))
    return tuple(found)


def proved_to_save(
    plain: Frontier, what_ifs: Mapping[Constraints, WhatIf], before: Iterable[ProvedUnder]
) -> tuple[BoundsUnder, ...]:
    """Return the bounds that hold under constraints only.

    ``plain`` is the frontier without constraints; its bounds are saved by themselves. ``before``: what an
    earlier file said. A what-if under the same constraints knows that too.
    """
    known = {one.constraints: one.bounds for one in before}
    known |= {under: one.frontier.bounds for under, one in what_ifs.items()}
    found = []
    for constraints, bounds in known.items():
        more = tuple((budget, low) for budget, low in bounds if low > plain.bound(budget))
        if more:
            found.append(BoundsUnder(constraints.to_json(), more))
    return tuple(found)
