"""The chain's kernel that Python calls, and examples of arguments."""

from __future__ import annotations

from typing import Any

from checkmate.solvers.chain.kernel import Sizes, fill
from checkmate.solvers.chain.solver import tiny_table

ENTRIES = (fill,)


def examples() -> dict[Any, Any]:
    """Return an example for each annotation, of a table of two layers.

    If an annotation leaves the number of dimensions open, the key is the function and the argument's name.
    """
    table = tiny_table()
    return {
        Sizes: table.sizes,
        "fill.costs": table.costs,
        "fill.least": table.least_slots(),
    }
