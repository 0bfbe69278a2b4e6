"""The user's own list of schedules; no Qt.

It holds what was asked for, pinned, named or noted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.state.knowledge import ListedSchedule
from app.state.solve import Aim, SliderTarget
from checkmate.formats.exploration import SavedOwn


@dataclass(frozen=True)
class OwnSchedule:
    """A schedule of the user's own list.

    ``asked``: the budget or the aim that led to it; None if it was chosen from a list.
    """

    found: ListedSchedule
    asked: SliderTarget | None = None
    name: str = ""
    note: str = ""
    pinned: bool = False

    @property
    def touched(self) -> bool:
        """Return whether the user has pinned, named or noted it."""
        return bool(self.pinned or self.name or self.note)

    def saved(self) -> SavedOwn:
        """Return what a file says of it."""
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
    """Return a schedule of the list as a file has it."""
    asked = None if saved.budget_bytes is None else SliderTarget(saved.budget_bytes)
    if saved.max_overhead is not None:
        asked = SliderTarget(aim=Aim(saved.max_overhead))
    return OwnSchedule(found, asked, saved.name, saved.note, saved.pinned)


class OwnSchedules:
    """The list itself: one entry per sequence of steps."""

    def __init__(self) -> None:
        self._entries: dict[bytes, OwnSchedule] = {}

    def __iter__(self) -> Iterator[OwnSchedule]:
        """Yield the pinned ones first, then by falling peak."""
        return iter(
            sorted(
                self._entries.values(),
                key=lambda own: (not own.pinned, -own.found.peak_bytes, own.found.cost),
            )
        )

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, found: ListedSchedule) -> OwnSchedule | None:
        """Return the entry of a schedule, if it is in the list."""
        return self._entries.get(found.key)

    def put(self, key: bytes, entry: OwnSchedule | None) -> None:
        """Set the entry of a sequence of steps; None removes it."""
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry

    def answer(self, asked: SliderTarget, found: ListedSchedule) -> None:
        """Add what a solve has led to.

        It takes the place of what the same question led to before, if the user has not touched that.
        """
        for key, entry in list(self._entries.items()):
            if entry.asked == asked and key != found.key and not entry.touched and _same_graph(entry, found):
                del self._entries[key]
        known = self._entries.get(found.key)
        if known is None or (known.asked is None and not known.touched):
            self._entries[found.key] = OwnSchedule(found, asked)

    def clear(self) -> None:
        self._entries.clear()


def _same_graph(entry: OwnSchedule, found: ListedSchedule) -> bool:
    """Return whether both were made under the same constraints."""
    return entry.found.constrained.constraints == found.constrained.constraints
