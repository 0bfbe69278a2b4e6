"""Shapes of a step's arguments, and arrays of such shapes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def shape_of(leaf: Any) -> Any:
    """Return the ``jax.ShapeDtypeStruct`` of an array, or of such a shape."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    found = jax.typeof(leaf)
    return jax.ShapeDtypeStruct(found.shape, found.dtype, weak_type=found.weak_type)


def with_values(tree: Any) -> Any:
    """Return new arrays in the structure of ``tree``: copies of its arrays.

    Where it gives shapes alone, numbers are random in [0, 1), and whole numbers are 0.
    """
    random = np.random.default_rng(0)

    def values(leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return jnp.copy(jnp.asarray(leaf))
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(0), leaf.shape)
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            return jnp.asarray(random.random(leaf.shape, dtype=np.float32), leaf.dtype)
        return jnp.zeros(leaf.shape, leaf.dtype)

    return jax.tree.map(values, tree)
