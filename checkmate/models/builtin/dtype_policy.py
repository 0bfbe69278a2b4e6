"""Build layers under a dtype policy, and restore the process's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import keras

from checkmate.errors import UsageError


@contextmanager
def dtype_policy(name: str | None) -> Iterator[None]:
    """Build layers under the policy ``name``, then restore the process's own.

    ``name``: None: the process's own.

    Raises:
        UsageError: Keras has no such policy.
    """
    before = keras.config.dtype_policy()
    if name is not None:
        try:
            keras.config.set_dtype_policy(name)
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"{name!r} is not a dtype policy of Keras", hint="use mixed_float16 or mixed_bfloat16"
            ) from error
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
