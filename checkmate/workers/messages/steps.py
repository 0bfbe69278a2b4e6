"""Pack a schedule's steps as the body of a message."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def pack_steps(steps: Sequence[int] | NDArray[np.integer]) -> bytes:
    """Return a schedule's op indices as the body of a message."""
    return np.asarray(steps, np.int32).tobytes()


def unpack_steps(body: bytes) -> NDArray[np.int32]:
    """Return the op indices that ``pack_steps`` packed.

    The array is read-only; nothing is copied.
    """
    return np.frombuffer(body, np.int32)
