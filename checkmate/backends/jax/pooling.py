"""The slope of max pooling, as XLA had better be given it.

XLA for GPUs scatters it into zeros. They are a constant: it makes them as early as anything of that shape is
compared with 0, by a ReLU for example, and holds them until the end. So they wait for the slope here.

XLA:CPU makes a window of it that carries an index for each axis: 5 to 12 times the operand in memory. So
the place of each window's largest element is found by comparing, and is one byte. Sums are in the scatter's
order, and the result is the same to the bit. It takes 6 to 20 times less time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from checkmate.backends.jax.program import aval_bytes

_MOST = 64  # elements of a window: each takes some equations


def scattered_late(slope: Any, operand: Any, params: Mapping[str, Any]) -> Any:
    """Return what ``select_and_scatter_add`` gives, by zeros that wait."""
    zero, _ = lax.optimization_barrier((jnp.zeros((), operand.dtype), slope))
    chosen = jax.make_jaxpr(lambda one, other: params["select_prim"].bind(one, other))(zero, zero).jaxpr
    added = jax.make_jaxpr(lax.add)(zero, zero).jaxpr
    return lax.select_and_scatter_p.bind(
        operand,
        slope,
        zero,
        select_jaxpr=chosen,
        select_consts=(),
        scatter_jaxpr=added,
        scatter_consts=(),
        window_dimensions=params["window_dimensions"],
        window_strides=params["window_strides"],
        padding=params["padding"],
    )


def can_compare(params: Mapping[str, Any]) -> bool:
    """Return whether windows are small enough to be compared."""
    return bool(math.prod(params["window_dimensions"]) <= _MOST)


def compared(slope: Any, operand: Any, params: Mapping[str, Any], keep: Callable[[Any], Any]) -> Any:
    """Return what ``select_and_scatter_add`` gives, by comparisons.

    ``keep`` gets the place of each window's chosen element, and returns it as something that stays in memory:
    each element of the result would else compare its windows again.
    """
    windows = _Windows(params, tuple(slope.shape), tuple(operand.shape))
    places = keep(windows.places(operand, params["select_prim"]))
    zero = jnp.zeros((), slope.dtype)
    total: Any = None
    for place in reversed(range(len(windows.offsets))):  # an element's last window has it first
        here = windows.put_back(jnp.where(places == place, slope, zero), place)
        total = here if total is None else total + here
    return total


def compared_bytes(params: Mapping[str, Any], slope: Any, operand: Any) -> int:
    """Return the bytes that the slope needs on XLA:CPU beside its result.

    Compared, that is a byte for each window, and the padded operand. Else it is XLA's windows of indices.
    """
    if can_compare(params):
        padded = any(any(pair) for pair in params["padding"])
        return int(slope.size) + padded * aval_bytes(operand)
    return 4 * (len(operand.shape) * int(operand.size) + (len(operand.shape) + 2) * int(slope.size))


class _Windows:
    """The windows of a pooling, one for each element of its result.

    ``offsets``: where each element of a window lies in it, in the order of a scatter.
    """

    def __init__(self, params: Mapping[str, Any], made: Sequence[int], shape: Sequence[int]) -> None:
        self._strides: Sequence[int] = params["window_strides"]
        self._padding: Sequence[tuple[int, int]] = params["padding"]
        self._made, self._shape = made, shape
        self.offsets = list(product(*map(range, params["window_dimensions"])))

    def places(self, operand: Any, select: Any) -> Any:
        """Return which element each window chooses, by its place in it."""
        zero = jnp.zeros((), operand.dtype)
        padded = lax.pad(operand, zero, [(before, after, 0) for before, after in self._padding])
        elements = enumerate(self._elements(padded))
        _, (best, there) = next(elements)
        places = jnp.zeros(self._made, jnp.uint8)
        for place, (other, inside) in elements:
            kept = select.bind(best, other)
            kept = kept if inside is None else kept | ~inside
            kept = kept if there is None else kept & there
            best, places = jnp.where(kept, best, other), jnp.where(kept, places, jnp.uint8(place))
            there = None if there is None or inside is None else there | inside
        return places

    def _elements(self, padded: Any) -> Iterator[tuple[Any, Any]]:
        """Yield an element of each window, and whether it is no padding. ``None`` says that it never is."""
        for offset in self.offsets:
            ends = [
                at + (count - 1) * stride + 1
                for at, count, stride in zip(offset, self._made, self._strides, strict=True)
            ]
            yield lax.slice(padded, offset, ends, self._strides), self._inside(offset)

    def _inside(self, offset: Sequence[int]) -> Any:
        found = None
        for axis, (at, (before, _)) in enumerate(zip(offset, self._padding, strict=True)):
            index = at - before + self._strides[axis] * np.arange(self._made[axis])
            inside = (index >= 0) & (index < self._shape[axis])
            if not inside.all():
                whole = lax.broadcast_in_dim(jnp.asarray(inside), self._made, (axis,))
                found = whole if found is None else found & whole
        return found

    def put_back(self, values: Any, place: int) -> Any:
        """Return zeros of the operand's shape, with ``values`` at a place. Each window has one."""
        room = []
        for axis, (at, (before, _)) in enumerate(zip(self.offsets[place], self._padding, strict=True)):
            reach = (self._made[axis] - 1) * self._strides[axis] + 1
            room.append((at - before, self._shape[axis] - (at - before) - reach, self._strides[axis] - 1))
        return lax.pad(values, jnp.zeros((), values.dtype), room)
