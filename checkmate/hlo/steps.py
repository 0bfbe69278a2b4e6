"""The ops of a computation as a plan counts them: calls inlined, tuples taken apart, and what XLA fuses as
one op, where it has not been fused yet.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from checkmate.hlo.elementwise import ELEMENTWISE, IN_PLACE, overwrites, shares_with
from checkmate.hlo.module import (
    MOST_INSTRUCTIONS,
    MOST_NESTED,
    Computation,
    HloError,
    Instruction,
    Module,
    Shape,
)

_BODIES = frozenset({"fusion", "while", "conditional", "call"})
_THROUGH = frozenset({"bitcast", "opt-barrier", "optimization-barrier", "add-dependency", "domain"})
_PARTS = frozenset({"slice", "dynamic-slice", "gather"})  # they read no more than they write
_VIEWS = frozenset({"reshape", "broadcast", "iota", "bitcast-convert", "real", "imag"})
FUSIBLE = ELEMENTWISE | _VIEWS | _PARTS | {"transpose", "pad", "reverse", "concatenate", "reduce-precision"}
_ENDS = FUSIBLE | IN_PLACE | {"reduce"}  # what may end a fusion
_EFFECTS = ("infeed", "outfeed", "send", "recv", "rng", "all-", "collective-", "reduce-scatter", "partition")
# What XLA does not compute again in each reader.
_EXPENSIVE = frozenset({
    "atan2", "cbrt", "cosine", "divide", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one",
    "logistic", "power", "remainder", "rsqrt", "sine", "sqrt", "tan", "tanh",
})  # fmt: skip
_WIDE = 8  # a broadcast so many times larger than what it reads is made where it is read


@dataclass(eq=False)
class Step:
    """``members``: instructions that are one op, in order; the last writes. ``reads``, ``writes``: numbers of
    values. ``over``: pairs (written, read) of one buffer. ``inner``: bytes needed beside them meanwhile.
    ``products``: multiply-adds. ``moved``: bytes that all runs of a loop's body read and write.
    """

    members: list[Instruction]
    reads: list[int]
    writes: list[int]
    over: list[tuple[int, int]] = field(default_factory=list)
    inner: int = 0
    products: float = 0.0
    moved: float = 0.0

    @property
    def last(self) -> Instruction:
        return self.members[-1]

    @property
    def has_effects(self) -> bool:
        return any(each.opcode.startswith(_EFFECTS) for each in self.members)


@dataclass(eq=False)
class Steps:
    """``values``: the shape of each. ``constants``: values that nothing computes."""

    steps: list[Step] = field(default_factory=list)
    values: list[Shape] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    constants: set[int] = field(default_factory=set)
    parameters: list[list[int]] = field(default_factory=list)
    results: list[int] = field(default_factory=list)

    @property
    def arguments(self) -> set[int]:
        return {value for values in self.parameters for value in values}

    def new(self, shape: Shape, name: str) -> int:
        self.values.append(shape)
        self.names.append(name)
        return len(self.values) - 1

    def bytes_of(self, values: Iterable[int]) -> int:
        return sum(self.values[value].bytes for value in values)

    def moved(self, step: Step) -> float:
        """The bytes that a step reads and writes."""
        if step.moved:
            return step.moved
        written = self.bytes_of(step.writes)
        if len(step.members) == 1 and step.last.opcode in _PARTS:
            return 2 * written
        over = {read for _, read in step.over} if step.last.opcode in IN_PLACE else set()
        return self.bytes_of(set(step.reads) - over) + (0 if over else written)

    def inner_bytes(self) -> int:
        """The bytes that one run holds at most, beside what goes in and out."""
        return self.fullest({*self.results, *self.constants, *self.arguments}, set())[0]

    def fullest(self, outside: set[int], kept: set[int]) -> tuple[int, int, list[int]]:
        """Return the most bytes that are live at once, the place of the step that they are live in, and which
        values these are. Those ``outside`` do not count, and those ``kept`` stay to the end.
        """
        last = {value: at for at, step in enumerate(self.steps) for value in (*step.reads, *step.writes)}
        last.update(dict.fromkeys(kept, len(self.steps)))
        ending: dict[int, list[int]] = {}
        for value in last.keys() - outside:
            ending.setdefault(last[value], []).append(value)
        live, most, place, gone = 0, -1, 0, set[int]()
        for at, step in enumerate(self.steps):
            live += self.bytes_of(set(step.writes) - outside)
            over = {read for _, read in step.over if last[read] == at} - outside
            if live + step.inner - self.bytes_of(over) > most:
                most, place, gone = live + step.inner - self.bytes_of(over), at, over
            live -= self.bytes_of(ending.get(at, ()))
        born = {value: at for at, step in enumerate(self.steps) for value in step.writes}
        held = [value for value in born if born[value] <= place <= last[value]]
        return max(0, most), place, [value for value in held if value not in outside and value not in gone]


class Reader:
    """Makes the steps of computations; ``module.scheduled`` ones are fused already."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._seen = 0  # instructions, those of calls each time
        self._bodies: dict[str, Steps] = {}
        self._products: dict[str, float] = {}

    def steps(self, computation: Computation, depth: int = 0) -> Steps:
        """Raise HloError where the module contradicts itself."""
        found = Steps()
        for place in computation.parameters:
            each = computation.instructions[place]
            found.parameters.append([found.new(shape, each.name) for shape in each.shape.flat()])
        found.results = self._walk(found, computation, found.parameters, depth)
        _drop_unread(found)
        return found if self.module.scheduled else in_order(fused(found))

    def _walk(
        self, found: Steps, computation: Computation, given: Sequence[list[int]], depth: int
    ) -> list[int]:
        self._seen += len(computation.instructions)
        if depth > MOST_NESTED or self._seen > MOST_INSTRUCTIONS:
            raise HloError("its computations are nested too deeply, or in a circle")
        known: list[list[int]] = []
        for each in computation.instructions:
            operands = [known[place] for place in each.operands]
            known.append(self._result(found, each, operands, given, depth))
            if len(known[-1]) != each.shape.nodes:
                raise HloError(f"{each.name} has another shape than what it names")
        return known[computation.root]

    def _result(
        self,
        found: Steps,
        each: Instruction,
        operands: list[list[int]],
        given: Sequence[list[int]],
        depth: int,
    ) -> list[int]:
        if each.opcode == "parameter":
            if each.number >= len(given):
                raise HloError(f"{each.name} is given nothing")
            return given[each.number]
        if each.opcode == "tuple":
            return [self._pointers(found, each), *(value for values in operands for value in values)]
        if each.opcode == "get-tuple-element":
            shape = found.values[operands[0][0]]
            start = shape.place((each.number,))
            return operands[0][start : start + shape.parts[each.number].nodes]
        if each.opcode == "call" and each.called:
            return self._walk(found, self.module.called(each)[0], operands, depth + 1)
        first = operands[0] if operands else []
        copied = each.opcode == "copy" and depth == 0 and found.arguments.issuperset(first)
        through = copied or each.opcode in _THROUGH or each.opcode.endswith("-done")
        if through and first and len(first) == each.shape.nodes:
            return first
        return self._op(found, each, operands, depth)

    def _pointers(self, found: Steps, each: Instruction) -> int:
        value = found.new(each.shape._replace(bytes=0), each.name)
        found.constants.add(value)
        return value

    def _op(self, found: Steps, each: Instruction, operands: list[list[int]], depth: int) -> list[int]:
        shapes = each.shape.flat()
        results = [
            self._pointers(found, each)
            if shape.parts or each.opcode == "constant"
            else found.new(shape, each.name)
            for shape in shapes
        ]
        if each.opcode == "constant":
            return results
        if each.opcode == "while":
            if len(operands) != 1 or len(each.called) != 2:
                raise HloError(f"{each.name} is no loop")
            for at in self._unchanged(each):
                place = each.shape.place((at,))
                if not shapes[place].parts and place < len(operands[0]):
                    results[place] = operands[0][place]
        before = {value for values in operands for value in values}
        writes = [value for value in results if value not in found.constants and value not in before]
        reads = list(dict.fromkeys(value for values in operands for value in values))
        products = self._products_of(each, [found.values[values[0]] for values in operands])
        step = Step([each], reads, writes, products=products)
        if each.opcode in ("while", "conditional"):
            bodies = [self._body(part, depth) for part in self.module.called(each)]
            step.inner = max((body.inner_bytes() for body in bodies), default=0)
            step.moved = self._runs(each) * sum(body.moved(one) for body in bodies for one in body.steps)
        step.over = [pair for pair in self._over(found, each, operands, results) if pair[0] in writes]
        found.steps.append(step)
        return results

    def _unchanged(self, each: Instruction) -> Iterator[int]:
        body = self.module.called(each)[-1]
        root = body.instructions[body.root]
        for at, place in enumerate(root.operands if root.opcode == "tuple" else ()):
            part = body.instructions[place]
            same = part.opcode == "get-tuple-element" and part.number == at
            if same and body.instructions[part.operands[0]].opcode == "parameter":
                yield at

    def _over(
        self, found: Steps, each: Instruction, operands: list[list[int]], results: list[int]
    ) -> Iterator[tuple[int, int]]:
        if each.opcode == "while":
            yield from zip(results, operands[0], strict=False)
        for index, operand, inside in overwrites(self.module, each):
            if operand < len(operands):
                shape = found.values[operands[operand][0]]
                yield results[each.shape.place(index)], operands[operand][shape.place(inside)]
        for place, value in enumerate(results):
            for number, values in enumerate(operands):
                alike = len(values) == 1 and found.values[values[0]] == found.values[value]
                if alike and shares_with(self.module, each, number, place):
                    yield value, values[0]

    def _body(self, part: Computation, depth: int) -> Steps:
        if part.name not in self._bodies:
            self._bodies[part.name] = self.steps(part, depth + 1)
        return self._bodies[part.name]

    def _products_of(self, each: Instruction, shapes: Sequence[Shape], depth: int = 0) -> float:
        """Multiply-adds of an instruction whose operands have ``shapes``, with those of what it calls."""
        if depth > MOST_NESTED:
            raise HloError("its computations are nested too deeply, or in a circle")
        found = _multiply_adds(each, shapes)
        bodies = self.module.called(each) if each.opcode in _BODIES else ()
        for part in bodies:
            if part.name not in self._products:
                told = ([part.instructions[at].shape for at in one.operands] for one in part.instructions)
                pairs = zip(part.instructions, told, strict=True)
                self._products[part.name] = sum(self._products_of(*pair, depth + 1) for pair in pairs)
            found += self._products[part.name] * self._runs(each)
        return found

    def _runs(self, each: Instruction) -> float:
        """How often a loop runs, if its condition compares with a constant."""
        if each.opcode != "while" or not each.called:
            return 1.0
        condition = self.module.called(each)[0]
        limits = [one.number for one in condition.instructions if one.opcode == "constant"]
        return float(max(1, *limits)) if limits else 1.0


def _drop_unread(found: Steps) -> None:
    wanted, kept = set(found.results), []
    for step in reversed(found.steps):
        if step.has_effects or not wanted.isdisjoint(step.writes):
            wanted.update(step.reads)
            kept.append(step)
    found.steps = kept[::-1]


def fused(found: Steps) -> Steps:
    """Join what XLA will probably fuse: what one reader alone needs, and views and constants into each."""
    steps = found.steps
    maker = {value: at for at, step in enumerate(steps) for value in step.writes}
    free = _free(found)
    readers: dict[int, set[int]] = {}
    for at in reversed(range(len(steps))):
        through = readers.get(steps[at].writes[0], set()) if at in free else {at}
        for value in steps[at].reads:
            readers.setdefault(value, set()).update(through)
    group = list(range(len(steps)))
    for at in reversed(range(len(steps))):
        step = steps[at]
        if at in free or len(step.writes) != 1 or step.writes[0] in found.results or step.has_effects:
            continue
        homes = {group[reader] for reader in readers.get(step.writes[0], ())}
        if len(homes) == 1 and _joins(step.last, steps[next(iter(homes))].last):
            group[at] = homes.pop()
    members: dict[int, list[int]] = {}
    for at in range(len(steps)):
        if at not in free:
            members.setdefault(group[at], []).append(at)
    found.steps = [_joined(found, members[last], maker, free) for last in sorted(members)]
    return found


def _free(found: Steps) -> set[int]:
    """Return the steps that each reader repeats: views, what is made of constants, and what is cheap and made
    of one large value, as XLA duplicates it.
    """
    constant, free = set(found.constants), set[int]()
    ends: dict[int, bool] = {}  # of each value, whether all that read it may compute it
    for step in found.steps:
        for value in step.reads:
            ends[value] = ends.get(value, True) and step.last.opcode in _ENDS
    for at, step in enumerate(found.steps):
        if len(step.writes) != 1 or step.writes[0] in found.results:
            continue
        opcode, written = step.last.opcode, step.writes[0]
        derived = opcode in FUSIBLE and constant.issuperset(step.reads)
        wide = _WIDE * found.bytes_of(step.reads) <= found.bytes_of(step.writes)
        large = [
            value for value in step.reads if _WIDE * found.values[value].bytes > found.values[written].bytes
        ]
        cheap = opcode in ELEMENTWISE - _EXPENSIVE and len(set(large) - constant) < 2 and ends.get(written)
        if derived:
            constant.add(written)
        if derived or cheap or (opcode in _VIEWS and (opcode != "broadcast" or wide)):
            free.add(at)
    return free


def _joins(each: Instruction, last: Instruction) -> bool:
    if each.opcode in ("dot", "convolution"):
        return last.opcode == "transpose"
    if last.opcode in ("dot", "convolution"):
        return each.opcode in ("transpose", "convert")
    return each.opcode in FUSIBLE and last.opcode in _ENDS


def _joined(found: Steps, members: list[int], maker: dict[int, int], free: set[int]) -> Step:
    inside = set(members)
    waiting = list(members)
    while waiting:
        for value in found.steps[waiting.pop()].reads:
            at = maker.get(value, -1)
            if at in free and at not in inside:
                inside.add(at)
                waiting.append(at)
    if len(inside) == 1:
        return found.steps[members[0]]
    ordered = [found.steps[at] for at in sorted(inside)]
    last = found.steps[members[-1]]
    made = {value for step in ordered for value in step.writes}
    reads = dict.fromkeys(value for step in ordered for value in step.reads if value not in made)
    alike = all(step.last.opcode in ELEMENTWISE | _VIEWS for step in ordered)
    over = [
        (value, read)
        for value in last.writes
        for read in reads
        if alike and found.values[read][:2] == found.values[value][:2] and read not in found.constants
    ]
    over += [pair for pair in last.over if pair[1] in reads]
    instructions = [step.last for step in ordered if step is not last]
    products = sum(step.products for step in ordered)
    return Step([*instructions, last.last], list(reads), last.writes, over, last.inner, products)


def in_order(found: Steps) -> Steps:
    """Put steps into an order that needs less memory if there is one: first what frees most, as XLA does."""
    given, before = found.steps, found.inner_bytes()
    found.steps = _Order(found).steps()
    if len(found.steps) < len(given) or found.inner_bytes() > before:
        found.steps = given
    return found


class _Order:
    """Takes of the steps whose reads are written the one that frees most bytes beside what it writes."""

    def __init__(self, found: Steps) -> None:
        self._found = found
        self._written = {value for step in found.steps for value in step.writes}
        self._readers: dict[int, list[int]] = {}
        for at, step in enumerate(found.steps):
            for value in step.reads:
                self._readers.setdefault(value, []).append(at)
        self._left = {value: len(each) for value, each in self._readers.items()}
        self._waits = [len(self._written.intersection(step.reads)) for step in found.steps]
        self._ready: list[tuple[int, int]] = []

    def steps(self) -> list[Step]:
        taken: dict[int, Step] = {}
        for at, waits in enumerate(self._waits):
            self._push(at, waits)
        while self._ready:
            _, at = heapq.heappop(self._ready)
            if at in taken:
                continue
            step = taken[at] = self._found.steps[at]
            for value in step.writes:
                for reader in self._readers.get(value, ()):
                    self._waits[reader] -= 1
                    self._push(reader, self._waits[reader])
            for value in step.reads:
                self._left[value] -= 1
                if self._left[value] == 1:  # its last reader now frees it
                    for reader in self._readers[value]:
                        self._push(reader, self._waits[reader])
        return list(taken.values())

    def _push(self, at: int, waits: int) -> None:
        if waits:
            return
        step, bytes_of = self._found.steps[at], self._found.bytes_of
        freed = bytes_of(value for value in step.reads if self._left[value] == 1 and value in self._written)
        needed = bytes_of(value for value in step.writes if value in self._left)
        heapq.heappush(self._ready, (needed - freed, at))


def _multiply_adds(each: Instruction, shapes: Sequence[Shape]) -> float:
    if not each.contracted:
        return 0.0
    made = float(max(shape.elements for shape in each.shape.flat()))
    if each.opcode in ("dot", "custom-call") and shapes:
        return made * math.prod(shapes[0].dims[at] for at in each.contracted if at < len(shapes[0].dims))
    if each.opcode == "convolution" and len(shapes) > 1:
        apart = [shapes[1].dims[at] for at in each.contracted if at < len(shapes[1].dims)]
        return made * shapes[1].elements / max(1, *apart)
    return 0.0
