"""Why an op is computed again, as rows of its page; no Qt."""

from __future__ import annotations

from app.presenters.op_page import OpLink
from app.state.knowledge import ListedSchedule
from app.state.standing import BudgetStanding, Standing
from checkmate.memory.recomputed import Recomputation
from checkmate.units import format_bytes, plural

_MOST = 4  # recomputations of one op


def again_rows(shown: ListedSchedule, op: int, standing: Standing | None) -> list[OpLink]:
    """Return what happened around each recomputation of an op, in turn.

    Its value is dropped, a step needs the memory, the op runs again, and another one reads it. The last row
    says how many recomputations are left out, if any.
    """
    runs, found = shown.runs.steps_of(op), shown.runs.recomputations_of(op, _MOST)
    rows = []
    for number, again in enumerate(found, 2):
        rows += _rows_of(shown, again, f"run {number} of {len(runs)}", standing)
    more = len(runs) - 1 - len(found)
    if more > 0:
        rows.append(OpLink("", f"{plural(more, 'more time')}, last at step {runs[-1] + 1}", ""))
    return rows


def _rows_of(
    shown: ListedSchedule, again: Recomputation, run: str, standing: Standing | None
) -> list[OpLink]:
    graph, rows, known = shown.graph, [], ""
    if again.fullest_step is None or again.fullest_bytes is None:
        known = "It was in memory until then."
    elif not again.bytes:
        known = "It has no bytes of its own."
    else:
        fullest = int(shown.schedule.steps[again.fullest_step])
        words = _fullness(again.fullest_bytes, again.bytes, *_limit(shown, standing))
        rows = [
            OpLink.at(again.freed_after, "Dropped after this step", "", words),
            OpLink.at(again.fullest_step, graph.ops[fullest].name, "fullest", op=fullest),
        ]
    rows.append(OpLink.at(again.step, "Computed again", run, known))
    if again.read_at is None or again.reader is None:
        rows.append(OpLink("", "Nothing reads it after that", ""))
    else:
        rows.append(OpLink.at(again.read_at, graph.ops[again.reader].name, "reads it", op=again.reader))
    return rows


def _limit(shown: ListedSchedule, standing: Standing | None) -> tuple[int, str]:
    """Return the bytes that the schedule had to keep to, and their name.

    A schedule on screen in place of the budget's own has nothing to do with the budget.
    """
    if standing is not None and standing.shown is shown and standing.fit is BudgetStanding.BEST:
        return standing.budget_bytes, "the budget"
    return shown.peak_bytes, "this schedule's peak"


def _fullness(live: int, size: int, limit: int, name: str) -> str:
    """Say how full memory was, and whether the value had room there."""
    share = f"{100 * live / limit:.0f}\u00a0% of {name}"
    if live + size > limit:
        return f"Memory was full to {share}: no room for its {format_bytes(size)}."
    return f"Memory was at most {share} meanwhile: there was room for its {format_bytes(size)}."
