"""How large a figure for a paper is, and which steps become pictures of a film."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from checkmate.errors import UsageError
from checkmate.ir import StageMatrices

WORDS = 12.0  # pixels of a view's words; a figure is as many pixels wide as gives them the wanted size
_POINTS = 72.0  # of an inch
_LEAST_PIXELS = 200  # of width; a narrower view has no room for its words
LEAST_POINTS, MOST_POINTS = 4.0, 40.0
ENDINGS = (".pdf", ".svg")


class Shows(Enum):
    CURVE = "curve"
    BOTH = "rs"
    R = "r"
    S = "s"
    FRONTIER = "frontier"
    GRAPH = "graph"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Shows.CURVE: "Memory curve",
    Shows.BOTH: "R and S",
    Shows.R: "R",
    Shows.S: "S",
    Shows.FRONTIER: "Frontier",
    Shows.GRAPH: "Training graph",
}


class Width(Enum):
    """In inches."""

    COLUMN = 3.3
    PAGE = 7.0
    SLIDE = 10.0

    @property
    def words(self) -> str:
        name = {Width.COLUMN: "One column", Width.PAGE: "Two columns", Width.SLIDE: "Slide"}[self]
        return f"{name}, {self.value:g} in"

    @property
    def usual_points(self) -> float:
        return 16.0 if self is Width.SLIDE else 8.0


@dataclass(frozen=True)
class Paper:
    """The size of a figure. ``points`` are of its words; other words of a view are a little smaller or
    larger, as on screen. UsageError: the words have no room."""

    width: Width
    points: float

    def __post_init__(self) -> None:
        if not LEAST_POINTS <= self.points <= MOST_POINTS:
            raise UsageError(
                f"words of {self.points:g} points cannot be drawn",
                hint=f"use {LEAST_POINTS:g} to {MOST_POINTS:g} points",
            )
        if self.pixels < _LEAST_PIXELS:
            most = self.width.value * _POINTS * WORDS / _LEAST_PIXELS
            raise UsageError(
                f"words of {self.points:g} points have no room in a figure of {self.width.value:g} inches",
                hint=f"use at most {int(most)} points, or a wider figure",
            )

    @property
    def per_inch(self) -> float:
        """How many pixels of a view are an inch of the figure."""
        return _POINTS * WORDS / self.points

    @property
    def pixels(self) -> int:
        return round(self.width.value * self.per_inch)


@dataclass(frozen=True)
class FigureFile:
    """UsageError: the name ends in neither .pdf nor .svg."""

    path: Path
    shows: Shows
    paper: Paper

    def __post_init__(self) -> None:
        if self.path.suffix.lower() not in ENDINGS:
            raise UsageError(f"{self.path.name} is no figure's name", hint="end it in .pdf or .svg")


def figure_file(path: Path, shows: str, width: str, points: float | None) -> FigureFile:
    """``points`` None: the usual ones. UsageError: the figure cannot be drawn."""
    wide = Width[width.upper()]
    size = wide.usual_points if points is None else points
    return FigureFile(path, Shows(shows), Paper(wide, size))


MOST_FRAMES = 200
_LONGEST_MS = 12_000  # of all frames but the last
_SLOWEST_MS, _FASTEST_MS = 160, 40  # a frame; several viewers slow down what is faster than 50 a second
_LAST_MS = 1500  # long enough to be seen as the end before it starts over


@dataclass(frozen=True)
class Film:
    """``steps[i]`` is seen for ``milliseconds[i]``. ``every``: stages from one picture to the next."""

    steps: tuple[int, ...]
    milliseconds: tuple[int, ...]
    every: int


def film(matrices: StageMatrices, peak_step: int, most: int = MOST_FRAMES) -> Film:
    """A picture at the end of each stage; with more than ``most``, of every second, third, … one. The first
    step, the last one and the step with the most live bytes are always among them."""
    ends = np.append(np.flatnonzero(np.diff(matrices.stage_of_step)), len(matrices.stage_of_step) - 1)
    every = -(-len(ends) // max(1, most - 3))
    steps = sorted({0, peak_step, int(ends[-1]), *ends[every - 1 :: every].tolist()})
    # GIF counts hundredths of a second.
    each = max(_FASTEST_MS, min(_SLOWEST_MS, _LONGEST_MS // len(steps))) // 10 * 10
    return Film(tuple(steps), (each,) * (len(steps) - 1) + (_LAST_MS,), every)
