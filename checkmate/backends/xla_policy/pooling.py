"""The gradient of max pooling by comparisons, for XLA:CPU.

XLA:CPU makes a window of it that carries an index for each axis: 5 to 12 times the operand in memory. So the
place of each window's chosen element is found by comparing, and is one byte. Sums are in the order of XLA's
scatter: the result is the same to the bit where no element is a NaN. It takes 6 to 20 times less time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

_MOST = 64  # elements of a window: each takes some ops


@dataclass(frozen=True)
class Windows:
    """The windows of a pooling, one for each element of its result. All fields are per axis. ``padding``:
    before and after. ``made``: the number of windows. ``shape``: of the pooled input."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    made: tuple[int, ...]
    shape: tuple[int, ...]

    @cached_property
    def offsets(self) -> list[tuple[int, ...]]:
        """Where each element of a window lies in it, in the order of a scatter."""
        return list(itertools.product(*map(range, self.size)))

    @property
    def peeled(self) -> list[int]:
        """The places of a window in the order in which XLA:CPU compares them for TensorFlow; among equal
        elements the first is chosen. If only the last step of the innermost loop can lie in padding, XLA
        peels it off, and compares its elements after all others."""
        places = list(range(len(self.offsets)))
        axis = max((each for each, size in enumerate(self.size) if size > 1), default=0)
        if self.padding[axis] != (0, 1):
            return places
        return sorted(places, key=lambda place: self.offsets[place][axis] == self.size[axis] - 1)

    def limits(self, offset: Sequence[int]) -> list[int]:
        """Return the end of the strided slice that contains the element ``offset`` of each window."""
        return [
            at + (count - 1) * stride + 1
            for at, count, stride in zip(offset, self.made, self.strides, strict=True)
        ]

    def starts(self, offset: Sequence[int]) -> list[int]:
        """Return the place of the element ``offset`` of the first window in the input; negative: in
        padding."""
        return [at - before for at, (before, _) in zip(offset, self.padding, strict=True)]

    def inside(self, offset: Sequence[int]) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        for axis, start in enumerate(self.starts(offset)):
            index = start + self.strides[axis] * np.arange(self.made[axis])
            found = (index >= 0) & (index < self.shape[axis])
            if not found.all():
                yield axis, found


def can_compare(size: Sequence[int]) -> bool:
    return math.prod(size) <= _MOST


class Comparing(Protocol):
    """What a framework emits of the gradient of one pooling."""

    @property
    def windows(self) -> Windows: ...

    def element(self, place: int) -> Any:
        """Return an element of each window."""

    def inside(self, place: int) -> Any | None:
        """Return for which windows that element is no padding; None: for all."""

    def keeps(self, best: Any, other: Any) -> Any:
        """Return where ``best`` is chosen before ``other``."""

    def where(self, condition: Any, one: Any, other: Any) -> Any: ...

    def place(self, number: int) -> Any:
        """Return a scalar for a place in a window."""

    def filled(self, number: int) -> Any:
        """Return the same place for each window."""

    def keep(self, places: Any) -> Any:
        """Return places as what stays in memory: each element would else compare its windows again."""

    def put_back(self, places: Any, number: int) -> Any:
        """Return zeros of the operand's shape, with the slopes of the windows that chose a place."""


def compared_slope(emit: Comparing, order: Sequence[int]) -> Any:
    """Return the gradient by what was pooled; ``order``: in which a window's places are compared."""
    places = emit.keep(_chosen_places(emit, order))
    total: Any = None
    for number in reversed(range(len(emit.windows.offsets))):  # an element's last window has it first
        here = emit.put_back(places, number)
        total = here if total is None else total + here
    return total


def _chosen_places(emit: Comparing, order: Sequence[int]) -> Any:
    first, *others = order
    best, there = emit.element(first), emit.inside(first)
    places = emit.filled(first)
    for number in others:
        other, inside = emit.element(number), emit.inside(number)
        kept = emit.keeps(best, other)
        kept = kept if inside is None else kept | ~inside
        kept = kept if there is None else kept & there
        best, places = emit.where(kept, best, other), emit.where(kept, places, emit.place(number))
        there = None if there is None or inside is None else there | inside
    return places
