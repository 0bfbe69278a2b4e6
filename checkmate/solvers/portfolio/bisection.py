"""Find by short solves where the answer to a question changes.

The question is the least memory or the largest batch; a solve may leave it open. Each probe asks the solver
``auto`` for a schedule within a budget. It ends as soon as the answer to "within the cost?" is known: a
schedule is cheap enough, or the lower bound on the cost is above the cap, or no schedule exists at all.
Probes without an answer are asked again with more time, once those around them are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from checkmate.ir.arrays import Steps
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.progress import Cancelled, never
from checkmate.solvers.compile.compilation import Say, compile_first, say_nothing
from checkmate.solvers.listeners import CostCapListener
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.solvers.registry import find_solver

SOLVER = "auto"
LEAST_SLICE_S = 0.05  # no probe has less time
_FIRST_SHARE = 0.03  # of the time limit, for each of the first probes
# Of what is open: how near first probes come to an undecided one; halved in every round.
_FIRST_PRECISION = 0.06


def probe(
    problem: Problem, options: SolveOptions, seconds: float, start: Steps | None, listener: CostCapListener
) -> tuple[SolveResult, float]:
    """Solve for ``seconds`` from ``start``; return the result and a bound.

    The bound is on the cost within the budget; it is infinite if there is no schedule.
    """
    options = replace(
        options,
        time_limit_s=max(LEAST_SLICE_S, seconds),
        gap=0.0,
        start=None if start is None else Schedule.of(problem.graph, start),
    )
    result = find_solver(SOLVER).load().solve(problem, options, listener)
    bound = listener.lower_bound
    if not result.assumptions:
        bound = math.inf if result.status is SolveStatus.INFEASIBLE else max(bound, result.lower_bound or 0.0)
    return result, bound


def narrow(
    limits: Callable[[], tuple[int, int]],
    ask: Callable[[int, float], bool],
    *,
    limit_s: float,
    until: float,
    over: Callable[[], bool],
) -> None:
    """Ask for levels until ``limits`` meet, or until it must stop.

    It stops when ``over`` says so, or at ``until`` (``time.perf_counter``). ``limits`` returns (low, top) as
    of now: no level below ``low`` has what is looked for, ``top`` does. ``ask`` takes a level in between and
    seconds. It moves the limits if it finds the answer, and returns whether it did.
    """
    low, top = limits()
    nearest = max(1, int((top - low) * _FIRST_PRECISION))
    share = limit_s * _FIRST_SHARE
    doubtful: list[int] = []
    while not over() and time.perf_counter() < until:
        low, top = limits()
        doubtful = [level for level in doubtful if low <= level < top]
        level = between(low, top, doubtful, nearest)
        if level is None:
            doubtful, share, nearest = [], 2 * share, max(1, nearest // 2)
            continue
        if not ask(level, min(max(share, LEAST_SLICE_S), until - time.perf_counter())):
            doubtful = sorted([*doubtful, level])


def between(low: int, top: int, doubtful: Sequence[int], nearest: int) -> int | None:
    """Return the next level to ask for in [low, top), or None.

    None if all that are left are within ``nearest`` of a doubtful one. Levels above the doubtful ones come
    first, where a schedule is most likely; then those below, where a proof is.
    """
    floor = doubtful[-1] + 1 if doubtful else low
    if top - floor >= (nearest if doubtful else 1):
        return (floor + top - 1) // 2
    if doubtful and doubtful[0] - low >= nearest:
        return (low + doubtful[0] - 1) // 2
    return None


def load_kernels(cancelled: Cancelled = never, say: Say = say_nothing) -> None:
    """Load the kernels of the searches; compile them first if needed.

    This does not count as the user's time limit; ``say`` is told about it. If cancelled, this returns early.
    """
    from checkmate.solvers.sequence.local_search import warm_up

    compile_first(say, cancelled)
    if not cancelled():
        warm_up()
