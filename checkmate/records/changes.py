"""How what was in use differs between two records."""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.records.memory import MemoryRecord
from checkmate.records.words import rows
from checkmate.units import format_bytes


@dataclass(frozen=True)
class Change:
    """Bytes in use of a layer, a line of code or chunks of a size, in the first record and in the second."""

    name: str
    before: int
    after: int

    @property
    def more(self) -> int:
        return self.after - self.before

    @property
    def words(self) -> str:
        sign = "+" if self.more > 0 else "−" if self.more < 0 else ""
        return f"{sign}{format_bytes(abs(self.more))}"


def changes(before: MemoryRecord, after: MemoryRecord, *, by_size: bool) -> tuple[Change, ...]:
    """Return what differs, the largest difference first."""
    by_size = by_size or not (before.by_layer and after.by_layer)
    one, other = ({row.name: row.bytes for row in rows(each, by_size=by_size)} for each in (before, after))
    found = (Change(name, one.get(name, 0), other.get(name, 0)) for name in {**one, **other})
    return tuple(sorted((each for each in found if each.more), key=lambda each: (-abs(each.more), each.name)))


def change_in_all(before: MemoryRecord, after: MemoryRecord) -> Change:
    return Change("in use", before.in_use_bytes or 0, after.in_use_bytes or 0)
