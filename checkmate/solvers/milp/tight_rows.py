"""Rows of a linear program, built from arrays for ``tight_model``."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]  # a column's index, or one of the two below
NO, YES = -1, -2  # fixed at 0, fixed at 1


@dataclass
class RowBlocks:
    """Rows ``low <= sum of factor * column <= high`` while they are built.

    Entries come in any order and may repeat.
    """

    count: int = 0
    _bounds: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=list)
    _entries: list[tuple[NDArray[np.int64], Codes, NDArray[np.float64]]] = field(default_factory=list)
    _fixed: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = field(default_factory=list)

    def new(self, count: int, low: float, high: float) -> NDArray[np.int64]:
        self._bounds.append((np.full(count, low), np.full(count, high)))
        self.count += count
        return np.arange(self.count - count, self.count)

    def put(self, rows: NDArray[np.int64], codes: Codes, factor: float) -> None:
        """Add ``factor`` times the column of each code to each row.

        Rows and codes have the same shape; a YES adds the factor itself.
        """
        column = codes >= 0
        if column.any():
            self._entries.append((rows[column], codes[column], np.full(int(column.sum()), factor)))
        certain = codes == YES
        if certain.any():
            self._fixed.append((rows[certain], np.full(int(certain.sum()), factor)))

    def at_most(self, high: float, *terms: tuple[Codes, float]) -> None:
        """Add a row per place of the terms' codes: their sum is at most ``high``."""
        rows = self.new(len(terms[0][0]), -np.inf, high)
        for codes, factor in terms:
            self.put(rows, codes, factor)

    def pack(self) -> PackedRows:
        """Return all rows, with the entries of one place added up."""
        low, high = (
            np.concatenate([part[side] for part in self._bounds] or [np.zeros(0)]) for side in (0, 1)
        )
        for rows, factors in self._fixed:
            shift = np.bincount(rows, factors, minlength=self.count)
            low, high = low - shift, high - shift
        row, column, value = (
            np.concatenate([part[side] for part in self._entries] or [np.zeros(0, np.int64)])
            for side in (0, 1, 2)
        )
        width = int(column.max(initial=0)) + 1
        key = row.astype(np.int64) * width + column.astype(np.int64)
        order = np.argsort(key)
        key, value = key[order], value[order]
        places = np.flatnonzero(np.diff(key, prepend=-1))
        value = np.add.reduceat(value, places) if len(places) else np.zeros(0)
        row, column = np.divmod(key[places], width)
        there = np.abs(value) > 1e-12
        row, column, value = row[there], column[there], value[there]
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=self.count))]).astype(np.int32)
        return PackedRows(starts, column.astype(np.int32), value.astype(np.float64), low, high)


@dataclass(frozen=True, eq=False)
class PackedRows:
    """A matrix by rows.

    Row ``i`` has ``columns[starts[i]:starts[i + 1]]`` with ``values``, between ``low[i]`` and ``high[i]``.
    """

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
