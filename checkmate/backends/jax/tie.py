"""Hold a recomputation back until the value before it is there.

XLA merges equal computations. A copy that depends on a later value is no equal one. On GPUs and TPUs it waits
by a barrier, which stays until memory is planned, and costs nothing. XLA:CPU drops barriers before it orders.
Most copies stay, but its usual scheduler runs them early; its scheduler for memory does so seldom. A select
holds it to more: its predicate is always true, but is computed from that value. It copies what it passes on,
but not where that is fused into what reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def can_anchor(value: Any) -> bool:
    """Return whether a predicate can be computed from ``value``."""
    aval = jax.typeof(value)
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and aval.size > 0 and not jnp.issubdtype(dtype, jax.dtypes.extended)


class Waiting(Enum):
    """What holds a step back: barriers, or selects.

    With ``GATES`` XLA:CPU gets gates as well (``backends.jax.gate``). ``MIXED`` are selects where they copy
    little, barriers elsewhere, and gates.
    """

    BARRIERS = auto()
    GATES = auto()
    MIXED = auto()
    SELECTS = auto()


class Tie:
    """Makes operands depend on ``anchors``, without changing them."""

    def __init__(self, anchors: Sequence[Any]) -> None:
        self._anchors = tuple(anchors)
        self._predicate: Any = None

    def selected(self, value: Any) -> Any:
        """Return ``value``, bit by bit, as something that needs the first anchor."""
        if self._predicate is None:
            self._predicate = always(self._anchors[0])
        return jnp.where(self._predicate, value, jnp.zeros_like(value))

    def behind(self, values: Sequence[Any]) -> list[Any]:
        """Return values, passed through one barrier with all anchors."""
        return list(lax.optimization_barrier((*values, *self._anchors))[: len(values)])


def always(anchor: Any) -> Any:
    """Return a predicate that is true whatever ``anchor`` holds.

    It is not known to be true before the first element is there: the element's bits, or 1, are not 0.
    """
    element = lax.slice(anchor, (0,) * anchor.ndim, (1,) * anchor.ndim).reshape(())
    if jnp.issubdtype(element.dtype, jnp.complexfloating):
        element = lax.real(element)
    if element.dtype == jnp.bool_:
        bits = element.astype(jnp.uint32)
    elif jnp.issubdtype(element.dtype, jnp.floating):
        bits = lax.bitcast_convert_type(element, jnp.dtype(f"uint{8 * element.dtype.itemsize}"))
    else:
        bits = element
    return (bits | jnp.ones_like(bits)) != jnp.zeros_like(bits)
