"""XLA's buffer assignment: its allocations, and which values lie in each (``*-buffer-assignment.txt``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from checkmate.hlo.module import MOST_INSTRUCTIONS, HloError
from checkmate.hlo.peak import Held, Peak

_START = "BufferAssignment:"
_ALLOCATION = re.compile(r"allocation \d+: size (\d{1,18})(?:,|:)(.*)")
_VALUE = re.compile(r"\s+value: <\d+ (\S+).*?> \(size=(\d{1,18}),offset=(\d{1,18})\)")


class Assigned(NamedTuple):
    name: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class Allocation:
    """``result``: it is live at the end. ``fixed``: a constant, or scratch of a thread, which
    ``memory_analysis()`` leaves out.
    """

    bytes: int
    argument: bool = False
    result: bool = False
    fixed: bool = False
    assigned: list[Assigned] = field(default_factory=list)


def begins_as_assignment(start: bytes) -> bool:
    return start.lstrip().startswith(_START.encode())


def read_assignment(lines: Iterable[str]) -> tuple[Allocation, ...]:
    """Raise HloError where the lines are no buffer assignment."""
    found: list[Allocation] = []
    values = 0
    for line in lines:
        if (head := _ALLOCATION.match(line)) is not None:
            words = head[2]
            fixed = "constant" in words or "thread-local" in words
            argument, result = words.startswith(" parameter "), "maybe-live-out" in words
            found.append(Allocation(int(head[1]), argument, result, fixed))
        elif found and (value := _VALUE.match(line)) is not None:
            found[-1].assigned.append(Assigned(value[1].partition("{")[0], int(value[3]), int(value[2])))
            values += 1
            if values > MOST_INSTRUCTIONS:
                raise HloError(f"it has more than {MOST_INSTRUCTIONS:,} values")
        elif line.startswith(("Total bytes", "Used values")):
            break
    if not found:
        raise HloError("there is no allocation in it")
    return tuple(found)


def assigned_peak(allocations: Sequence[Allocation]) -> Peak:
    """``held``: the largest values that share no byte; the text does not tell when each is there."""
    counted = [each for each in allocations if not each.fixed]
    arguments = sum(each.bytes for each in counted if each.argument)
    results = sum(each.bytes for each in counted if each.result)
    aliased = sum(each.bytes for each in counted if each.argument and each.result)
    temporary = sum(each.bytes for each in counted if not each.argument and not each.result)
    held = [one for each in counted for one in _held(each)]
    return Peak(arguments, results, aliased, temporary, tuple(sorted(held, key=lambda one: -one.bytes)))


def _held(allocation: Allocation) -> Iterator[Held]:
    what = "argument" if allocation.argument else "result" if allocation.result else "temporary"
    taken: list[tuple[int, int]] = []
    for each in sorted(allocation.assigned, key=lambda one: -one.bytes):
        end = each.offset + each.bytes
        if each.bytes and all(end <= first or last <= each.offset for first, last in taken):
            taken.append((each.offset, end))
            yield Held(what, "", each.name, each.bytes)
