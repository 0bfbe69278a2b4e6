"""Which equations XLA will fuse: they are one op of the graph. It is a guess that compiling corrects."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Any

from checkmate.backends.jax.device import Speed
from checkmate.backends.jax.program import (
    FUSIBLE,
    PRODUCTS,
    REDUCTIONS,
    VIEWS,
    Equation,
    Program,
    aval_bytes,
    operations,
)
from checkmate.backends.xla_policy.pooling import can_compare

_BROADCAST = 8  # a result this many times larger than its operand is recomputed in each reader
_START_S = 2e-6  # the least time of a kernel: assumed
_MOST_READS = 32  # the most values that a kernel reads; XLA has such a limit too
_REDUCED = 8  # a reduction shares a kernel with others if it makes its operand this many times smaller
# Primitives that may end a kernel which also computes their operands.
_ENDS = FUSIBLE | REDUCTIONS | {"gather", "dynamic_slice", "concatenate"}
_SUMS = REDUCTIONS - {"argmax", "argmin"}  # reductions that a kernel over whole rows computes inside


@dataclass(frozen=True, eq=False)
class Fusion:
    """Equations that XLA is expected to compile into one kernel.

    ``inline``: positions of equations that cost nothing (broadcasts, reshapes, constants), which every fusion
    repeats. ``reads`` and ``writes``: its inputs and outputs. ``overwrites``: pairs (written, read) of equal
    size, where the output may reuse the input's buffer. ``workspace``: scratch bytes.
    """

    equations: tuple[Equation, ...]
    inline: frozenset[int]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    overwrites: tuple[tuple[int, int], ...] = ()
    workspace: int = 0

    @property
    def root(self) -> Equation:
        return self.equations[-1]


@dataclass(eq=False)
class _Links:
    """``maker``: the equation that makes each value. ``free``: equations that every reader repeats."""

    program: Program

    def __post_init__(self) -> None:
        equations = self.program.equations
        self.results = {atom for atom in self.program.results if isinstance(atom, int)}
        self.maker = {value: index for index, each in enumerate(equations) for value in each.outputs}
        self.free: set[int] = set()
        for index, each in enumerate(equations):
            if not each.has_effects and len(each.outputs) == 1 and self._is_free(each):
                self.free.add(index)

    def _is_free(self, each: Equation) -> bool:
        if self.results.intersection(each.outputs):
            return False
        constant = each.name in FUSIBLE and all(
            self.maker.get(value, -1) in self.free for value in each.reads
        )
        constant = constant and all(not self._depends(value) for value in each.reads)
        read = sum(map(self.program.bytes_of, each.reads))
        wide = read * _BROADCAST <= self.program.bytes_of(each.outputs[0])
        return constant or each.name in VIEWS or (each.name == "broadcast_in_dim" and wide)

    def _depends(self, value: int) -> bool:
        waiting = [value]
        while waiting:
            index = self.maker.get(waiting.pop())
            if index is None:
                return True
            waiting.extend(self.program.equations[index].reads)
        return False

    def readers(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for index in reversed(range(len(self.program.equations))):
            each = self.program.equations[index]
            through = found.get(each.outputs[0], set()) if index in self.free else {index}
            for value in each.reads:
                found.setdefault(value, set()).update(through)
        return found

    def with_free(self, indices: Iterable[int]) -> list[int]:
        found = set(indices)
        waiting = list(found)
        while waiting:
            for value in self.program.equations[waiting.pop()].reads:
                index = self.maker.get(value, -1)
                if index in self.free and index not in found:
                    found.add(index)
                    waiting.append(index)
        return sorted(found)

    def border_reads(self, indices: Sequence[int]) -> tuple[int, ...]:
        made = {value for index in indices for value in self.program.equations[index].outputs}
        read = dict.fromkeys(value for index in indices for value in self.program.equations[index].reads)
        return tuple(value for value in read if value not in made)

    def fusion(self, indices: Sequence[int], writers: Sequence[int], read: set[int]) -> Fusion:
        """Return equations as one fusion that writes those values of ``writers`` that are ``read``."""
        equations = tuple(self.program.equations[index] for index in indices)
        inline = frozenset(position for position, index in enumerate(indices) if index in self.free)
        made = (value for index in writers for value in self.program.equations[index].outputs)
        writes = tuple(value for value in made if value in read)
        return Fusion(equations, inline, self.border_reads(indices), writes, workspace=_workspace(equations))


def fusions(program: Program) -> tuple[Fusion, ...]:
    """Return the program's equations, grouped as XLA:CPU fuses them, in a valid order."""
    links = _Links(program)
    members: dict[int, list[int]] = {}
    for index, group in enumerate(_groups(links)):
        if index not in links.free:
            members.setdefault(group, []).append(index)
    drawn = [links.with_free(indices) for _, indices in sorted(members.items())]
    read = {value for indices in drawn for value in links.border_reads(indices)} | links.results
    return tuple(
        links.fusion(indices, [index for index in indices if index not in links.free], read)
        for indices in drawn
    )


def _groups(links: _Links) -> list[int]:
    """Return the group of each equation, named by its last equation."""
    equations, readers = links.program.equations, links.readers()
    group = list(range(len(equations)))
    for index in reversed(range(len(equations))):
        each = equations[index]
        if index in links.free or each.has_effects or links.results.intersection(each.outputs):
            continue
        found = {group[reader] for value in each.outputs for reader in readers.get(value, ())}
        if len(found) == 1 and _joins(each, equations[found.pop()]):
            group[index] = group[next(iter(readers[each.outputs[0]]))]
    return group


def _joins(each: Equation, root: Equation) -> bool:
    if root.has_effects:
        return False
    if each.name in PRODUCTS:
        return root.name == "transpose"
    if each.name not in FUSIBLE:
        return False
    if root.name in PRODUCTS:
        return each.name == "transpose"
    return root.name in FUSIBLE or root.name in REDUCTIONS


def _workspace(equations: Sequence[Equation]) -> int:
    slopes = [each.source for each in equations if each.name == "select_and_scatter_add"]
    needed = [_pooling_bytes(each.params, *(atom.aval for atom in each.invars)) for each in slopes]
    return max(needed, default=0)


def _pooling_bytes(params: Mapping[str, Any], slope: Any, operand: Any) -> int:
    # By comparisons: a byte for each window, and the padded operand. By XLA's own way: windows of indices.
    if can_compare(params["window_dimensions"]):
        padded = any(any(pair) for pair in params["padding"])
        return int(slope.size) + padded * aval_bytes(operand)
    return 4 * (len(operand.shape) * int(operand.size) + (len(operand.shape) + 2) * int(slope.size))


# XLA:GPU recomputes a cheap value in each kernel that reads it instead of writing it once and reading it
# back: float32 copies of bfloat16 values, for example, have no buffer. It compares the time of both; so does
# this, from the last equation to the first. Sums over the last axis are fused into their readers, as in a
# softmax. Other reductions of the same value share one kernel.
def kernels(program: Program, speed: Speed) -> tuple[Fusion, ...]:
    """Return the program's equations as a GPU's kernels, in a valid order; an equation may be in several."""
    grouping = _Grouping(program, speed)
    for index in reversed(range(len(program.equations))):
        grouping.place(index)
    for index in sorted(grouping.groups, reverse=True):  # again, now that the reads of all groups are known
        grouping.place_again(index)
    links, groups = grouping.links, list(grouping.groups.values())
    read = {value for group in groups for value in group.reads} | links.results
    found = []
    for merged in _merged(program, groups):
        members = {member for group in merged for member in group.members}
        fusion = links.fusion(links.with_free(members), [group.last for group in merged], read)
        over = _overwrites(program, program.equations[merged[-1].last], fusion)
        found.append(replace(fusion, overwrites=over, workspace=0))
    return tuple(found)


@dataclass(eq=False)
class _Group:
    """A kernel being built. ``last``: the equation whose value it writes. ``seconds``: of its computation
    alone, without reading and writing."""

    last: int
    members: set[int]
    reads: set[int]
    seconds: float
    written: int


@dataclass(eq=False)
class _Grouping:
    """Assigns equations to the kernels that read them, from the last equation on."""

    program: Program
    speed: Speed
    groups: dict[int, _Group] = field(default_factory=dict)
    _homes: dict[int, list[_Group]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.links = _Links(self.program)
        self.links.free |= self._reshaping_sums()
        self._readers = self.links.readers()

    def _reshaping_sums(self) -> set[int]:
        return {
            index
            for index, each in enumerate(self.program.equations)
            if each.name in _SUMS
            and each.source.invars[0].aval.size == each.source.outvars[0].aval.size
            and not self.links.results.intersection(each.outputs)
        }

    def place(self, index: int) -> None:
        if index not in self.links.free:
            self.groups[index] = self._own(index)
            self._homes[index] = [self.groups[index]]
            self.place_again(index)

    def place_again(self, index: int) -> None:
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
        members = self.links.with_free([index])
        reads = set(self.links.border_reads(members))
        outside = [var.aval for var in each.source.outvars]
        inside = [atom.aval for atom in each.source.invars]
        seconds = operations(each.name, each.source.params, inside, outside, self.speed.operation_seconds)
        written = sum(self.program.bytes_of(value) for value in each.outputs)
        return _Group(index, {index}, reads, seconds, written)

    def _may_join(self, index: int, homes: Sequence[_Group]) -> bool:
        each = self.program.equations[index]
        if each.has_effects or len(each.outputs) != 1 or self.links.results.intersection(each.outputs):
            return False
        roots = [self.program.equations[group.last] for group in homes]
        if each.name in _SUMS:
            return _is_of_rows(each) and all(_goes_by_rows(root, _operand_shape(each)) for root in roots)
        if each.name in PRODUCTS or any(self._has_product(group) for group in homes):
            return len(homes) == 1 and self._is_layout_of_product(index, homes[0])
        return each.name in FUSIBLE and all(root.name in _ENDS for root in roots)

    def _is_layout_of_product(self, index: int, home: _Group) -> bool:
        each, root = self.program.equations[index], self.program.equations[home.last]
        if each.name == "transpose":
            return root.name in PRODUCTS or self._has_product(home)
        reads_it = all(self._readers[value] == {home.last} for value in each.outputs)
        return each.name in PRODUCTS and root.name == "transpose" and reads_it

    def _has_product(self, group: _Group) -> bool:
        return any(self.program.equations[member].name in PRODUCTS for member in group.members)

    def _gains(self, own: _Group, value: int, homes: Sequence[_Group]) -> bool:
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
        made = self.program.bytes_of(value)
        index = self.links.maker.get(value)
        if index is not None and self.program.equations[index].name == "convert_element_type":
            made = min(made, sum(map(self.program.bytes_of, self.program.equations[index].reads)))
        return made


def _is_of_rows(each: Equation) -> bool:
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
    # Reductions of the same value become one kernel, but only those at equal depth in the graph, since a
    # kernel must not depend on itself.
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
    """Return the kernels before each kernel, all named by their last equation. Effects keep their order."""
    home = {value: group.last for group in groups for value in program.equations[group.last].outputs}
    found = {group.last: {home[value] for value in group.reads if value in home} for group in groups}
    effects = sorted(group.last for group in groups if program.equations[group.last].has_effects)
    for before, after in pairwise(effects):
        found[after].add(before)
    return found


def _shared_read(program: Program, group: _Group) -> tuple[int, Any] | None:
    root = program.equations[group.last]
    if root.name not in REDUCTIONS or not group.reads:
        return None
    largest = max(group.reads, key=lambda value: (program.bytes_of(value), -value))
    small = _REDUCED * group.written <= program.bytes_of(largest)
    return (largest, root.source.invars[0].aval.shape) if small else None


def _ordered(merged: list[list[_Group]], needs: dict[int, set[int]]) -> list[list[_Group]]:
    # Each kernel comes after those it needs; where there is a choice, the order is the program's.
    number = {group.last: place for place, groups in enumerate(merged) for group in groups}
    before = [{number[last] for group in groups for last in needs[group.last]} for groups in merged]
    sorter = TopologicalSorter(dict(enumerate(before)))
    sorter.prepare()
    ready: list[tuple[int, int]] = []
    found = []
    while sorter.is_active():
        for place in sorter.get_ready():
            heapq.heappush(ready, (merged[place][-1].last, place))
        _, place = heapq.heappop(ready)
        found.append(merged[place])
        sorter.done(place)
    return found


def _overwrites(program: Program, root: Equation, kernel: Fusion) -> tuple[tuple[int, int], ...]:
    if not root.name.startswith("scatter") and root.name != "dynamic_update_slice":
        return ()
    return tuple(
        (written, read)
        for written, read in zip(root.outputs, root.reads[:1], strict=False)
        if written in kernel.writes and read in kernel.reads
        if program.bytes_of(written) == program.bytes_of(read)
    )
