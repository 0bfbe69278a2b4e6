"""Find a first schedule on a machine that has not compiled the search yet."""

from __future__ import annotations

import time

from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.check import check
from checkmate.solvers.compile.cache import is_compiled
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.warm_up.plain_greedy import PlainGreedy

# Some hundred ops take it a second or two, and a busy machine takes long to start a process. Compiling takes
# longer still. As there, this does not count as the user's time.
_PATIENCE_S = 30.0
_POLL_S = 0.02


def schedule_before_compiling(graph: Graph, budget_bytes: int, *, options: SolveOptions) -> Schedule | None:
    """Return a schedule within a budget, without compiled code.

    It is greedy's as plain Python, in a process. It is checked. None: the search is compiled, so it is as
    quick and better; or nothing was found.
    """
    if is_compiled() or not options.recompute_gradients or options.start is not None:
        return None
    until = time.monotonic() + _PATIENCE_S
    greedy = PlainGreedy(graph)
    try:
        greedy.ask(budget_bytes)
        while greedy.busy and time.monotonic() < until:
            time.sleep(_POLL_S)
        found = [steps.tolist() for _, steps in greedy.take()]
    finally:
        greedy.close()
    fitting = (steps for steps in found if check(graph, steps, budget_bytes=budget_bytes).ok)
    return next((Schedule.of(graph, steps) for steps in fitting), None)
