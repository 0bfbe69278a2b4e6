"""Which buffers a scheduled module has, which results share one, and when each holds something.

This follows XLA's own rules: its dataflow and alias analyses (tuples, bitcasts, loops, branches, writes in
place) and its live ranges, which begin where a value is written and end at its last reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.hlo.elementwise import overwrites, shares_with
from checkmate.hlo.module import (
    MOST_INSTRUCTIONS,
    MOST_NESTED,
    Computation,
    HloError,
    Instruction,
    Module,
    Shape,
)

_THROUGH = frozenset({"bitcast", "opt-barrier", "add-dependency", "domain"})  # the operand itself


@dataclass(eq=False, slots=True)
class Written:
    """One value in a buffer: written by ``by`` at ``start``, read last at ``end``, in steps of the schedule.

    ``may_share``: values whose buffer it may be written over. ``order``: XLA's own, by which it breaks ties.
    """

    by: Instruction
    shape: Shape
    start: int
    end: int
    order: tuple[int, int] = (0, 0)
    may_share: tuple[int, ...] = ()


@dataclass(eq=False)
class Flow:
    """``values`` by number; ``buffer_of``: the number of the first value of each one's buffer.

    ``parameters``: of the entry, the values of each; ``results``: those that are live at the end.
    """

    values: list[Written]
    parameters: list[list[int]]
    results: list[int]
    buffer_of: list[int]


def flow_of(module: Module) -> Flow:
    """Raise HloError where the module contradicts itself."""
    walk = _Walk(module)
    parameters = [walk.write_all(module.entry.instructions[place]) for place in module.entry.parameters]
    root = walk.run(module.entry, parameters, 0)
    results = list(dict.fromkeys(root))
    for value in results:
        walk.values[value].end = walk.time
    shape = module.entry.instructions[module.entry.root].shape
    for index, number, inside in module.aliases:
        if number >= len(parameters):
            raise HloError(f"there is no parameter {number} to alias")
        parameter = module.entry.instructions[module.entry.parameters[number]].shape
        walk.unite(root[shape.place(index)], parameters[number][parameter.place(inside)])
    return Flow(walk.values, parameters, results, [walk.buffer(value) for value in range(len(walk.values))])


class _Walk:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.values: list[Written] = []
        self.time = 0
        self._parent: list[int] = []  # of values in one buffer
        self._same: dict[int, int] = {}  # loop parameters that are what the loop began with
        self._finished = 0  # computations

    def write(self, by: Instruction, shape: Shape) -> int:
        self.values.append(Written(by, shape, self.time, self.time))
        self._parent.append(len(self._parent))
        return len(self.values) - 1

    def write_all(self, by: Instruction) -> list[int]:
        return [self.write(by, shape) for shape in by.shape.flat()]

    def unite(self, one: int, other: int) -> None:
        one, other = self.buffer(one), self.buffer(other)
        self._parent[max(one, other)] = min(one, other)

    def buffer(self, value: int) -> int:
        while self._parent[value] != value:
            self._parent[value] = self._parent[self._parent[value]]
            value = self._parent[value]
        return value

    def run(self, computation: Computation, parameters: Sequence[list[int]], depth: int) -> list[int]:
        """Walk through ``computation`` and return the values of its result."""
        if depth > MOST_NESTED or max(self.time, len(self.values)) > MOST_INSTRUCTIONS:
            raise HloError("its computations are nested too deeply, or in a circle")
        found: list[list[int]] = []
        written: list[tuple[int, int]] = []
        position = positions(computation)
        for place, each in enumerate(computation.instructions):
            operands = [found[place] for place in each.operands]
            if each.opcode == "parameter":
                if each.number >= len(parameters) or len(parameters[each.number]) != each.shape.nodes:
                    raise HloError(f"{each.name} of {computation.name} gets another shape")
                found.append(parameters[each.number])
            else:
                found.append(self._result(each, operands, depth))
                written.extend((value, place) for value in found[-1] if self.values[value].by is each)
                if len(found[-1]) != each.shape.nodes:
                    raise HloError(f"{each.name} has another shape than what it names")
                self._read(each, operands)
            self.time += 1
        self._finished += 1
        for value, place in written:
            self.values[value].order = self._finished, position[place]
        root = found[computation.root]
        for value in root:
            self.values[value].end = max(self.values[value].end, self.time - 1)
        return root

    def _read(self, each: Instruction, operands: list[list[int]]) -> None:
        if each.opcode == "tuple" or each.opcode == "while":
            return
        for values in operands:
            for value in values[:1] if each.opcode in ("get-tuple-element", "copy") else values:
                self.values[value].end = self.time

    def _result(self, each: Instruction, operands: list[list[int]], depth: int) -> list[int]:
        match each.opcode:
            case "tuple":
                inside = [value for values in operands for value in values]
                return [self.write(each, each.shape), *inside]
            case "get-tuple-element":
                return self._part(each, operands)
            case "while":
                return self._while(each, operands, depth)
            case "conditional":
                return self._conditional(each, operands, depth)
            case "call" if each.called:
                return self.run(self.module.called(each)[0], operands, depth + 1)
            case opcode if opcode in _THROUGH or opcode.endswith("-done"):
                return self._through(each, operands[0])
        return self._written(each, operands)

    def _part(self, each: Instruction, operands: list[list[int]]) -> list[int]:
        values = operands[0]
        shape = self._shape_of(values)
        start = shape.place((each.number,))
        return values[start : start + shape.parts[each.number].nodes]

    def _shape_of(self, values: list[int]) -> Shape:
        return self.values[values[0]].shape

    def _through(self, each: Instruction, values: list[int]) -> list[int]:
        """Of an asynchronous op's end: the part of its beginning that is its result."""
        if len(values) == each.shape.nodes:
            return values
        shape = self._shape_of(values)
        wanted = [at for at, part in enumerate(shape.parts) if part.flat() == each.shape.flat()]
        if each.opcode == "copy-done":
            wanted = wanted[:1]
        if not wanted:
            return self.write_all(each)
        start = shape.place((wanted[-1],))
        return values[start : start + each.shape.nodes]

    def _while(self, each: Instruction, operands: list[list[int]], depth: int) -> list[int]:
        if len(operands) != 1 or len(each.called) != 2:
            raise HloError(f"{each.name} is no loop")
        initial = operands[0]
        condition, body = self.module.called(each)
        if len(condition.parameters) != 1 or len(body.parameters) != 1:
            raise HloError(f"{each.name} has not one parameter")
        before = [self._phi(condition, value) for value in initial]
        self.run(condition, [before], depth + 1)
        inside = [self._phi(body, value) for value in initial]
        for value in initial:
            self.values[value].end = max(self.values[value].end, self.time)
        after = self.run(body, [inside], depth + 1)
        if len(after) != len(initial):
            raise HloError(f"{each.name} returns another shape than it takes")
        results = []
        for first, tested, phi, last in zip(initial, before, inside, after, strict=True):
            if self._resolved(last) == phi:  # it goes through the loop as it is
                for same in (tested, phi):
                    self.values[first].end = max(self.values[first].end, self.values[same].end)
                    self._forward(same, first)
                results.append(first)
                continue
            results.append(self.write(each, self.values[first].shape))
            for other in (tested, phi, last, results[-1]):
                self.unite(first, other)
        return results

    def _phi(self, computation: Computation, like: int) -> int:
        by = computation.instructions[computation.parameters[0]]
        return self.write(by, self.values[like].shape)

    def _resolved(self, value: int) -> int:
        return self._same.get(value, value)

    def _forward(self, value: int, to: int) -> None:
        self.unite(value, to)
        self._same[value] = to
        self.values[value].end = -1

    def _conditional(self, each: Instruction, operands: list[list[int]], depth: int) -> list[int]:
        branches = self.module.called(each)
        if len(branches) != len(operands) - 1:
            raise HloError(f"{each.name} has not one operand for each branch")
        found = [
            self.run(branch, [given], depth + 1) for branch, given in zip(branches, operands[1:], strict=True)
        ]
        results = []
        for at, shape in enumerate(each.shape.flat()):
            phi = self.write(each, shape)
            for values in found:
                if at >= len(values):
                    raise HloError(f"{each.name} has another shape than its branches")
                self.unite(phi, values[at])
            results.append(phi)
        return results

    def _written(self, each: Instruction, operands: list[list[int]]) -> list[int]:
        found = self.write_all(each)
        for index, operand, inside in overwrites(self.module, each):
            if operand < len(operands):
                values = operands[operand]
                self.unite(found[each.shape.place(index)], values[self._shape_of(values).place(inside)])
        for place, shape in enumerate(each.shape.flat()):
            self.values[found[place]].may_share = tuple(
                values[0]
                for number, values in enumerate(operands)
                if len(values) == 1
                and self._shape_of(values) == shape
                and shares_with(self.module, each, number, place)
            )
        return found


def positions(computation: Computation) -> list[int]:
    """Return where each instruction stands when operands are visited depth first, beginning at the result."""
    found: dict[int, int] = {}
    entered: set[int] = set()
    waiting = [*reversed(range(len(computation.instructions))), computation.root]
    while waiting:
        place = waiting[-1]
        if place in entered:
            waiting.pop()
            found.setdefault(place, len(found))
        else:
            entered.add(place)
            waiting.extend(reversed(computation.instructions[place].operands))
    return [found[place] for place in range(len(found))]
