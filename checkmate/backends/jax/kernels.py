"""Which equations a GPU's compiler will put into one kernel.

XLA for GPUs makes a cheap value again in each kernel that reads it, rather than write it once and read it
back: float32 copies of bfloat16 values, for example, are in no buffer. It weighs what either would take, and
so does this, from the last equation to the first. Sums over a last axis are inside of what reads them, as in
a softmax. Other reductions that read the same value are one kernel.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from checkmate.backends.jax.fuse import Fusion, border_reads, free_equations, makers, readers_of, with_free
from checkmate.backends.jax.primitives import FUSIBLE, PRODUCTS, REDUCTIONS, operations
from checkmate.backends.jax.program import Equation, Program
from checkmate.backends.jax.speed import Speed

_START_S = 2e-6  # a kernel takes so long at least: assumed
_MOST_READS = 32  # of one kernel: XLA has a limit as well
_REDUCED = 8  # a reduction makes its operand so many times smaller, to share a kernel with others
# With what a kernel may end that computes what it reads.
_ENDS = FUSIBLE | REDUCTIONS | {"gather", "dynamic_slice", "concatenate"}
_SUMS = REDUCTIONS - {"argmax", "argmin"}  # what else a kernel of whole rows has inside


def kernels(program: Program, speed: Speed) -> tuple[Fusion, ...]:
    """Return the program's equations, grouped, in a valid order. An equation may be in several groups."""
    grouping = _Grouping(program, speed)
    for index in reversed(range(len(program.equations))):
        grouping.place(index)
    for index in sorted(grouping.groups, reverse=True):  # what they read is known by now
        grouping.place_again(index)
    return _built(program, grouping.free, _merged(program, list(grouping.groups.values())))


@dataclass(eq=False)
class _Group:
    """A kernel as it grows.

    ``last`` is the equation whose value it writes. ``seconds`` are those of its operations alone.
    """

    last: int
    members: set[int]
    reads: set[int]
    seconds: float
    written: int


@dataclass(eq=False)
class _Grouping:
    """Places equations into the kernels that read them, from the last on."""

    program: Program
    speed: Speed
    free: set[int] = field(init=False)
    groups: dict[int, _Group] = field(default_factory=dict)
    _homes: dict[int, list[_Group]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program = self.program
        self._results = {atom for atom in program.results if isinstance(atom, int)}
        self._maker = makers(program)
        self.free = free_equations(program, self._results, self._maker) | self._reshaping_sums()
        self._readers = readers_of(program, self.free)

    def _reshaping_sums(self) -> set[int]:
        """Return reductions of axes of length 1: JAX's gradients have many."""
        return {
            index
            for index, each in enumerate(self.program.equations)
            if each.name in _SUMS
            and each.source.invars[0].aval.size == each.source.outvars[0].aval.size
            and not self._results.intersection(each.outputs)
        }

    def place(self, index: int) -> None:
        """Put an equation into all kernels that read it, or into its own."""
        if index not in self.free:
            self.groups[index] = self._own(index)
            self._homes[index] = [self.groups[index]]
            self.place_again(index)

    def place_again(self, index: int) -> None:
        """Put a kernel into all that read it, where that takes less."""
        own, each = self.groups[index], self.program.equations[index]
        homes: dict[int, _Group] = {}
        for value in each.outputs:
            for reader in self._readers.get(value, ()):
                homes.update((group.last, group) for group in self._homes[reader])
        found = list(homes.values())
        if not found or not self._may_join(index, found) or not self._gains(own, each.outputs[0], found):
            return
        for group in found:
            group.members |= own.members
            group.reads = self._together(group, own, each.outputs[0])
            group.seconds += own.seconds
        del self.groups[index]
        for member in own.members:
            others = [group for group in self._homes[member] if group is not own]
            self._homes[member] = list({group.last: group for group in (*others, *found)}.values())

    def _own(self, index: int) -> _Group:
        each = self.program.equations[index]
        members = with_free(self.program, self.free, self._maker, [index])
        reads = set(border_reads(self.program, members))
        outside = [var.aval for var in each.source.outvars]
        inside = [atom.aval for atom in each.source.invars]
        seconds = operations(each.name, each.source.params, inside, outside, self.speed.operation_seconds)
        written = sum(self.program.bytes_of(value) for value in each.outputs)
        return _Group(index, {index}, reads, seconds, written)

    def _may_join(self, index: int, homes: Sequence[_Group]) -> bool:
        """Return whether XLA can compute an equation inside of those kernels."""
        each = self.program.equations[index]
        if each.has_effects or len(each.outputs) != 1 or self._results.intersection(each.outputs):
            return False
        roots = [self.program.equations[group.last] for group in homes]
        if each.name in _SUMS:
            return _is_of_rows(each) and all(_goes_by_rows(root, _operand_shape(each)) for root in roots)
        if each.name in PRODUCTS or any(self._has_product(group) for group in homes):
            return len(homes) == 1 and self._is_layout_of_product(index, homes[0])
        return each.name in FUSIBLE and all(root.name in _ENDS for root in roots)

    def _is_layout_of_product(self, index: int, home: _Group) -> bool:
        """Return whether one is a product and the other only transposes it."""
        each, root = self.program.equations[index], self.program.equations[home.last]
        if each.name == "transpose":
            return root.name in PRODUCTS or self._has_product(home)
        reads_it = all(self._readers[value] == {home.last} for value in each.outputs)
        return each.name in PRODUCTS and root.name == "transpose" and reads_it

    def _has_product(self, group: _Group) -> bool:
        return any(self.program.equations[member].name in PRODUCTS for member in group.members)

    def _gains(self, own: _Group, value: int, homes: Sequence[_Group]) -> bool:
        """Return whether ``value`` is sooner made again than written and read."""
        apart = self._seconds(own.seconds, own.reads, own.written) + _START_S
        joined = 0.0
        for group in homes:
            reads = self._together(group, own, value)
            if len(reads) > _MOST_READS:
                return False
            apart += self._seconds(group.seconds, group.reads, group.written)
            joined += self._seconds(group.seconds + own.seconds, reads, group.written)
        return joined <= apart

    def _together(self, group: _Group, own: _Group, value: int) -> set[int]:
        return (group.reads - {value}) | own.reads

    def _seconds(self, seconds: float, reads: Iterable[int], written: int) -> float:
        moved = written + sum(self._source_bytes(value) for value in reads)
        return self.speed.seconds(seconds, moved)

    def _source_bytes(self, value: int) -> int:
        """Return the bytes of a value, or of what it is only a wider copy of."""
        made = self.program.bytes_of(value)
        index = self._maker.get(value)
        if index is not None and self.program.equations[index].name == "convert_element_type":
            made = min(made, sum(map(self.program.bytes_of, self.program.equations[index].reads)))
        return made


def _is_of_rows(each: Equation) -> bool:
    """Return whether a reduction is over the last axis alone."""
    axes = each.source.params.get("axes")
    return each.name in REDUCTIONS and axes is not None and tuple(axes) == (len(_operand_shape(each)) - 1,)


def _goes_by_rows(root: Equation, shape: tuple[int, ...]) -> bool:
    if root.name in REDUCTIONS:
        return _is_of_rows(root) and _operand_shape(root) == shape
    return root.name in FUSIBLE and root.source.outvars[0].aval.shape == shape


def _operand_shape(each: Equation) -> tuple[int, ...]:
    shape: tuple[int, ...] = each.source.invars[0].aval.shape
    return shape


def _merged(program: Program, groups: list[_Group]) -> list[list[_Group]]:
    """Return kernels in a valid order, reductions of the same value as one.

    Only kernels that are equally many steps from the arguments are merged, so that none waits for itself.
    """
    needs = _needs(program, groups)
    level: dict[int, int] = {}
    alike: dict[Hashable, list[_Group]] = {}
    for group in sorted(groups, key=lambda each: each.last):
        level[group.last] = 1 + max((level[index] for index in needs[group.last]), default=0)
        shared = _shared_read(program, group)
        key = group.last if shared is None else (shared, level[group.last])
        alike.setdefault(key, []).append(group)
    return _ordered(list(alike.values()), needs)


def _needs(program: Program, groups: list[_Group]) -> dict[int, set[int]]:
    """Return after which kernels each comes, all by their last equations. Effects stay in their order."""
    home = {value: group.last for group in groups for value in program.equations[group.last].outputs}
    found = {group.last: {home[value] for value in group.reads if value in home} for group in groups}
    effects = sorted(group.last for group in groups if program.equations[group.last].has_effects)
    for before, after in pairwise(effects):
        found[after].add(before)
    return found


def _shared_read(program: Program, group: _Group) -> tuple[int, Any] | None:
    """Return the largest value that a reduction reads, with its shape."""
    root = program.equations[group.last]
    if root.name not in REDUCTIONS or not group.reads:
        return None
    largest = max(group.reads, key=lambda value: (program.bytes_of(value), -value))
    small = _REDUCED * group.written <= program.bytes_of(largest)
    return (largest, root.source.invars[0].aval.shape) if small else None


def _ordered(merged: list[list[_Group]], needs: dict[int, set[int]]) -> list[list[_Group]]:
    """Return kernels so that each comes after those it needs.

    Where there is a choice, the order is the program's.
    """
    number = {group.last: place for place, groups in enumerate(merged) for group in groups}
    before = [{number[last] for group in groups for last in needs[group.last]} for groups in merged]
    after: dict[int, list[int]] = {}
    for place, waited in enumerate(before):
        for each in waited:
            after.setdefault(each, []).append(place)
    waits = [len(waited) for waited in before]
    ready = [(merged[place][-1].last, place) for place, count in enumerate(waits) if not count]
    heapq.heapify(ready)
    found = []
    while ready:
        _, place = heapq.heappop(ready)
        found.append(merged[place])
        for each in after.get(place, ()):
            waits[each] -= 1
            if not waits[each]:
                heapq.heappush(ready, (merged[each][-1].last, each))
    return found


def _built(program: Program, free: set[int], merged: list[list[_Group]]) -> tuple[Fusion, ...]:
    maker = makers(program)
    read = {value for groups in merged for group in groups for value in group.reads}
    read.update(atom for atom in program.results if isinstance(atom, int))
    found = []
    for groups in merged:
        members = {member for group in groups for member in group.members}
        indices = with_free(program, free, maker, sorted(members))
        inline = frozenset(position for position, index in enumerate(indices) if index in free)
        roots = [program.equations[group.last] for group in groups]
        writes = tuple(value for root in roots for value in root.outputs if value in read)
        own = tuple(program.equations[index] for index in indices)
        reads = border_reads(program, indices)
        found.append(Fusion(own, inline, reads, writes, _overwrites(program, roots[-1], reads, writes)))
    return tuple(found)


def _overwrites(
    program: Program, root: Equation, reads: Sequence[int], writes: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return what a kernel writes over what it reads: scatters do."""
    if not root.name.startswith("scatter") and root.name != "dynamic_update_slice":
        return ()
    return tuple(
        (written, read)
        for written, read in zip(root.outputs, root.reads[:1], strict=False)
        if written in writes and read in reads and program.bytes_of(written) == program.bytes_of(read)
    )
