"""Hold a recomputation back until the value before it is there.

XLA merges equal computations. A copy that depends on a later value is no equal one. On GPUs and TPUs it waits
by a barrier, which stays until memory is planned, and costs nothing. XLA:CPU drops barriers before. Most
copies stay, but its usual scheduler runs them early; its scheduler for memory does not. Under the usual one
the operand goes through a select. The predicate is always true, but is computed from that value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def can_anchor(value: Any) -> bool:
    """Return whether a predicate can be computed from ``value``."""
    aval = jax.typeof(value)
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and aval.size > 0 and not jnp.issubdtype(dtype, jax.dtypes.extended)


class Tie:
    """Makes operands depend on ``anchors``, without changing them.

    A select depends on the first of them alone.
    """

    def __init__(self, anchors: Sequence[Any], barriers: bool) -> None:
        self._anchors, self._barriers = tuple(anchors), barriers
        self._predicate: Any = None

    def operand(self, value: Any) -> Any:
        """Return ``value``, bit by bit, as something that needs the anchors."""
        if self._barriers:
            return self.operands([value])[0]
        if self._predicate is None:
            self._predicate = always(self._anchors[0])
        return jnp.where(self._predicate, value, jnp.zeros_like(value))

    def operands(self, values: Sequence[Any]) -> list[Any]:
        """Return values, passed through one barrier with the anchors."""
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
