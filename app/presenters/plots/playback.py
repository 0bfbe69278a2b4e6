"""Which steps of a schedule become pictures of its playback.

Here is also how long each picture is seen. No Qt here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkmate.ir.schedule import StageMatrices

MOST_FRAMES = 200
_LONGEST_MS = 12_000  # of all frames but the last
_SLOWEST_MS, _FASTEST_MS = 160, 40  # a frame; several viewers slow down what is faster than 50 a second
_LAST_MS = 1500  # long enough to be seen as the end before it starts over


@dataclass(frozen=True)
class Film:
    """The pictures of a playback.

    ``steps[i]`` is seen for ``milliseconds[i]``. ``every`` is the number of stages from one picture to the
    next.
    """

    steps: tuple[int, ...]
    milliseconds: tuple[int, ...]
    every: int


def film(matrices: StageMatrices, peak_step: int, most: int = MOST_FRAMES) -> Film:
    """Return a film with a picture at the end of each stage.

    With more than ``most`` stages, it is every second, third, … one. The first step, the last one and the
    step with the most live bytes are always among them.
    """
    ends = np.append(np.flatnonzero(np.diff(matrices.stage_of_step)), len(matrices.stage_of_step) - 1)
    every = -(-len(ends) // max(1, most - 3))
    steps = sorted({0, peak_step, int(ends[-1]), *ends[every - 1 :: every].tolist()})
    # GIF counts hundredths of a second.
    each = max(_FASTEST_MS, min(_SLOWEST_MS, _LONGEST_MS // len(steps))) // 10 * 10
    return Film(tuple(steps), (each,) * (len(steps) - 1) + (_LAST_MS,), every)
