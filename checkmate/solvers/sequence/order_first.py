"""Find an order that needs little memory without recomputation.

Where ops may run in many orders, a search that begins in the given order recomputes what a better order would
not need. Here only the order is annealed, at a fixed price of what is over the budget.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from checkmate.ir.arrays import Steps
from checkmate.ir.graph import Graph
from checkmate.progress import Cancelled
from checkmate.solvers.sequence.model import build_model
from checkmate.solvers.tolerances import LEAST_COST

_TURN = 5000  # moves between two looks at the caller
_HOT, _COLD = 1.0, 0.001  # in mean op costs; so much costs an excess as large as the peak
_ENOUGH = 0.5  # of the excess in the given order: if more is left, the order is not what matters


def order_first(
    graph: Graph, budget_bytes: int, *, moves: int, seed: int, cancelled: Cancelled
) -> Steps | None:
    """Return an order of the ops, each once; it may be over the budget.

    None: it was cancelled, or no order is much better than the given one.
    """
    from checkmate.solvers.sequence.anneal import BEST, CEILING, FLOOR, anneal
    from checkmate.solvers.sequence.edit import load
    from checkmate.solvers.sequence.moves import RATE
    from checkmate.solvers.sequence.state import EXCESS, new_state, steps_of

    once = replace(graph, ops=tuple(replace(op, recomputable=False) for op in graph.ops))
    scaled = build_model(once)
    state = new_state(scaled.model, steps=2 * graph.n + 1000, seed=seed)
    given = np.arange(graph.n, dtype=np.int32)
    if not load(scaled.model, state, given, scaled.budget(budget_bytes)):
        return None
    excess, mean = float(state.real[EXCESS]), max(graph.base_cost / graph.n, LEAST_COST)
    price = mean / max(float(state.mem[0].max()), 1.0)
    state.real[BEST] = np.inf
    state.real[[RATE, FLOOR, CEILING]] = price
    noted = np.zeros(state.occ.shape[1] + 1, np.int64)
    for done in range(0, moves, _TURN):
        if cancelled():
            return None
        turn = min(_TURN, moves - done)
        anneal(scaled.model, state, noted, done, turn, moves, mean * _HOT, mean * _COLD)
        if state.real[BEST] < np.inf:
            break
    steps = noted[1 : 1 + int(noted[0])].astype(np.int32) if noted[0] else steps_of(state).astype(np.int32)
    left = 0.0 if noted[0] else float(state.real[EXCESS])
    return steps if left <= _ENOUGH * excess else None
