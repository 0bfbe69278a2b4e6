"""What memory known schedules take at other batches and input sizes.

A step's live bytes are linear in the batch, but for rounding, so two batches give them at all others. An
input's size is counted in levels, multiples of the smallest size of the same proportions. Live bytes are sums
of products of at most two edges, so quadratic in the level: three levels give them at all others.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.catalog.samples import find_sample
from checkmate.ir import Graph, Schedule
from checkmate.memory.simulate import simulate

_STEP, _LEAST_STEP = 32, 4  # pixels, or places of a sequence
_IMAGE = 3  # dimensions: height, width, channels; a sequence has its length, and perhaps features
NEEDED = 3  # traces, for a curve through them


@dataclass(frozen=True, eq=False)
class MemoryAtSizes:
    """The live bytes of a schedule's steps, on the polynomial through the replayed ``sizes``.

    ``coefficients``: float64[k, steps], of the powers 0 to k - 1 of the size, for k replays.
    """

    sizes: tuple[int, ...]
    coefficients: NDArray[np.float64]

    @classmethod
    def of(cls, graphs: Mapping[int, Graph], steps: Iterable[int]) -> MemoryAtSizes:
        plan = list(steps)
        live = [simulate(graph, Schedule.of(graph, plan)).live_bytes for graph in graphs.values()]
        powers = np.vander(np.array(list(graphs), np.float64), increasing=True)
        coefficients = np.linalg.solve(powers, np.array(live, np.float64)).astype(np.float64)
        return cls(tuple(graphs), coefficients)

    def peak(self, size: int) -> int:
        powers = float(size) ** np.arange(len(self.coefficients))
        return max(0, round(float((powers @ self.coefficients).max())))

    def largest(self, budget_bytes: int, most: int) -> int:
        """Return the largest size up to ``most`` whose peak is within the budget; 0 if none is."""
        return bisect_right(range(1, most + 1), budget_bytes, key=self.peak)


@dataclass(frozen=True, eq=False)
class Reach:
    """The memory of known schedules at any size up to ``most``; ``plain`` keeps everything."""

    plain: MemoryAtSizes
    others: tuple[MemoryAtSizes, ...]
    most: int

    @classmethod
    def of(cls, graphs: Mapping[int, Graph], plans: Iterable[Iterable[int]], most: int) -> Reach:
        plain = range(next(iter(graphs.values())).n)
        return cls(
            MemoryAtSizes.of(graphs, plain), tuple(MemoryAtSizes.of(graphs, steps) for steps in plans), most
        )

    def kept(self, budget_bytes: int) -> int:
        """The largest size at which the budget holds everything."""
        return self.plain.largest(budget_bytes, self.most)

    def fits(self, budget_bytes: int) -> int:
        """The largest size at which a known schedule keeps to the budget."""
        return max(one.largest(budget_bytes, self.most) for one in (self.plain, *self.others))


@dataclass(frozen=True)
class InputLevels:
    """``unit``: the edges at level one: height and width in pixels, or the places of a sequence."""

    shape: tuple[int, ...]
    unit: tuple[int, ...]

    @classmethod
    def of(cls, shape: Sequence[int]) -> InputLevels | None:
        """None except for an image or a sequence in multiples of a power of two."""
        edges = tuple(shape[:2] if len(shape) == _IMAGE else shape[:1])
        step = math.gcd(_STEP, *edges) if edges else 0
        if not 1 <= len(shape) <= _IMAGE or step < _LEAST_STEP:
            return None
        level = math.gcd(*edges) // step
        return cls(tuple(shape), tuple(edge // level for edge in edges))

    @classmethod
    def of_graph(cls, graph: Graph) -> InputLevels | None:
        """None unless the input's size is known to be free: it is a sample's, or the user gave its shape."""
        told = graph.origin.request
        if not told or told.get("allow_code"):
            return None  # nothing is to run a model's own code without being asked for it
        given: Any = told.get("input_shape")
        sample = find_sample(str(told.get("model")))
        shape = given or (None if sample is None else sample.input_shape)
        return None if shape is None else cls.of(tuple(int(edge) for edge in shape))

    @property
    def level(self) -> int:
        return self.shape[0] // self.unit[0]

    @property
    def to_trace(self) -> tuple[int, ...]:
        """Two further levels, so near that the step there seldom has other ops."""
        return self.level + max(1, self.level // 4), self.level + max(2, self.level // 2)

    def at(self, level: int) -> tuple[int, ...]:
        return *(level * edge for edge in self.unit), *self.shape[len(self.unit) :]

    def words(self, level: int) -> str:
        """``160 × 160``, ``length 128``."""
        shape = self.at(level)
        return f"{shape[0]:,} × {shape[1]:,}" if len(shape) == _IMAGE else f"length {shape[0]:,}"
