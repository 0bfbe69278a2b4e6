"""The segments that a policy can choose: layers, blocks and runs of layers that are computed again as one.

A framework keeps a segment's inputs, and runs it again right before its backward pass first reads what is
inside (``jax.checkpoint``, ``keras.remat``, ``torch.utils.checkpoint``). What the backward pass does not need
is left out: TensorFlow and JAX prune it, PyTorch stops early. What it needs is computed even where another
reader still holds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph, Phase, Schedule
from checkmate.memory.simulate import simulate
from checkmate.runner import TENSORFLOW

_LONGEST = 48  # layers of a run
_NO_LAYERS = ("", "inputs", "loss", "optimizer")
_FAR = 2**31  # a unit behind all others
_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "dot_general", "conv_general_dilated")


@dataclass(frozen=True)
class Segment:
    """The units from ``first`` up to ``end``, without it, that are computed again as one.

    ``name``: of the module or scope; empty for a run of layers. ``again``: the ops that run again, in order,
    right before the late op ``before``. ``reads``: the buffers, by their owners, that are read from outside.
    ``cost``: that of ``again``, in the graph's unit. ``freed``: about the bytes that need no longer stay
    between the passes. ``products``: whether products inside are not computed again; what they make stays.
    """

    name: str
    first: int
    end: int
    again: tuple[int, ...]
    before: int
    reads: tuple[int, ...]
    cost: float
    freed: int
    products: bool = False

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
    def spans(self) -> dict[tuple[int, int], Segment]:
        return {(segment.first, segment.end): segment for segment in self.found}

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
        inside = _Inside.of(graph, [unit.get(path, -1) for path in layers], len(ordered))
        separator = "." if any("." in op.group for op in graph.ops) else "/"
        names = tuple(separator.join(path) for path in ordered)
        spans = _runs(len(ordered)) if keras else _modules(ordered)
        ways = (False,) if keras else (False, True)
        found = (inside.segment(separator.join(path), a, b, way) for path, a, b in spans for way in ways)
        return cls(graph, names, tuple(each for each in found if each is not None), tuple(inside.unit))

    def shown(self, segment: Segment) -> str:
        """Return the segment's name: the module or scope, or the first and the last layer."""
        first, last = self.units[segment.first], self.units[segment.end - 1]
        name = segment.name or (first if first == last else f"{first} to {last}")
        return f"{name}, except products" if segment.products else name

    def steps(self, chosen: Collection[Segment]) -> list[int]:
        """Return the steps of the policy that computes the ``chosen`` segments again; they do not overlap."""
        again = {segment.before: segment.again for segment in chosen}
        return [step for op in range(self.graph.n) for step in (*again.get(op, ()), op)]

    def peak_bytes(self, chosen: Collection[Segment]) -> int:
        """Return the peak of the policy, with the copies of inputs that TensorFlow makes."""
        steps = self.steps(chosen)
        live = simulate(self.graph, Schedule.of(self.graph, steps)).live_bytes
        return int((live + self._copies(chosen, steps)).max() if is_keras(self.graph) else live.max())

    def _copies(self, chosen: Collection[Segment], steps: Sequence[int]) -> NDArray[np.int64]:
        """The bytes at each step that ``tf.recompute_grad`` has twice: it adds a zero to each input, and the
        sum is a copy where something else still reads the input.
        """
        graph, last = self.graph, {op: step for step, op in enumerate(steps)}
        copied = np.zeros(len(steps), np.int64)
        for segment in chosen:
            begin = last[segment.before] - len(segment.again)
            again = set(segment.again)
            for owner in segment.reads:
                own, other = begin, -1
                for reader in self._readers[owner]:
                    inside = segment.first <= self.unit[reader] < segment.end and graph.late[reader]
                    if inside or reader in again:
                        own = max(own, last[reader])
                    else:
                        other = max(other, last[reader])
                copied[begin : min(own, other) + 1] += graph.values[owner].bytes
        return copied

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


def is_product(kind: str) -> bool:
    """Whether an op's type is a product of PyTorch or JAX, or an attention that is one kernel."""
    return kind in _PRODUCTS or kind.startswith("_scaled_dot_product_")


def _in_forward(graph: Graph, op: int) -> bool:
    return graph.ops[op].phase is Phase.FORWARD


def _runs(count: int) -> Iterator[tuple[tuple[str, ...], int, int]]:
    for end in range(1, count + 1):
        for first in range(max(0, end - _LONGEST), end):
            yield (), first, end


def _modules(ordered: Sequence[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], int, int]]:
    spans: dict[tuple[str, ...], list[int]] = {}
    for number, path in enumerate(ordered):
        for length in range(1, len(path) + 1):
            spans.setdefault(path[:length], []).append(number)
    for path, members in sorted(spans.items(), key=lambda item: (item[1][-1], item[1][0])):
        yield path, members[0], members[-1] + 1


@dataclass(frozen=True, eq=False)
class _Inside:
    """What a segment takes to make. ``unit``: of each op, also of late ones; -1 for none. ``ops``: of each
    unit, its forward ops. ``read_late``: of each forward op, the late ops that read what it makes.
    ``enclosed``: int64[units + 1, units + 1], the bytes that stay for late ops of the units from the first
    index up to the second alone.
    """

    graph: Graph
    unit: list[int]
    ops: list[list[int]]
    read_late: list[list[int]]
    enclosed: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph, unit: list[int], count: int) -> _Inside:
        sources, readers = graph.predecessors.lists(), graph.successors.lists()
        for op in range(graph.n):
            # An op that was fused into another layer's leaves its own layer without forward ops.
            if graph.late[op] and unit[op] < 0 and graph.ops[op].group not in _NO_LAYERS:
                unit[op] = max((unit[s] for s in sources[op] if _in_forward(graph, s)), default=-1)
        ops: list[list[int]] = [[] for _ in range(count)]
        for op in range(graph.n):
            if unit[op] >= 0 and _in_forward(graph, op):
                ops[unit[op]].append(op)
        read_late = [
            [reader for reader in readers[op] if graph.late[reader]] if _in_forward(graph, op) else []
            for op in range(graph.n)
        ]
        made = cls(graph, unit, ops, read_late, np.zeros((count + 1, count + 1), np.int64))
        made._enclose()
        return made

    def _enclose(self) -> None:
        graph, unit = self.graph, self.unit
        readers: dict[int, set[int]] = {}  # of each buffer
        for value in range(graph.m):
            owner = int(graph.owner[value])
            readers.setdefault(owner, set()).update(graph.value_readers[value].tolist())
        for owner, ops in readers.items():
            maker = int(graph.producer[owner])
            if maker < 0 or not _in_forward(graph, maker) or not any(graph.late[op] for op in ops):
                continue
            units = [unit[op] for op in (maker, *ops)]
            if min(units) >= 0 and not graph.keep[owner] and graph.recomputable[maker]:
                self.enclosed[min(units), max(units) + 1] += graph.values[owner].bytes
        table = self.enclosed
        table[:] = np.cumsum(np.cumsum(table[::-1], axis=0)[::-1], axis=1)

    def segment(self, name: str, first: int, end: int, products: bool) -> Segment | None:
        """Return the segment of these units; None where it frees nothing, or would compute other numbers."""
        graph = self.graph
        inside = [op for unit in range(first, end) for op in self.ops[unit]]
        stays = {op for op in inside if products and is_product(graph.ops[op].type)}
        if products and not stays:
            return None
        freed = int(self.enclosed[first, end]) - sum(self._kept_for_late(op) for op in stays)
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
        outside = [value for value in read if int(graph.producer[value]) not in members]
        held = [value for op in stays for value in graph.op_outputs[op].tolist()]
        freed -= self._held_anew([*outside, *held])
        if before == _FAR or freed <= 0:
            return None
        again = tuple(op for op in sorted(needed) if graph.recomputable[op] and op not in stays)
        reads = tuple(sorted({int(graph.owner[value]) for value in outside}))
        cost = float(graph.cost[list(again)].sum())
        return Segment(name, first, end, again, before, reads, cost, freed, products)

    def _kept_for_late(self, op: int) -> int:
        graph = self.graph
        return sum(graph.values[v].bytes for v in graph.op_outputs[op].tolist()) if self.read_late[op] else 0

    def _held_anew(self, read: Collection[int]) -> int:
        """The bytes of inputs that no late op would read without the segment."""
        graph = self.graph
        anew = [v for v in read if not (self.read_late[graph.producer[v]] or graph.keep[v])]
        return sum(graph.values[owner].bytes for owner in {int(graph.owner[value]) for value in anew})
