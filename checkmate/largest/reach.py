"""What memory a schedule takes at other batches and input sizes. Nothing is searched.

At another batch each step's live bytes grow by the same bytes for each example, but for rounding. So the
memory at two batches says what it is at all others. An input's size is a level: so many times the smallest
size of the same proportion. Live bytes are sums of products of at most two edges, so that three traced levels
say what they are at all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.catalog.samples import find_sample
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.simulate import simulate


@dataclass(frozen=True, eq=False)
class GrowingMemory:
    """Hold the live bytes of a schedule's steps at any batch.

    They are what stands still, and what each example adds.
    """

    standing: NDArray[np.float64]
    per_example: NDArray[np.float64]

    @classmethod
    def of(cls, scaling: BatchScaling, steps: Iterable[int]) -> GrowingMemory:
        """Replay the schedule at the graph's own batch and at twice that."""
        batch, plan = scaling.batch, list(steps)
        once, twice = (
            simulate(graph, Schedule.of(graph, plan)).live_bytes.astype(np.float64)
            for graph in (scaling.at(batch), scaling.at(2 * batch))
        )
        per_example = (twice - once) / batch
        return cls(once - batch * per_example, per_example)

    def peak(self, batch: int) -> int:
        """Return the peak in bytes at a batch."""
        return round(float((self.standing + batch * self.per_example).max()))

    def largest(self, budget_bytes: int) -> int:
        """Return the largest batch whose peak is within the budget; 0 if none is."""
        room = budget_bytes - self.standing
        if (room < 0).any():
            return 0
        grows = self.per_example > 0
        return int((room[grows] / self.per_example[grows]).min()) if grows.any() else 0


_STEP, _LEAST_STEP = 32, 4  # pixels, or places of a sequence
_IMAGE, _LONGEST = 3, 2  # dimensions: height, width, channels; or length, and perhaps features
NEEDED = 3  # traces, for a curve through them


@dataclass(frozen=True)
class InputLevels:
    """The sizes of an input in the proportion of ``shape``.

    That has no batch. ``unit``: the edges at level one: height and width in pixels, or the places of a
    sequence.
    """

    shape: tuple[int, ...]
    unit: tuple[int, ...]

    @classmethod
    def of(cls, shape: Sequence[int]) -> InputLevels | None:
        """Return the sizes of an image or a sequence; None for anything else.

        The edges stay multiples of a power of two, since networks halve them.
        """
        edges = tuple(shape[:2] if len(shape) == _IMAGE else shape[:1])
        step = math.gcd(_STEP, *edges) if edges else 0
        if not 1 <= len(shape) <= _IMAGE or step < _LEAST_STEP:
            return None
        level = math.gcd(*edges) // step
        return cls(tuple(shape), tuple(edge // level for edge in edges))

    @classmethod
    def of_graph(cls, graph: Graph) -> InputLevels | None:
        """Return the sizes of a graph's model, if its input is known to be free.

        That is so for a sample, and where the user gave the input's shape. Not for a model with code of its
        own.
        """
        told = graph.metadata.get("request")
        if not isinstance(told, Mapping) or told.get("allow_code"):
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
        """Return two further levels. They are so near that the step seldom is another there."""
        return self.level + max(1, self.level // 4), self.level + max(2, self.level // 2)

    def at(self, level: int) -> tuple[int, ...]:
        return *(level * edge for edge in self.unit), *self.shape[len(self.unit) :]

    def words(self, level: int) -> str:
        """Return the size in words: ``160 × 160``, ``length 128``."""
        shape = self.at(level)
        return f"{shape[0]:,} × {shape[1]:,}" if len(shape) == _IMAGE else f"length {shape[0]:,}"


@dataclass(frozen=True, eq=False)
class InputMemory:
    """The live bytes of a schedule's steps at any level.

    ``levels``, three of them, are where they were replayed; ``live``, float64[3, steps], is what they were.
    """

    levels: tuple[int, ...]
    live: NDArray[np.float64]

    @classmethod
    def of(cls, traced: Mapping[int, Graph], steps: Sequence[int]) -> InputMemory:
        """Replay the schedule at the traced levels, whose steps are alike."""
        levels = tuple(sorted(traced))[:NEEDED]
        live = [
            simulate(traced[level], Schedule.of(traced[level], list(steps))).live_bytes for level in levels
        ]
        return cls(levels, np.array(live, np.float64))

    def peak(self, level: int) -> int:
        """Return the peak in bytes at a level: on the parabola through three."""
        shares = [
            math.prod((level - other) / (one - other) for other in self.levels if other != one)
            for one in self.levels
        ]
        return max(0, round(float((np.array(shares) @ self.live).max())))

    def largest(self, budget_bytes: int, most: int) -> int:
        """Return the largest level up to ``most`` that is within the budget. It is 0 if none is."""
        return next((level for level in range(most, 0, -1) if self.peak(level) <= budget_bytes), 0)
