"""Judge captured frames, panel by panel.

A panel is cut into up to 8 x 8 tiles. A tile is empty if all of its pixels have one colour. What counts are
the tiles that are filled in the still pictures before and after: if more than half of them are empty in a
frame, the panel is blank in it; if more than a fifth are, it is half-painted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_TILES, _LEAST = 8, 24  # tiles along a side; pixels of a tile's side
_BLANK, _HALF = 0.5, 0.2
Pixels = NDArray[np.uint32]
Filled = NDArray[np.bool_]  # rows x columns of tiles


def filled_tiles(panel: Pixels) -> Filled:
    rows, columns = (max(1, min(_TILES, length // _LEAST)) for length in panel.shape)
    high, wide = panel.shape[0] // rows, panel.shape[1] // columns
    if not panel.size:
        return np.zeros((rows, columns), bool)
    tiles = panel[: high * rows, : wide * columns].reshape(rows, high, columns, wide)
    return (tiles != tiles[:, :1, :, :1]).any(axis=1).any(axis=2)


def emptied(now: Filled, before: Filled, after: Filled) -> float:
    """Return the share of tiles that are empty only now. They have content before and after."""
    content = before & after
    return float((content & ~now).sum() / content.sum()) if content.any() else 0.0


@dataclass
class Verdict:
    """What the frames of a course showed."""

    frames: int = 0
    changed: int = 0
    blank: Counter[str] = field(default_factory=Counter)
    half: Counter[str] = field(default_factory=Counter)
    bad_frames: int = 0
    answers: list[float] = field(default_factory=list)

    def judge(self, shares: dict[str, float], times: int = 1) -> None:
        """Count a frame that was seen so many times. ``shares``: what part of each panel was emptied."""
        self.frames += times
        bad = {name: share for name, share in shares.items() if share > _HALF}
        self.bad_frames += times * bool(bad)
        for name, share in bad.items():
            (self.blank if share > _BLANK else self.half)[name] += times

    def add(self, other: Verdict) -> None:
        self.frames += other.frames
        self.changed += other.changed
        self.bad_frames += other.bad_frames
        self.blank.update(other.blank)
        self.half.update(other.half)
        self.answers += other.answers
