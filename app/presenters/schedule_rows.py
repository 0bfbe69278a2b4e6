"""The list of schedules in groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from app.presenters.wording import percent
from app.state.knowledge import ListedSchedule, WhatIf
from app.state.saved import OwnSchedule
from checkmate.units import FIRST_SHARE, format_bytes

_METHODS = {
    "chen-sqrt-linear": ("Chen √n", "every √n-th op is a checkpoint"),
    "chen-greedy-linear": ("Chen greedy", "checkpoints after about equal bytes"),
    "chen-greedy-ap": ("Chen greedy AP", "checkpoints after about equal bytes, at articulation points alone"),
}
_DOT = " · "
_MOST_DIGITS = 6  # after the point, to tell two schedules apart
_NO_EXTRA = 5e-7  # a smaller share of extra cost comes from rounding


class RowGroup(StrEnum):
    MINE = "Mine"
    BASELINES = "Baselines"
    FRONTIER = "Frontier"


@dataclass(frozen=True)
class ScheduleRow:
    """``own`` is its entry in the user's own list, if it has one."""

    group: RowGroup
    found: ListedSchedule
    name: str
    figure: str
    detail: str
    tip: str
    own: OwnSchedule | None = None

    def lines(self, *, narrow: bool) -> tuple[str, str]:
        if not narrow or self.group is not RowGroup.BASELINES:
            return self.name, self.detail
        method, _, cost = self.name.rpartition(_DOT)
        return method, _DOT.join(filter(None, (cost, self.detail)))

    @property
    def pinned(self) -> bool:
        return self.own is not None and self.own.pinned


def share_text(share: float) -> str:
    """Format a share of keeping everything: ``60 %``, ``59.6 %``."""
    text = f"{100 * share:.1f}".removesuffix(".0")
    return f"{text}\u00a0%"


def cost_text(overhead: float) -> str:
    """Format an extra cost: ``+2.1 %``; never less than none."""
    return f"+{percent(overhead)}" if overhead > _NO_EXTRA else "+0\u00a0%"


def schedule_name(found: ListedSchedule, plain_bytes: int, budget_bytes: int | None = None) -> str:
    """``60 % · +2.1 %``: the budget as a share of keeping everything, and the extra cost. Without a budget,
    it is the share that the peak takes."""
    share = (budget_bytes or found.peak_bytes) / max(1, plain_bytes)
    return f"{share_text(share)} · {cost_text(found.overhead)}"


def own_name(own: OwnSchedule, plain_bytes: int) -> str:
    """The name that the user has given, or the one by budget and cost."""
    asked = own.asked
    budget = None if asked is None or asked.aim is not None else asked.budget_bytes
    return own.name or schedule_name(own.found, plain_bytes, budget)


def shown_name(found: ListedSchedule, plain: ListedSchedule, own: OwnSchedule | None) -> str:
    """The name of a schedule outside of the list."""
    if own is not None:
        return own_name(own, plain.peak_bytes)
    return _method(found, plain) or schedule_name(found, plain.peak_bytes)


def grouped(
    what_if: WhatIf, own: Iterable[OwnSchedule], also: Sequence[ListedSchedule] = ()
) -> dict[RowGroup, tuple[ScheduleRow, ...]]:
    """The groups of the list; a schedule is listed in the first group that it belongs to. ``also``: schedules
    to list in any case, such as the compared one."""
    plain = what_if.plain
    mine = tuple(_own_row(entry, what_if) for entry in own)
    seen = {row.found.key for row in mine}
    methods = sorted(what_if.baselines, key=lambda one: (one.solver, -one.peak_bytes))
    baselines: dict[bytes, ScheduleRow] = {}
    for row in (_plain_row(what_if), *_first_row(what_if), *(_baseline_row(one, plain) for one in methods)):
        if row.found.key not in seen:
            baselines.setdefault(row.found.key, row)
    seen |= baselines.keys()
    known = {one.key: one for one in (*what_if.known, *also) if one.key not in seen}
    frontier = sorted(known.values(), key=lambda one: -one.peak_bytes)
    rows = [
        _row(RowGroup.FRONTIER, one, schedule_name(one, plain.peak_bytes), _missed(one, what_if))
        for one in frontier
    ]
    return {
        RowGroup.MINE: mine,
        RowGroup.BASELINES: tuple(baselines.values()),
        RowGroup.FRONTIER: _told_apart(rows, plain.peak_bytes),
    }


def _told_apart(rows: Sequence[ScheduleRow], plain_bytes: int) -> tuple[ScheduleRow, ...]:
    named = list(rows)
    for digits in range(2, _MOST_DIGITS + 1):
        count = Counter(row.name for row in named)
        if count.total() == len(count):
            break
        for place, row in enumerate(named):
            if count[row.name] > 1:
                share, extra = 100 * row.found.peak_bytes / max(1, plain_bytes), 100 * row.found.overhead
                name = f"{share:.{digits}f}\u00a0%{_DOT}+{max(0.0, extra):.{digits}f}\u00a0%"
                named[place] = replace(row, name=name)
    return tuple(named)


def _own_row(own: OwnSchedule, what_if: WhatIf) -> ScheduleRow:
    found, plain_bytes = own.found, what_if.plain.peak_bytes
    name, plain_name = own_name(own, plain_bytes), schedule_name(found, plain_bytes)
    said = [plain_name] if own.name else []
    if found.constrained.constraints != what_if.constraints:
        said.append(_constraints_words(found))
    said.append(own.note or _missed(found, what_if) or proof_text(found))
    return _row(RowGroup.MINE, found, name, " · ".join(said), own)


def _baseline_row(found: ListedSchedule, plain: ListedSchedule, detail: str = "") -> ScheduleRow:
    name = f"{_method(found, plain) or found.solver}{_DOT}{cost_text(found.overhead)}"
    return _row(RowGroup.BASELINES, found, name, detail)


def _plain_row(what_if: WhatIf) -> ScheduleRow:
    least = what_if.plain.peak_bytes <= what_if.least_possible
    return _baseline_row(what_if.plain, what_if.plain, "none needs less, proved" if least else "")


def _first_row(what_if: WhatIf) -> Iterator[ScheduleRow]:
    """The row of the budget that the window solves unasked: ``FIRST_SHARE`` of keeping everything; or the
    least known memory, if it is proved that nothing fits that budget."""
    plain, least = what_if.plain, what_if.known[0]
    budget, name = int(FIRST_SHARE * plain.peak_bytes), f"{share_text(FIRST_SHARE)} of the peak"
    found = what_if.best_to_show(budget)
    if budget < what_if.least_possible:
        found = least
        name = f"Least memory {'possible' if least.peak_bytes <= what_if.least_possible else 'known'}"
    if found is not None and found.key != plain.key:
        name = f"{name}{_DOT}{cost_text(found.overhead)}"
        yield _row(RowGroup.BASELINES, found, name, _missed(found, what_if))


def _row(
    group: RowGroup, found: ListedSchedule, name: str, detail: str = "", own: OwnSchedule | None = None
) -> ScheduleRow:
    return ScheduleRow(group, found, name, format_bytes(found.peak_bytes), detail, _tip(found, own), own)


def _method(found: ListedSchedule, plain: ListedSchedule) -> str:
    if found.key == plain.key:
        return "Keep everything"
    if found.solver not in _METHODS:
        return ""
    return f"{_METHODS[found.solver][0]}, {share_text(found.budget_bytes / max(1, plain.peak_bytes))}"


def _missed(found: ListedSchedule, what_if: WhatIf) -> str:
    return "over its budget when it was exported" if found.key in what_if.missed else ""


def _constraints_words(found: ListedSchedule) -> str:
    return "without constraints" if found.constrained.constraints.is_empty else "under other constraints"


def proof_text(found: ListedSchedule) -> str:
    if found.optimal:
        return "optimal, proved"
    return f"within {percent(found.gap)} of the best possible"


def _tip(found: ListedSchedule, own: OwnSchedule | None) -> str:
    again = found.schedule.recomputations
    lines = [
        f"{format_bytes(found.peak_bytes)}, {cost_text(found.overhead)} step cost, "
        f"{again} recomputation{'s' * (again != 1)}",
        f"{proof_text(found)}; found by {found.solver}",
    ]
    if found.solver in _METHODS:
        lines.append(f"Chen et al., 2016: {_METHODS[found.solver][1]}")
        lines.append(f"its budget was {format_bytes(found.budget_bytes)}")
    if own is not None and own.asked is not None:
        asked = own.asked
        words = f"budget {format_bytes(asked.budget_bytes)}" if asked.aim is None else asked.words
        lines.insert(0, f"asked for: {words[:1].lower()}{words[1:]}")
    if own is not None and own.note:
        lines.insert(0, own.note)
    return "\n".join(lines)
