"""Find the gradient of max pooling by comparing, for XLA:CPU.

XLA:CPU makes a window of it that carries an index for each axis, each as large as what is pooled. So the
place of each window's largest element is found by comparing, and is one byte. Sums are in the order of XLA's
scatter, and so are comparisons: the result is the same to the bit where no element is a NaN.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import tensorflow as tf

_MOST = 64  # elements of a window: each takes some ops

Pair = tuple[int, int]


@dataclass(frozen=True)
class Windows:
    """The windows of a pooling, one for each element of its result.

    For each axis: the ``size`` of a window, its ``strides``, the ``padding`` before and after, how many
    windows were ``made``, and the length of what is pooled (``shape``).
    """

    size: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[Pair, ...]
    made: tuple[int, ...]
    shape: tuple[int, ...]

    @cached_property
    def offsets(self) -> list[tuple[int, ...]]:
        """Return where each element of a window lies in it, in order."""
        return list(itertools.product(*map(range, self.size)))

    @cached_property
    def compared(self) -> list[int]:
        """Return the places of a window, as XLA:CPU compares them.

        Of equal elements the first is chosen. XLA peels the last step off its innermost loop where only that
        may lie in padding: its elements are compared after all others.
        """
        places = list(range(len(self.offsets)))
        axis = max((each for each, size in enumerate(self.size) if size > 1), default=0)
        if self.padding[axis] != (0, 1):
            return places
        return sorted(places, key=lambda place: self.offsets[place][axis] == self.size[axis] - 1)


def windows_of(op: tf.Operation) -> Windows | None:
    """Return the windows of a pooling's gradient.

    None: it is none of images, or its windows are too large to be compared.
    """
    if op.type != "MaxPoolGrad" or not all(tensor.shape.is_fully_defined() for tensor in op.inputs):
        return None
    size, strides = tuple(op.get_attr("ksize")), tuple(op.get_attr("strides"))
    shape, made = (tuple(op.inputs[number].shape.as_list()) for number in (0, 2))
    if math.prod(size) > _MOST:
        return None
    return Windows(size, strides, _padding(op, size, strides, made, shape), made, shape)


def _padding(
    op: tf.Operation, size: Sequence[int], strides: Sequence[int], made: Sequence[int], shape: Sequence[int]
) -> tuple[Pair, ...]:
    how = op.get_attr("padding")
    if how == b"VALID":  # else it is SAME; XLA compiles no other
        return tuple((0, 0) for _ in size)
    missing = [
        max(0, (count - 1) * stride + window - length)
        for count, stride, window, length in zip(made, strides, size, shape, strict=True)
    ]
    return tuple((each // 2, each - each // 2) for each in missing)


def compared_slope(
    windows: Windows, operand: tf.Tensor, slope: tf.Tensor, keep: Callable[[tf.Tensor], tf.Tensor]
) -> tf.Tensor:
    """Return the gradient by what was pooled, ``operand``.

    ``slope``: the gradient by the result. ``keep`` gets the place of each window's largest element, and
    returns it as something that stays in memory: each element would else compare its windows again.
    """
    places = keep(_places(windows, operand))
    total = None
    for place in reversed(range(len(windows.offsets))):  # an element's last window has it first
        chosen = tf.where(tf.equal(places, tf.constant(place, tf.uint8)), slope, tf.zeros((), slope.dtype))
        here = _put_back(windows, chosen, windows.offsets[place])
        total = here if total is None else total + here
    return tf.identity(total)


def _places(windows: Windows, operand: tf.Tensor) -> tf.Tensor:
    padded = tf.pad(operand, windows.padding)
    elements = _elements(windows, padded)
    first, best, there = next(elements)
    places = tf.fill(windows.made, tf.constant(first, tf.uint8))
    for place, other, inside in elements:
        kept = tf.greater_equal(best, other)
        kept = kept if inside is None else kept | ~inside
        kept = kept if there is None else kept & there
        best, places = tf.where(kept, best, other), tf.where(kept, places, tf.constant(place, tf.uint8))
        there = None if there is None or inside is None else there | inside
    return places


def _elements(windows: Windows, padded: tf.Tensor) -> Iterator[tuple[int, tf.Tensor, tf.Tensor | None]]:
    """Yield a place, its element of each window, and where that is no padding.

    ``None`` says that it never is padding.
    """
    for place in windows.compared:
        offset = windows.offsets[place]
        ends = [
            at + (count - 1) * stride + 1
            for at, count, stride in zip(offset, windows.made, windows.strides, strict=True)
        ]
        yield place, tf.strided_slice(padded, offset, ends, windows.strides), _inside(windows, offset)


def _inside(windows: Windows, offset: Sequence[int]) -> tf.Tensor | None:
    found = None
    for axis, (at, (before, _)) in enumerate(zip(offset, windows.padding, strict=True)):
        index = at - before + windows.strides[axis] * np.arange(windows.made[axis])
        inside = (index >= 0) & (index < windows.shape[axis])
        if not inside.all():
            narrow = inside.reshape([-1 if each == axis else 1 for each in range(len(windows.made))])
            found = narrow if found is None else found & narrow
    return None if found is None else tf.broadcast_to(tf.constant(found), windows.made)


def _put_back(windows: Windows, values: tf.Tensor, offset: Sequence[int]) -> tf.Tensor:
    """Return zeros of the operand's shape, with ``values`` at a place. Each window has one."""
    spread = _spread(values, windows.strides)
    room, starts = [], []
    for axis, (at, (before, _)) in enumerate(zip(offset, windows.padding, strict=True)):
        first, length = at - before, int(spread.shape[axis])
        room.append((max(0, first), max(0, windows.shape[axis] - first - length)))
        starts.append(max(0, -first))
    return tf.slice(tf.pad(spread, room), starts, windows.shape)


def _spread(values: tf.Tensor, strides: Sequence[int]) -> tf.Tensor:
    """Return ``values`` with zeros behind each, ``strides`` apart."""
    counts = values.shape.as_list()
    apart = tf.reshape(values, [each for count in counts for each in (count, 1)])
    padded = tf.pad(apart, [pair for stride in strides for pair in ((0, 0), (0, stride - 1))])
    return tf.reshape(padded, [count * stride for count, stride in zip(counts, strides, strict=True)])
