"""What a file keeps of an exploration: own schedules, all schedules, bounds under constraints; no Qt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.state.knowledge import ListedSchedule, WhatIf, is_baseline, steps_key
from app.state.solve import Aim, SliderTarget
from checkmate.formats.exploration import Bounds, BoundsUnder, SavedExploration, SavedOwn
from checkmate.ir import SolveResult
from checkmate.solvers.constraints import Constraints, constrained, run_once
from checkmate.solvers.known_frontier import Frontier


@dataclass(frozen=True)
class OwnSchedule:
    """A schedule of the user's list. ``asked``: the request that it answers; None if it was picked from a
    list.
    """

    found: ListedSchedule
    asked: SliderTarget | None = None
    name: str = ""
    note: str = ""
    pinned: bool = False

    @property
    def touched(self) -> bool:
        return bool(self.pinned or self.name or self.note)

    def answers(self, asked: SliderTarget, constraints: Constraints) -> bool:
        return self.asked == asked and self.found.constrained.constraints == constraints

    def saved(self) -> SavedOwn:
        asked, constraints = self.asked, self.found.constrained.constraints
        return SavedOwn(
            budget_bytes=None if asked is None or asked.aim is not None else asked.budget_bytes,
            max_overhead=None if asked is None or asked.aim is None else asked.aim.max_overhead,
            name=self.name,
            note=self.note,
            pinned=self.pinned,
            constraints=None if constraints.is_empty else constraints.to_json(),
        )


def restored(found: ListedSchedule, saved: SavedOwn) -> OwnSchedule:
    asked = None if saved.budget_bytes is None else SliderTarget(saved.budget_bytes)
    if saved.max_overhead is not None:
        asked = SliderTarget(aim=Aim(saved.max_overhead))
    return OwnSchedule(found, asked, saved.name, saved.note, saved.pinned)


def insert_saved(saved: SavedExploration, what_if: WhatIf) -> None:
    for result in saved.schedules:
        insert_result(result, what_if)
        baseline = listed(result, what_if) if is_baseline(result.solver) else None
        if baseline is not None:
            what_if.add_baseline(baseline)


def facts_of(result: SolveResult) -> dict[str, Any]:
    """Keyword arguments for adding the schedule to a frontier."""
    return {"budget_bytes": result.budget_bytes, "solver": result.solver, "seconds": result.solve_seconds}


def insert_result(result: SolveResult, what_if: WhatIf) -> None:
    what_if.insert(result.require_schedule().steps.tolist(), **facts_of(result))


def listed(result: SolveResult, what_if: WhatIf) -> ListedSchedule | None:
    """None: it does not hold."""
    return what_if.listed(result.require_schedule().steps.tolist(), **facts_of(result))


Waiting = Mapping[Constraints, tuple[SolveResult, ...]]


def read_waiting(saved: SavedExploration) -> Waiting:
    """A file's schedules of the frontiers of constraints, until somebody asks for these."""
    found: dict[Constraints, tuple[SolveResult, ...]] = {}
    for place, sets in saved.under.items():
        for constraints in map(Constraints.from_json, sets):
            found[constraints] = (*found.get(constraints, ()), saved.schedules[place])
    for constraints in found:
        constrained(saved.graph, constraints)
    return found


# The distinct schedules, then by index: the entry of the user's list, the constraints whose frontier has the
# schedule, and the budget that its measured peak exceeded in an export.
ToSave = tuple[
    tuple[SolveResult, ...], dict[int, SavedOwn], dict[int, tuple[Mapping[str, Any], ...]], dict[int, int]
]


def schedules_to_save(
    plain: WhatIf, what_ifs: Iterable[WhatIf], own: Iterable[OwnSchedule], waiting: Waiting
) -> ToSave:
    """``plain`` has no constraints. ``waiting``: schedules read from the opened file, under constraints that
    were not used since."""
    entries = tuple(own)
    others = [one for one in what_ifs if one.frontier is not plain.frontier]
    known = [found for one in (plain, *others) for found in (*one.known, *one.baselines)]
    listed = {one.key: one for one in known} | {entry.found.key: entry.found for entry in entries}
    results = {key: one.result() for key, one in listed.items()}
    under: dict[bytes, list[Mapping[str, Any]]] = {}
    for what_if in others:
        for one in what_if.known:
            under.setdefault(one.key, []).append(what_if.constraints.to_json())
    for constraints, found in waiting.items():
        for result in found:
            key = steps_key(result.require_schedule().steps.tolist())
            results.setdefault(key, result)
            under.setdefault(key, []).append(constraints.to_json())
    places = {key: place for place, key in enumerate(results)}
    return (
        tuple(results.values()),
        {places[entry.found.key]: entry.saved() for entry in entries},
        {places[key]: tuple(sets) for key, sets in under.items()},
        {places[key]: budget for key, budget in plain.missed.items() if key in places},
    )


def read_missed(saved: SavedExploration) -> dict[bytes, int]:
    """As ``WhatIf.missed``."""
    return {
        steps_key(saved.schedules[place].require_schedule().steps): budget
        for place, budget in saved.missed.items()
    }


@dataclass(frozen=True, eq=False)
class ProvedUnder:
    """Bounds, and the constraints they were proved under. ``once``, bool[n]: the ops that then run once."""

    constraints: Constraints
    once: NDArray[np.bool_]
    bounds: Bounds

    def tell(self, what_if: WhatIf) -> None:
        """Add the bounds where they hold: under the same or further constraints."""
        if not (self.once & ~what_if.constrained.once).any():
            for budget, bound in self.bounds:
                what_if.frontier.add_bound(budget, bound)


def read_proved(saved: SavedExploration) -> tuple[ProvedUnder, ...]:
    found = []
    for under in saved.constrained_bounds:
        constraints = Constraints.from_json(under.constraints)
        found.append(ProvedUnder(constraints, run_once(saved.graph, constraints), under.bounds))
    return tuple(found)


def proved_to_save(
    plain: Frontier, what_ifs: Mapping[Constraints, WhatIf], before: Iterable[ProvedUnder]
) -> tuple[BoundsUnder, ...]:
    """The bounds that are better than those proved without constraints. ``before``: read from a file."""
    known = {one.constraints: one.bounds for one in before}
    known |= {under: one.frontier.bounds for under, one in what_ifs.items()}
    found = []
    for constraints, bounds in known.items():
        more = tuple((budget, low) for budget, low in bounds if low > plain.bound(budget))
        if more:
            found.append(BoundsUnder(constraints.to_json(), more))
    return tuple(found)
