"""Read-only numpy arrays and compressed rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Steps = NDArray[np.int32]
"""Ops in the order in which they run."""


def read_only(values: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """Return a contiguous copy of ``values`` that cannot be written to."""
    array = np.array(values, dtype=dtype, copy=True, order="C")
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of ids of unequal length (CSR): row i is ``ids[starts[i]:starts[i + 1]]``, int32 and int64."""

    starts: NDArray[np.int64]
    ids: NDArray[np.int32]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Rows:
        listed = [tuple(row) for row in rows]
        starts = np.zeros(len(listed) + 1, np.int64)
        np.cumsum([len(row) for row in listed], out=starts[1:])
        ids = np.fromiter((entry for row in listed for entry in row), np.int32, count=int(starts[-1]))
        return cls(read_only(starts, np.int64), read_only(ids, np.int32))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        return self.ids[self.starts[row] : self.starts[row + 1]]

    def lists(self) -> list[list[int]]:
        """Return the rows as plain lists, for code that walks them often."""
        ids = self.ids.tolist()
        starts = self.starts.tolist()
        return [ids[starts[i] : starts[i + 1]] for i in range(len(self))]

    def inverse(self, count: int) -> Rows:
        """Return, for each of ``count`` ids, the rows that hold it, ascending."""
        holders: list[list[int]] = [[] for _ in range(count)]
        for row, ids in enumerate(self.lists()):
            for entry in ids:
                holders[entry].append(row)
        return Rows.of(holders)

    def gather(self, rows: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return all entries of ``rows``: the place in ``rows`` of each, and the entries."""
        lengths = (self.starts[1:] - self.starts[:-1])[rows]
        position = np.repeat(np.arange(len(rows), dtype=np.int64), lengths)
        offset = np.arange(len(position), dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return position, self.ids[np.repeat(self.starts[:-1][rows], lengths) + offset]
