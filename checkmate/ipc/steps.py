"""A schedule's steps as the body of a message: op indices, int32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from checkmate.ipc.messages import MessageError

_STEP = np.dtype(np.int32)


class CarriesSteps:
    """A message whose body is a schedule's steps.

    One with half a number at its end cannot be made, so none is ever received.
    """

    steps: bytes

    def __post_init__(self) -> None:
        unpack_steps(self.steps)


def pack_steps(steps: Sequence[int] | NDArray[np.integer]) -> bytes:
    """Return a schedule's op indices as the body of a message."""
    return np.asarray(steps, _STEP).tobytes()


def unpack_steps(body: bytes) -> NDArray[np.int32]:
    """Return the op indices that ``pack_steps`` packed.

    The array is read-only; nothing is copied.

    Raises:
        MessageError: the bytes are no whole numbers.
    """
    if len(body) % _STEP.itemsize:
        raise MessageError(f"a schedule of {len(body)} bytes has no whole number of steps")
    return np.frombuffer(body, _STEP)


def unpack_ops(body: bytes, ops: int) -> NDArray[np.int32]:
    """Return steps that name ops of a graph with ``ops`` ops.

    Compiled code reads memory by these numbers, so a wrong one must stop here.

    Raises:
        MessageError: the bytes are no whole numbers, or one of them is no op.
    """
    steps = unpack_steps(body)
    if steps.size and (steps.min() < 0 or steps.max() >= ops):
        wrong = int(steps[(steps < 0) | (steps >= ops)][0])
        raise MessageError(f"a schedule names op {wrong}, and there are {ops}")
    return steps
