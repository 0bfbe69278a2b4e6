"""The chain kernel that Python calls, and numba's types of its arguments."""

from __future__ import annotations

from typing import Any

import numba

from checkmate.solvers.chain.kernel import Sizes, fill
from checkmate.solvers.chain.solver import tiny_table

ENTRIES = (fill,)


def examples() -> dict[Any, Any]:
    """Return numba's type for each annotation, read off a table of two layers.

    If an annotation leaves the number of dimensions open, the key is the function and the argument's name.
    """
    table = tiny_table()
    return {
        Sizes: numba.typeof(table.sizes),
        "fill.costs": numba.typeof(table.costs),
        "fill.least": numba.typeof(table.least_slots()),
    }
