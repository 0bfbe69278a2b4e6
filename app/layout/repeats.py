"""Find layers that are repeated blocks, as in a Transformer; no Qt. Blocks are equal if their layers have the
same names but for numbers, the same forward ops and bytes, and if they read from each other, and from what is
outside, in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph

_LEAST_COPIES, _LEAST_LAYERS = 3, 8  # fewer are not worth a box of another kind
_LONGEST = 400  # layers in a block
_MOST_TRIED, _MOST_RUNS = 16, 16
_MOST_READ = 400_000  # layers that a search reads; a window waits for it
_NUMBER = re.compile(r"[_ ]*\d+")
_FASTER = 100  # an array compares layers this many times faster than a search reads them
_OWN_NUMBER = re.compile(r"[_ /.-]+\d+(?![A-Za-z0-9])")  # "layer_5", but not "conv2d" or "gpt2"


@dataclass(frozen=True)
class BlockRun:
    """Equal blocks of neighbouring layers. They begin at the layer ``first``, and each of the ``copies`` has
    ``length`` layers."""

    first: int
    length: int
    copies: int

    @property
    def last(self) -> int:
        return self.first + self.length * self.copies

    def blocks(self) -> list[range]:
        return [range(at, at + self.length) for at in range(self.first, self.last, self.length)]


def find_runs(graph: Graph, layer_of: Sequence[int], names: Sequence[str]) -> list[BlockRun]:
    """Find runs from left to right, in a large graph those that are found in time. ``layer_of``: by op."""
    search = _BlockSearch(graph, layer_of, names)
    pending, found = [(0, len(names))], list[BlockRun]()
    while pending and len(found) < _MOST_RUNS and not search.tired:
        first, last = pending.pop()
        run = search.best(first, last)
        if run is not None:
            found.append(run)
            pending += [(run.last, last), (first, run.first)]
    return sorted(found, key=lambda run: run.first)


def run_name(names: Sequence[str], run: BlockRun) -> str:
    second, third = (re.split(r"(\d+)", shared_start(names, block)) for block in run.blocks()[1:3])
    if len(second) == len(third):  # the number that differs is the block's, also in "layer5"
        second = [
            part for part, other in zip(second, third, strict=True) if part == other or not part.isdigit()
        ]
    return _OWN_NUMBER.sub("", "".join(second)).rstrip("_/ .-").rsplit("/", 1)[-1].strip("_ ") or "block"


def block_names(names: Sequence[str], run: BlockRun) -> list[str]:
    """Return the name of each block; they differ."""
    found = [shared_start(names, block).rstrip("_/ .-") for block in run.blocks()]
    if len(set(found)) == len(found) and all(found):
        return found
    return [f"{run_name(names, run)} {number}" for number in range(1, run.copies + 1)]


def shared_start(names: Sequence[str], block: range) -> str:
    some = [names[layer] for layer in block]
    least, most = min(some), max(some)
    length = next((i for i, letter in enumerate(least) if most[i : i + 1] != letter), len(least))
    shared = least[:length]
    if len(some) > 1 and any(name[len(shared) : len(shared) + 1].isalnum() for name in some):
        parts = re.split(r"(?<=[_/. -])", shared)
        return "".join(parts[:-1])
    return shared


@dataclass(eq=False)
class _BlockSearch:
    graph: Graph
    layer_of: Sequence[int]
    names: Sequence[str]
    read: int = 0  # layers, until now

    @property
    def tired(self) -> bool:
        return self.read > _MOST_READ

    @cached_property
    def _kind(self) -> NDArray[np.int64]:
        made: list[list[object]] = [[_NUMBER.sub("", name)] for name in self.names]
        graph = self.graph
        for op, layer, late in zip(graph.ops, self.layer_of, graph.late.tolist(), strict=True):
            if not late:
                sizes = tuple(graph.values[value].bytes for value in op.outputs)
                made[layer].append((op.type, op.phase, sizes))
        numbers: dict[tuple[object, ...], int] = {}
        return np.array([numbers.setdefault(tuple(one), len(numbers)) for one in made], np.int64)

    @cached_property
    def _sources(self) -> list[frozenset[int]]:
        graph, found = self.graph, [set[int]() for _ in self.names]
        late = graph.late.tolist()
        for op, layer in enumerate(self.layer_of):
            if not late[op]:
                makers = (int(graph.producer[value]) for value in graph.ops[op].inputs)
                found[layer] |= {self.layer_of[maker] for maker in makers if maker >= 0} - {layer}
        return [frozenset(one) for one in found]

    def best(self, first: int, last: int) -> BlockRun | None:
        regions = sorted(self._regions(first, last), key=lambda region: (-_covered(region), region[2]))
        for region in regions[:_MOST_TRIED]:
            run = self._aligned(*region)
            if run is not None or self.tired:
                return run
        return None

    def _regions(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield (first, last, period) of stretches in which the kinds of layers repeat every ``period``."""
        kind = self._kind[first:last]
        for period in range(1, min(_LONGEST, len(kind) // _LEAST_COPIES) + 1):
            self.read += len(kind) // _FASTER
            same = np.concatenate([[False], kind[period:] == kind[:-period], [False]])
            ends = np.flatnonzero(same[1:] != same[:-1]).reshape(-1, 2)
            for begin, end in ends[np.diff(ends, axis=1)[:, 0] >= (_LEAST_COPIES - 1) * period].tolist():
                yield first + begin, first + end + period, period

    def _aligned(self, first: int, last: int, period: int) -> BlockRun | None:
        """Choose where the blocks of a stretch begin: where few values cross, then where names change."""
        found: list[tuple[tuple[int, int, int, int], BlockRun]] = []
        for shift in range(min(period, last - first - _LEAST_COPIES * period + 1)):
            begin = first + shift
            run = self._equal_part(BlockRun(begin, period, (last - begin) // period))
            if self.tired:
                return None
            if run is not None:
                cut = run.first + period
                crossing = {s for layer in range(cut, cut + period) for s in self._sources[layer] if s < cut}
                crossing = {source for source in crossing if source >= run.first}
                shared = len(shared_start(self.names, run.blocks()[1]))
                found.append(((len(crossing), -shared, -run.copies, shift), run))
        return min(found, key=lambda one: one[0])[1] if found else None

    def _equal_part(self, run: BlockRun) -> BlockRun | None:
        self.read += run.length * run.copies
        codes = [self._code(run, block) for block in run.blocks()]
        best = (0, 0)
        begin = 0
        for at in range(1, len(codes) + 1):
            # The first block of a run may read anything from before the run.
            equal = at < len(codes) and codes[at][:2] == codes[begin][:2]
            if not equal or (at > begin + 1 and codes[at][2] != codes[begin + 1][2]):
                best = max(best, (at - begin, -begin))
                begin = at if not equal else at - 1
        copies, start = best[0], -best[1]
        if copies < _LEAST_COPIES or copies * run.length < _LEAST_LAYERS:
            return None
        return BlockRun(run.first + start * run.length, run.length, copies)

    def _code(self, run: BlockRun, block: range) -> tuple[object, object, object]:
        """Return (what a block reads inside itself, layers that read from outside, what they read)."""
        inside, outside = list[object](), list[tuple[int, str, int]]()
        for layer in block:
            for source in sorted(self._sources[layer]):
                at = layer - block.start
                if source >= block.start:
                    inside.append((at, source - block.start))
                elif source >= run.first:
                    outside.append((at, "block", source - block.start))
                else:
                    outside.append((at, "before", source))
        return tuple(inside), tuple(at for at, _, _ in outside), tuple(outside)


def _covered(region: tuple[int, int, int]) -> int:
    first, last, period = region
    return (last - first) // period * period
