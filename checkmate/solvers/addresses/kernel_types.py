"""The allocator's kernels that Python calls, and examples of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from checkmate.solvers.addresses.memory import Memory, new_memory
from checkmate.solvers.addresses.replay import Requests, Work, serve, shown
from checkmate.solvers.addresses.search import search

ENTRIES = (serve, shown, search)


def examples() -> dict[Any, Any]:
    """Return an example for each annotation, of no requests at all."""
    row, table = np.zeros(1, np.int64), np.zeros((1, 1), np.int64)
    return {
        Memory: new_memory(None, 1),
        Requests: Requests(row, row, table, row, table, row, row),
        Work: Work(table, table, row, row),
    }
