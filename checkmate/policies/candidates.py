"""What computing a part of a graph again frees and costs, in the ways in which its framework can do it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph
from checkmate.policies.segment import Segment, in_forward, is_keras
from checkmate.runner import TORCH

NO_LAYERS = ("", "inputs", "loss", "optimizer")
_FAR = 2**31  # a unit behind all others
_PRODUCTS = ("Conv", "MatMul", "Einsum")  # in the types of TensorFlow's ops
# PyTorch runs these by other ops than the traced step has, or has them in more than one form.
_OTHER_AT_RUN_TIME = ("native_dropout", "clone", "add", "_native_batch_norm_legit_functional")


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
            if maker < 0 or not in_forward(graph, maker) or not any(graph.late[op] for op in ops):
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
class Candidates:
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
    def of(cls, graph: Graph, names: tuple[str, ...], unit: list[int]) -> Candidates:
        sources, readers = graph.predecessors.lists(), graph.successors.lists()
        for op in range(graph.n):
            # An op that was fused into another layer's leaves its own layer without forward ops.
            if graph.late[op] and unit[op] < 0 and graph.ops[op].group not in NO_LAYERS:
                unit[op] = max((unit[s] for s in sources[op] if in_forward(graph, s)), default=-1)
        ops: list[list[int]] = [[] for _ in names]
        for op in range(graph.n):
            if unit[op] >= 0 and in_forward(graph, op):
                ops[unit[op]].append(op)
        read_late = [
            [reader for reader in readers[op] if graph.late[reader]] if in_forward(graph, op) else []
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
