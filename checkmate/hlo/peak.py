"""What a compiled step holds at most, from its module alone, as XLA's buffer assignment would have it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checkmate.hlo.flow import Flow, Written, flow_of
from checkmate.hlo.module import Module
from checkmate.hlo.packing import Block, heap_bytes

ALIGNMENT = 64  # bytes; XLA:CPU's. A GPU's 256 makes no difference to buffers that count.


@dataclass(frozen=True)
class Held:
    """A buffer in use at the peak. ``what``: ``argument``, ``result`` or ``temporary``."""

    what: str
    op_name: str
    name: str
    bytes: int


@dataclass(frozen=True)
class Peak:
    """Bytes of a compiled step as ``memory_analysis()`` tells them; ``aliased`` are both arguments and
    results. ``held``: what is in use when most is, largest first.
    """

    arguments: int
    results: int
    aliased: int
    temporary: int
    held: tuple[Held, ...] = ()

    @property
    def bytes(self) -> int:
        return self.arguments + self.results - self.aliased + self.temporary


def peak_of(module: Module) -> Peak:
    """Raise HloError where the module contradicts itself."""
    return _Assignment(flow_of(module)).peak()


@dataclass(eq=False, slots=True)
class _Buffer:
    values: list[int]
    bytes: int
    argument: bool
    live_out: bool

    def __post_init__(self) -> None:
        self.values.sort()


class _Holders:
    """Buffers that others may be put into, and the values that each holds."""

    def __init__(self, values: list[Written]) -> None:
        self._values = values
        self._bytes: list[int] = []
        self._placed: list[int] = []
        self._spans = np.zeros((3, len(values)), np.int64)  # first and last step, and the holder

    def open(self, buffer: _Buffer) -> None:
        self._bytes.append(buffer.bytes)
        self._add(buffer, len(self._bytes) - 1)

    def put(self, buffer: _Buffer) -> bool:
        """Put ``buffer`` into the smallest that has room, and return whether there is one."""
        taken = (
            np.array(self._bytes) != buffer.bytes if buffer.live_out else np.zeros(len(self._bytes), np.bool_)
        )
        first, last, holder = self._spans[:, : len(self._placed)]
        for value in buffer.values:
            start, end = self._values[value].start, self._values[value].end
            meets = (first <= end) & (last >= start)
            touches = meets & ((last == start) | (first == end))
            taken[holder[meets & ~touches]] = True
            for at in np.flatnonzero(touches).tolist():
                taken[holder[at]] |= self._interfere(value, self._placed[at])
        free = np.flatnonzero(~taken)
        if len(free):
            self._add(buffer, int(free[-1]))
        return bool(len(free))

    def _add(self, buffer: _Buffer, holder: int) -> None:
        for value in buffer.values:
            told = self._values[value]
            self._spans[:, len(self._placed)] = told.start, told.end, holder
            self._placed.append(value)

    def _interfere(self, one: int, other: int) -> bool:
        first, second = self._values[one], self._values[other]
        if first.start > second.start:
            one, first, second = other, second, first
        return first.end > second.start or one not in second.may_share


class _Assignment:
    """XLA gives arguments and results buffers of their own, puts what it can into those, and all else into
    one heap.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        groups: dict[int, list[int]] = {}
        for value, first in enumerate(flow.buffer_of):
            if flow.values[value].end >= 0:
                groups.setdefault(first, []).append(value)
        arguments = {value for values in flow.parameters for value in values}
        results = set(flow.results)
        self.buffers = [
            _Buffer(
                values,
                max(flow.values[value].shape.bytes for value in values),
                not arguments.isdisjoint(values),
                not results.isdisjoint(values),
            )
            for values in groups.values()
        ]
        for buffer in self.buffers:
            self._normalize(buffer)

    def _normalize(self, buffer: _Buffer) -> None:
        """In one buffer a value ends where the next begins."""
        values = sorted((self.flow.values[value] for value in buffer.values), key=lambda each: each.start)
        for one, after in pairwise(values):
            if one.end >= after.start:
                one.end = max(one.start, after.start - 1)

    def peak(self) -> Peak:
        arguments = sum(each.shape.bytes for values in self.flow.parameters for each in self._of(values))
        results = sum(each.shape.bytes for each in self._of(self.flow.results))
        aliased = sum(each.bytes for each in self.buffers if each.argument and each.live_out)
        heap = self._heap()
        spans = self._shared(heap)
        temporary = heap_bytes([Block(size, tuple(span)) for _, size, span in spans], ALIGNMENT)
        return Peak(arguments, results, aliased, temporary, self._held(spans))

    def _of(self, values: Iterable[int]) -> list[Written]:
        return [self.flow.values[value] for value in values]

    def _heap(self) -> list[_Buffer]:
        """Return the buffers that fit into none of those of donated arguments and of results."""
        order = sorted(self.buffers, key=lambda each: (-each.bytes, not each.live_out, self._order(each)))
        holders, left = _Holders(self.flow.values), []
        for buffer in order:
            first = self.flow.values[buffer.values[0]]
            if first.by.opcode == "constant" or not buffer.bytes:
                continue
            alone = any(self.flow.values[value].shape.parts for value in buffer.values)  # a tuple's pointers
            if buffer.argument:
                if buffer.live_out:
                    holders.open(buffer)
            elif not alone and holders.put(buffer):
                continue
            elif not buffer.live_out:
                left.append(buffer)
            elif not alone:
                holders.open(buffer)
        return left

    def _order(self, buffer: _Buffer) -> tuple[int, int]:
        return min(self.flow.values[value].order for value in buffer.values)

    def _shared(self, heap: list[_Buffer]) -> list[tuple[list[Written], int, list[tuple[int, int]]]]:
        """Join buffers of the heap that are written over others which end there."""
        alone = {each.values[0]: each for each in heap if len(each.values) == 1}
        joined: dict[int, list[Written]] = {}
        head: dict[int, int] = {}
        for value in sorted(alone, key=lambda each: self.flow.values[each].start):
            told = self.flow.values[value]
            source = next(
                (
                    each
                    for each in told.may_share
                    if each in alone and self.flow.values[each].end == told.start and each in head
                ),
                None,
            )
            if source is None:
                head[value], joined[value] = value, [told]
                continue
            self.flow.values[source].end -= 1
            root = head.pop(source)
            head[value] = root
            joined[root].append(told)
        found = []
        for buffer in sorted(heap, key=self._order):
            if len(buffer.values) > 1:
                members = self._of(buffer.values)
            elif buffer.values[0] in joined:
                members = joined[buffer.values[0]]
            else:
                continue
            found.append((members, buffer.bytes, [(each.start, each.end) for each in members]))
        return found

    def _held(self, heap: list[tuple[list[Written], int, list[tuple[int, int]]]]) -> tuple[Held, ...]:
        changes: dict[int, int] = {}
        for _, size, spans in heap:
            for first, last in spans:
                changes[first] = changes.get(first, 0) + size
                changes[last + 1] = changes.get(last + 1, 0) - size
        live = most = at = 0
        for step in sorted(changes):
            live += changes[step]
            if live > most:
                most, at = live, step
        held = [
            _held("temporary", next(one for one in members if one.start <= at <= one.end), size)
            for members, size, spans in heap
            if any(first <= at <= last for first, last in spans)
        ]
        for buffer in self.buffers:
            if buffer.argument or buffer.live_out:
                told = self.flow.values[buffer.values[0] if buffer.argument else buffer.values[-1]]
                held.append(_held("argument" if buffer.argument else "result", told, buffer.bytes))
        return tuple(sorted((each for each in held if each.bytes), key=lambda each: -each.bytes))


def _held(what: str, told: Written, size: int) -> Held:
    return Held(what, told.by.op_name, told.by.name, size)
