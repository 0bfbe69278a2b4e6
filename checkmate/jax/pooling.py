"""The slope of max pooling, as XLA for GPUs had better be given it.

XLA scatters it into zeros. They are a constant: it makes them as early as anything of that shape is compared
with 0, by a ReLU for example, and holds them until the end. So they wait for the slope here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


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
