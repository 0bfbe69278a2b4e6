from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.layout.folded import Box, GroupFrame

GAP = 10.0  # between boxes
LEGIBLE = 1.0  # the scale at which the smallest words have 11 pixels
_WIDTH, _MOST_WIDTH, _HEIGHT, LINE = 60.0, 100.0, 34.0, 13.0
_BESIDE_NAME = 13.0
_BETWEEN = (28.0, 8.0)  # between forward and backward boxes: with room for edges, and without
_MOST_BETWEEN = 100.0
_HEAD, _FOOT, FRAME_HEAD, _BADGE = 6.0, 4.0, 14.0, 14.0
SIDE = 20.0  # left and right of the rows, for edges that continue in another row
_LARGEST = 1.25


@dataclass(frozen=True)
class Rows:
    """Where boxes stand: ``per_row`` columns to a row, with the backward boxes of each column below its
    forward ones. The origin is the corner of the first forward box. At a scale of one, units are pixels.

    Attributes:
        depth: how deep frames are nested.
        width: width of a box.
        lines: lines of text in a box.
        between: vertical gap between forward boxes and the backward boxes below.
    """

    columns: int
    per_row: int
    depth: int
    width: float = _WIDTH
    lines: int = 1
    between: float = _BETWEEN[-1]

    @classmethod
    def fitting(cls, columns: int, depth: int, room: tuple[float, float], longest: float = 0.0) -> Rows:
        """Choose rows and box sizes for ``room`` (width, height): first the largest scale at which everything
        is visible, then the largest gaps. ``longest``: the width of the longest name."""
        choices = {-(-columns // rows) for rows in range(1, columns + 1)}
        each = [cls(columns, per_row, depth) for per_row in sorted(choices, reverse=True)]

        def largest(lines: int, between: float) -> Rows:
            made = (replace(rows, lines=lines, between=between) for rows in each)
            return max(made, key=lambda rows: rows.scale(room))._airy(room)

        roomy, tight = (largest(1, between) for between in _BETWEEN)
        enough = min(LEGIBLE, tight.scale(room))
        whole = longest + _BESIDE_NAME <= roomy.width
        found = [roomy] if whole else [*(largest(2, between) for between in _BETWEEN), roomy]
        return next((rows for rows in found if rows.scale(room) >= enough), tight)

    @property
    def count(self) -> int:
        return -(-self.columns // self.per_row)

    @property
    def pitch(self) -> float:
        return self.width + GAP

    @property
    def height(self) -> float:
        """The height of a box."""
        return _HEIGHT + LINE * (self.lines - 1)

    @property
    def above(self) -> float:
        """From the top of a row to its forward boxes."""
        return max(_BADGE, _HEAD + FRAME_HEAD * self.depth)

    @property
    def drop(self) -> float:
        """From the top of a forward box to that of the backward box below."""
        return self.height + self.between

    @property
    def row_height(self) -> float:
        return self.above + self.drop + self.height + _FOOT

    @property
    def size(self) -> tuple[float, float]:
        return self.per_row * self.pitch - GAP, self.count * self.row_height

    def scale(self, room: tuple[float, float]) -> float:
        """The scale at which all rows fit into ``room``."""
        width, height = self.size
        return max(0.05, min(room[0] / (width + 2 * SIDE), room[1] / height, _LARGEST))

    def _airy(self, room: tuple[float, float]) -> Rows:
        scale = self.scale(room)
        pitch = (room[0] / scale - 2 * SIDE + GAP) / self.per_row
        more = (room[1] / scale - self.size[1]) / self.count
        return replace(
            self,
            width=max(self.width, min(_MOST_WIDTH, pitch - GAP)),
            between=max(self.between, min(_MOST_BETWEEN, self.between + more)),
        )

    def row_of(self, box: Box) -> int:
        return box.column // self.per_row

    def corner(self, box: Box) -> tuple[float, float]:
        row, at = divmod(box.column, self.per_row)
        return at * self.pitch, row * self.row_height + (self.drop if box.backward else 0.0)

    def beside(self, box: Box, along: int, down: int) -> tuple[int, bool]:
        """(column, backward) of the box ``along`` places further right and ``down`` places further down."""
        row = self.row_of(box)
        below, backward = divmod(2 * row + box.backward + down, 2)
        return box.column + along + (below - row) * self.per_row, bool(backward)

    def column_at(self, x: float, y: float) -> float:
        """The column at (x, y), as a fraction of columns from the left; -1 beside the rows."""
        row = min(self.count - 1, max(0, int((y + self.above) // self.row_height)))
        at = x / self.pitch
        return row * self.per_row + at if 0 <= at < self.per_row else -1.0

    def pieces(self, frame: GroupFrame) -> Iterator[tuple[float, float, float, float]]:
        """(left, top, right, bottom) of a frame in each row that it goes through."""
        inset = 4.0 - frame.depth
        for row in range(frame.first // self.per_row, frame.last // self.per_row + 1):
            begin = row * self.per_row
            first, last = (min(max(at - begin, 0), self.per_row - 1) for at in (frame.first, frame.last))
            top = row * self.row_height - self.above + FRAME_HEAD * frame.depth + 2
            bottom = row * self.row_height + self.drop + self.height + _FOOT - frame.depth
            yield first * self.pitch - inset, top, last * self.pitch + self.width + inset, bottom


def most_columns(most: int, depth: int, room: tuple[float, float]) -> int:
    """The most columns, up to ``most``, that are legible in ``room`` with space for edges; 8 at least."""
    for columns in range(most, 8, -1):
        found = Rows.fitting(columns, depth, room)
        if found.between >= _BETWEEN[0] and found.scale(room) >= LEGIBLE:
            return columns
    return 8
