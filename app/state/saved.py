"""The schedules of a saved exploration, taken in and given out; no Qt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.state.knowledge import ListedSchedule, WhatIf, is_baseline, steps_key
from app.state.own_schedules import OwnSchedule
from checkmate.formats.exploration import SavedExploration, SavedOwn
from checkmate.ir.result import SolveResult
from checkmate.solvers.constraints import Constraints, constrained


def insert_saved(saved: SavedExploration, what_if: WhatIf) -> None:
    """Add the saved schedules that hold; leave out the others."""
    for result in saved.schedules:
        _insert(result, what_if)
        baseline = listed(result, what_if) if is_baseline(result.solver) else None
        if baseline is not None:
            what_if.add_baseline(baseline)


def _insert(result: SolveResult, what_if: WhatIf) -> None:
    what_if.insert(
        result.require_schedule().steps.tolist(),
        budget_bytes=result.budget_bytes,
        solver=result.solver,
        seconds=result.solve_seconds,
    )


def listed_own(result: SolveResult, what_if: WhatIf) -> ListedSchedule | None:
    """Return a schedule of the user's own list; None if it does not hold.

    It was made under the what-if's constraints, and is known there from now on.
    """
    _insert(result, what_if)
    return listed(result, what_if)


def listed(result: SolveResult, what_if: WhatIf) -> ListedSchedule | None:
    """Return a saved schedule as it is listed; None if it does not hold."""
    return what_if.listed(
        result.require_schedule().steps.tolist(),
        budget_bytes=result.budget_bytes,
        solver=result.solver,
        seconds=result.solve_seconds,
    )


Waiting = Mapping[Constraints, tuple[SolveResult, ...]]


def read_waiting(saved: SavedExploration) -> Waiting:
    """Return the schedules that a file has of the frontiers of constraints.

    They wait until somebody asks for these constraints.

    Raises:
        FormatError, UnknownNameError: constraints cannot be read, or do not fit the graph.
    """
    found: dict[Constraints, tuple[SolveResult, ...]] = {}
    for place, sets in saved.under.items():
        for constraints in map(Constraints.from_json, sets):
            found[constraints] = (*found.get(constraints, ()), saved.schedules[place])
    for constraints in found:
        constrained(saved.graph, constraints)
    return found


def insert_waiting(results: Iterable[SolveResult], what_if: WhatIf) -> None:
    """Add schedules of the what-if's frontier; leave out what does not hold."""
    for result in results:
        _insert(result, what_if)


@dataclass(frozen=True)
class ToSave:
    """Every schedule once; what else is said of them, by their places.

    ``own`` is the user's own list, ``under`` the constraints of whose frontier a schedule is.
    """

    results: tuple[SolveResult, ...]
    own: dict[int, SavedOwn]
    under: dict[int, tuple[Mapping[str, Any], ...]]


def schedules_to_save(
    plain: WhatIf, what_ifs: Iterable[WhatIf], own: Iterable[OwnSchedule], waiting: Waiting
) -> ToSave:
    """Return what is known with and without constraints.

    ``plain`` has none. ``waiting``: what an earlier file had of constraints that nobody asked for since.
    """
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
    return ToSave(
        tuple(results.values()),
        {places[entry.found.key]: entry.saved() for entry in entries},
        {places[key]: tuple(sets) for key, sets in under.items()},
    )
