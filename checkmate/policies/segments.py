"""The segments that a policy can choose: layers, blocks and runs of layers that are computed again as one.

A framework keeps a segment's inputs, and runs it again right before its backward pass first reads what is
inside (``jax.checkpoint``, ``keras.remat``, ``torch.utils.checkpoint``). What the backward pass does not need
is left out: TensorFlow and JAX prune it, PyTorch stops early. What it needs is computed even where another
reader still holds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph, Phase, Schedule
from checkmate.memory.simulate import simulate
from checkmate.runner import TENSORFLOW, TORCH

_LONGEST = 48  # layers of a run
_NO_LAYERS = ("", "inputs", "loss", "optimizer")
_FAR = 2**31  # a unit behind all others
_PRODUCTS = ("Conv", "MatMul", "Einsum")  # in the types of TensorFlow's ops
# PyTorch runs these by other ops than the traced step has, or has them in more than one form.
_OTHER_AT_RUN_TIME = ("native_dropout", "clone", "add", "_native_batch_norm_legit_functional")


@dataclass(frozen=True)
class Segment:
    """The units from ``first`` up to ``end``, without it, that are computed again as one.

    ``name``: of the module or scope; empty for a run of layers. ``again``: the ops that run again, in order,
    right before the late op ``before``. ``reads``: the buffers, by their owners, that are read from outside.
    ``cost``: that of ``again``, in the graph's unit. ``freed``: about the bytes that need no longer stay
    between the passes. ``kept``: what is not computed again inside: layers of Keras, else types of ops.
    ``held``: the buffers, by their owners, that are held for it until the backward pass.
    """

    name: str
    first: int
    end: int
    again: tuple[int, ...]
    before: int
    reads: tuple[int, ...]
    cost: float
    freed: int
    kept: tuple[str, ...] = ()
    held: tuple[int, ...] = ()

    def overlaps(self, other: Segment) -> bool:
        return self.first < other.end and other.first < self.end


@dataclass(frozen=True, eq=False)
class Segments:
    """All segments of a graph by rising end.

    ``units``: the names of what they consist of; a run's are contiguous, and so are a module's. ``unit``: of
    each op, its unit; -1 for none.
    """

    graph: Graph
    units: tuple[str, ...]
    found: tuple[Segment, ...]
    unit: tuple[int, ...]

    @cached_property
    def spans(self) -> dict[tuple[int, int], list[Segment]]:
        """By first unit and end, the segments there."""
        spans: dict[tuple[int, int], list[Segment]] = {}
        for segment in self.found:
            spans.setdefault((segment.first, segment.end), []).append(segment)
        return spans

    @classmethod
    def of(cls, graph: Graph) -> Segments:
        """Return a Keras model's runs of layers, and the modules or scopes of other steps."""
        keras = is_keras(graph)
        layers = [_layer_path(op.group, whole=keras) for op in graph.ops]
        first: dict[tuple[str, ...], int] = {}  # of each module or scope, the first op of the forward pass
        paths = {path: op for op, path in enumerate(layers) if path and _in_forward(graph, op)}
        for op in range(graph.n):
            for length in range(1, len(layers[op]) + 1 if _in_forward(graph, op) else 0):
                first.setdefault(layers[op][:length], op)
        ordered = sorted(paths, key=lambda path: [first[path[: i + 1]] for i in range(len(path))])
        unit = {path: number for number, path in enumerate(ordered)}
        separator = "." if any("." in op.group for op in graph.ops) else "/"
        names = tuple(separator.join(path) for path in ordered)
        inside = _Inside.of(graph, names, [unit.get(path, -1) for path in layers])
        spans = _runs(len(ordered)) if keras else _modules(ordered, separator)
        # A `ModuleList` is no segment: nobody calls it.
        called = graph.origin.modules
        found = (
            each
            for name, first, end in spans
            if not called or name in called
            for each in inside.ways(name, first, end)
        )
        return cls(graph, names, tuple(found), tuple(inside.unit))

    def shown(self, segment: Segment) -> str:
        """Return the segment's name: the module or scope, or the first and the last layer."""
        first, last = self.units[segment.first], self.units[segment.end - 1]
        name = segment.name or (first if first == last else f"{first} to {last}")
        return f"{name}, except {', '.join(segment.kept)}" if segment.kept else name

    def steps(self, chosen: Collection[Segment]) -> list[int]:
        """Return the steps of the policy that computes the ``chosen`` segments again; they do not overlap."""
        again = {segment.before: segment.again for segment in chosen}
        return [step for op in range(self.graph.n) for step in (*again.get(op, ()), op)]

    def peak_bytes(self, chosen: Collection[Segment]) -> int:
        """Return the peak of the policy, with what TensorFlow copies and what PyTorch holds in vain."""
        steps = self.steps(chosen)
        live = simulate(self.graph, Schedule.of(self.graph, steps)).live_bytes.copy()
        last = {op: step for step, op in enumerate(steps)}
        extra = self._copied if is_keras(self.graph) else self._held
        for segment in chosen:
            begin = last[segment.before] - len(segment.again)
            for first, end, size in extra(segment, begin, last):
                live[first:end] += size
        return int(live.max())

    def _copied(
        self, segment: Segment, begin: int, last: Mapping[int, int]
    ) -> Iterator[tuple[int, int, int]]:
        """Yield the steps and the bytes that ``tf.recompute_grad`` has twice: it adds a zero to each input,
        and the sum is a copy where something else still reads the input.
        """
        graph, again = self.graph, set(segment.again)
        for owner in segment.reads:
            own, other = begin, -1
            for reader in self._readers[owner]:
                inside = segment.first <= self.unit[reader] < segment.end and graph.late[reader]
                if inside or reader in again:
                    own = max(own, last[reader])
                else:
                    other = max(other, last[reader])
            yield begin, min(own, other) + 1, graph.values[owner].bytes

    def _held(self, segment: Segment, begin: int, last: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
        """Yield the steps and the bytes of what PyTorch holds and nothing reads: until the segment runs
        again, or until its backward pass ends if it was given from outside or is made behind what runs again.
        """
        late = (
            op
            for op, unit in enumerate(self.unit)
            if self.graph.late[op] and segment.first <= unit < segment.end
        )
        over = max((last[op] for op in late), default=begin)
        for owner in segment.held:
            made = int(self.graph.producer[owner])
            read = max((last[reader] for reader in self._readers.get(owner, ())), default=last[made])
            inside = segment.first <= self.unit[made] < segment.end
            end = begin if inside and made < segment.again[-1] else over + 1
            yield max(read, last[made]) + 1, end, self.graph.values[owner].bytes

    @cached_property
    def _readers(self) -> dict[int, list[int]]:
        """By the owner of a buffer, the ops that read it."""
        found: dict[int, list[int]] = {}
        for value, readers in enumerate(self.graph.value_readers.lists()):
            found.setdefault(int(self.graph.owner[value]), []).extend(readers)
        return found


def is_keras(graph: Graph) -> bool:
    return graph.runner.backend == TENSORFLOW


def _layer_path(group: str, *, whole: bool) -> tuple[str, ...]:
    """Split a layer's name; ``whole``: into the outermost layer only."""
    if group in _NO_LAYERS:
        return ()
    return (group.partition("/")[0],) if whole else tuple(group.replace(".", "/").split("/"))


def _in_forward(graph: Graph, op: int) -> bool:
    return graph.ops[op].phase is Phase.FORWARD


def _runs(count: int) -> Iterator[tuple[str, int, int]]:
    for end in range(1, count + 1):
        for first in range(max(0, end - _LONGEST), end):
            yield "", first, end


def _modules(ordered: Sequence[tuple[str, ...]], separator: str) -> Iterator[tuple[str, int, int]]:
    spans: dict[tuple[str, ...], list[int]] = {}
    for number, path in enumerate(ordered):
        for length in range(1, len(path) + 1):
            spans.setdefault(path[:length], []).append(number)
    for path, members in sorted(spans.items(), key=lambda item: (item[1][-1], item[1][0])):
        yield separator.join(path), members[0], members[-1] + 1


def _statistics(graph: Graph) -> frozenset[int]:
    """The ops that compute a batch's mean and variance in Keras: the code to paste keeps what they make."""
    normal = {op.group for op in graph.ops if "/batchnorm/" in op.name}
    return frozenset(
        number for number, op in enumerate(graph.ops) if op.group in normal and "/moments/" in op.name
    )


@dataclass(frozen=True, eq=False)
class _Enclosed:
    """The buffers that stay for late ops alone. ``first`` and ``last``: of each, the units that make and read
    it; ``maker``: its op; ``bytes``: its size.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    maker: NDArray[np.int64]
    bytes: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph, unit: Sequence[int]) -> _Enclosed:
        readers: dict[int, set[int]] = {}  # of each buffer
        for value in range(graph.m):
            owner = int(graph.owner[value])
            readers.setdefault(owner, set()).update(graph.value_readers[value].tolist())
        rows = []
        for owner, ops in readers.items():
            maker = int(graph.producer[owner])
            if maker < 0 or not _in_forward(graph, maker) or not any(graph.late[op] for op in ops):
                continue
            units = [unit[op] for op in (maker, *ops)]
            if min(units) >= 0 and not graph.keep[owner] and graph.recomputable[maker]:
                rows.append((min(units), max(units), maker, graph.values[owner].bytes))
        return cls(*np.array(rows, np.int64).reshape(-1, 4).T)

    def within(self, first: int, end: int, stays: Collection[int]) -> int:
        """Return the bytes of the units from ``first`` up to ``end``, without what the ops ``stays`` make."""
        inside = (self.first >= first) & (self.last < end) & ~np.isin(self.maker, list(stays))
        return int(self.bytes[inside].sum())


@dataclass(frozen=True, eq=False)
class _Inside:
    """What a segment takes to make. ``names``: of the units. ``unit``: of each op, also of late ones; -1 for
    none. ``ops``: of each unit, its forward ops. ``read_late``: of each forward op, the late ops that read
    what it makes. ``statistics``: the ops that are never computed again.
    """

    graph: Graph
    names: tuple[str, ...]
    unit: list[int]
    ops: list[list[int]]
    read_late: list[list[int]]
    enclosed: _Enclosed
    statistics: frozenset[int]

    @classmethod
    def of(cls, graph: Graph, names: tuple[str, ...], unit: list[int]) -> _Inside:
        sources, readers = graph.predecessors.lists(), graph.successors.lists()
        for op in range(graph.n):
            # An op that was fused into another layer's leaves its own layer without forward ops.
            if graph.late[op] and unit[op] < 0 and graph.ops[op].group not in _NO_LAYERS:
                unit[op] = max((unit[s] for s in sources[op] if _in_forward(graph, s)), default=-1)
        ops: list[list[int]] = [[] for _ in names]
        for op in range(graph.n):
            if unit[op] >= 0 and _in_forward(graph, op):
                ops[unit[op]].append(op)
        read_late = [
            [reader for reader in readers[op] if graph.late[reader]] if _in_forward(graph, op) else []
            for op in range(graph.n)
        ]
        statistics = _statistics(graph) if is_keras(graph) else frozenset[int]()
        return cls(graph, names, unit, ops, read_late, _Enclosed.of(graph, unit), statistics)

    def ways(self, name: str, first: int, end: int) -> Iterator[Segment]:
        """Yield the segments of these units, whole and with something kept."""
        whole = self.segment(name, first, end, ())
        if whole is None:
            return
        yield whole
        if is_keras(self.graph):
            # What is kept waits for its turn by control dependencies, which XLA ignores.
            if self.graph.runner.compiled:
                return
            products = tuple(self.names[unit] for unit in range(first, end) if self._products[unit])
            part = self.segment(name, first, end, products) if products else None
            if part is not None:
                yield part
        else:
            yield from self._keeping_types(whole)

    def _keeping_types(self, segment: Segment) -> Iterator[Segment]:
        """Yield the segment keeping more and more of it: each time the type of op that saves the most cost
        for the bytes that it takes.
        """
        best: Segment | None = segment
        while best is not None:
            before = best
            types = sorted({self.graph.ops[op].type for op in before.again}.difference(_OTHER_AT_RUN_TIME))
            ways = (
                self.segment(before.name, before.first, before.end, (*before.kept, kind)) for kind in types
            )
            cheaper = [way for way in ways if way is not None and way.cost < before.cost]
            best = min(cheaper, key=lambda way: _bytes_per_cost(before, way), default=None)
            if best is not None:
                yield best

    @cached_property
    def _products(self) -> list[list[int]]:
        """Of each unit, the products that make what others read of it, if its own backward pass reads none of
        that: a layer of Keras can have its output kept then.
        """
        readers = self.graph.successors.lists()
        found = []
        for unit, ops in enumerate(self.ops):
            outputs = [op for op in ops if any(self.unit[reader] != unit for reader in readers[op])]
            read = any(self.unit[late] == unit for op in outputs for late in self.read_late[op])
            products = all(any(each in self.graph.ops[op].type for each in _PRODUCTS) for op in outputs)
            found.append(outputs if products and not read else [])
        return found

    def _stays(self, first: int, end: int, kept: Collection[str]) -> set[int]:
        """Return the ops inside that are not computed again."""
        if is_keras(self.graph):
            units = [unit for unit in range(first, end) if self.names[unit] in kept]
            return {*self.statistics, *(op for unit in units for op in self._products[unit])}
        inside = (op for unit in range(first, end) for op in self.ops[unit])
        return {op for op in inside if self.graph.ops[op].type in kept}

    def segment(self, name: str, first: int, end: int, kept: tuple[str, ...]) -> Segment | None:
        """Return the segment of these units; None where it frees nothing, or would compute other numbers."""
        graph = self.graph
        inside = [op for unit in range(first, end) for op in self.ops[unit]]
        stays = self._stays(first, end, kept)
        freed = self.enclosed.within(first, end, stays)
        if not freed or (is_keras(graph) and any("Random" in graph.ops[op].type for op in inside)):
            return None  # Keras draws another mask when it computes a dropout again
        members, sources = set(inside), graph.predecessors.lists()
        needed, before, read = set[int](), _FAR, set[int]()
        for op in sorted(inside, reverse=True):
            own = [late for late in self.read_late[op] if first <= self.unit[late] < end]
            if (own or op in needed) and graph.recomputable[op] and op not in stays:
                needed.add(op)
                needed.update(source for source in sources[op] if source in members)
                read.update(graph.op_inputs[op].tolist())
                before = min([before, *own])
        outside = {value for value in read if int(graph.producer[value]) not in members}
        held = self._held(inside, stays, read)
        freed -= self._held_anew({*outside, *held})
        again = tuple(op for op in sorted(needed) if graph.recomputable[op] and op not in stays)
        ready = max((*again, *(int(graph.producer[value]) for value in outside)), default=before)
        if before == _FAR or freed <= 0 or before < ready:
            return None
        cost = float(graph.cost[list(again)].sum())
        reads, holds = self._owners(outside), self._owners(held)
        return Segment(name, first, end, again, before, reads, cost, freed, kept, holds)

    def _held(self, inside: Collection[int], stays: Collection[int], read: Collection[int]) -> set[int]:
        """The values that are held for the segment. PyTorch holds all that the ops ``stays`` make, and all
        that the module was given; JAX what is read.
        """
        graph, members = self.graph, set(inside)
        made = {value for op in stays for value in graph.op_outputs[op].tolist()}
        if graph.runner.backend != TORCH:
            return made.intersection(read)
        given = {value for op in inside for value in graph.op_inputs[op].tolist()}
        return made | {value for value in given if int(graph.producer[value]) not in members}

    def _held_anew(self, read: Collection[int]) -> int:
        """The bytes of inputs that no late op would read without the segment."""
        graph = self.graph
        anew = [v for v in read if not (self.read_late[graph.producer[v]] or graph.keep[v])]
        return sum(graph.values[owner].bytes for owner in self._owners(anew))

    def _owners(self, values: Collection[int]) -> tuple[int, ...]:
        return tuple(sorted({int(self.graph.owner[value]) for value in values}))


def _bytes_per_cost(whole: Segment, way: Segment) -> float:
    return (whole.freed - way.freed) / (whole.cost - way.cost)
