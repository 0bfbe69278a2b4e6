"""Live memory over a schedule, and its one definition.

While op ``k`` executes, the live bytes are the sum of

* ``fixed_bytes``,
* the workspace of ``k``,
* every buffer of ``k``'s inputs and outputs,
* every other buffer that holds a value which a later step reads before it is produced again, or which is
  ``keep`` and is not produced again,

less the outputs that are written over an input.

All other buffers are dead right after ``k``, an output that nobody reads included. A ``keep`` value has to be
there at the end only: it may be dropped, and produced again, like any other. Fixed values (those without a
producer) are never counted.

A view shares the buffer of the value it is a view of. The buffer counts once, with the owner's size, and
lives while any of them lives. A value that is recomputed while a view of its earlier content lives has two
buffers.

An output takes over an input if the input's buffer is dead after the step and both buffers have the same
size. The ``takes_over`` pairs are tried in order; each output and each input takes part at most once.

The peak is the maximum over all executed steps. The total cost is the sum over all executed steps,
recomputations included.

``checkmate.memory.simulate`` computes this with arrays and ``checkmate.memory.check`` replays it in plain
Python. The two share no code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.arrays import read_only


@dataclass(frozen=True)
class Buffer:
    """A buffer of ``value`` with ``bytes``, live through the steps [``born``, ``last``]."""

    value: int
    bytes: int
    born: int
    last: int


@dataclass(frozen=True, eq=False, repr=False)
class Timeline:
    """Live bytes per executed step, and the buffers behind them.

    ``live_bytes``: int64[steps], while each step executes, workspace and ``fixed_bytes`` included.
    ``after_bytes``: int64[steps], after each step's dead buffers are freed.
    ``buffer_value``, ``buffer_bytes``, ``buffer_born``, ``buffer_last``: one entry per buffer instance. It
    counts in every step from born to last, both included; last = steps if it must be live at the end.
    ``taken_over``: int64[steps], bytes that each step saves because outputs are written over inputs.
    """

    live_bytes: NDArray[np.int64]
    after_bytes: NDArray[np.int64]
    taken_over: NDArray[np.int64]
    buffer_value: NDArray[np.int32]
    buffer_bytes: NDArray[np.int64]
    buffer_born: NDArray[np.int64]
    buffer_last: NDArray[np.int64]
    fixed_bytes: int
    cost: float

    def __post_init__(self) -> None:
        for name in ("live_bytes", "after_bytes", "taken_over", "buffer_bytes", "buffer_born", "buffer_last"):
            object.__setattr__(self, name, read_only(getattr(self, name), np.int64))
        object.__setattr__(self, "buffer_value", read_only(self.buffer_value, np.int32))

    def __repr__(self) -> str:
        peak = f"peak {self.peak_bytes} bytes at step {self.peak_step}"
        return f"Timeline({len(self.live_bytes)} steps, {peak})"

    @cached_property
    def peak_step(self) -> int:
        return int(np.argmax(self.live_bytes))

    @cached_property
    def peak_bytes(self) -> int:
        return int(self.live_bytes[self.peak_step])

    def alive_at(self, step: int) -> list[Buffer]:
        (hits,) = np.nonzero((self.buffer_born <= step) & (step <= self.buffer_last))
        order = hits[np.argsort(-self.buffer_bytes[hits], kind="stable")]
        return [
            Buffer(
                int(self.buffer_value[i]),
                int(self.buffer_bytes[i]),
                int(self.buffer_born[i]),
                int(self.buffer_last[i]),
            )
            for i in order
        ]
