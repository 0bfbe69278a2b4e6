"""The schedules of a saved exploration, taken in and given out; no Qt."""

from __future__ import annotations

from collections.abc import Iterable

from app.state.knowledge import ListedSchedule, WhatIf, is_baseline
from app.state.own_schedules import OwnSchedule
from checkmate.formats.exploration import SavedExploration, SavedOwn
from checkmate.ir.result import SolveResult


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


def schedules_to_save(
    what_ifs: Iterable[WhatIf], own: Iterable[OwnSchedule]
) -> tuple[tuple[SolveResult, ...], dict[int, SavedOwn]]:
    """Return every schedule once, and the user's own list.

    The list's entries are by the schedules' places.
    """
    entries = tuple(own)
    known = [one for what_if in what_ifs for one in (*what_if.known, *what_if.baselines)]
    found = {one.key: one for one in known} | {entry.found.key: entry.found for entry in entries}
    places = {key: place for place, key in enumerate(found)}
    results = tuple(one.result() for one in found.values())
    return results, {places[entry.found.key]: entry.saved() for entry in entries}
