"""How large a figure for a paper is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from checkmate.errors import UsageError

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
