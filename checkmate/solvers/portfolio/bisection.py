"""Find where a question's answer changes by short solves that may leave it open: the least memory, the largest batch.

Each probe asks the solver ``auto`` for a schedule within a budget, and ends as soon as the answer to "within the cost?" is known:
a schedule is cheap enough, or the lower bound on the cost is above the cap (or no schedule exists at all). Probes without
an answer are asked again with more time once those around them are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.progress import Cancelled, never
from checkmate.solvers.compile.compilation import Say, compile_first, say_nothing
from checkmate.solvers.problem import Problem, SilentListener, SolveOptions
from checkmate.solvers.registry import find_solver

Steps = NDArray[np.int32]

SOLVER = "auto"
LEAST_SLICE_S = 0.05  # no probe has less
ROUNDING = 1e-9  # of a cost cap: what float sums of the same costs may differ by
_FIRST_SHARE = 0.03  # of the time limit, for the first probes
_FIRST_PRECISION = (
    0.06  # of what is open: how near first probes come to a doubtful one; halved in every round
)


class Ear(SilentListener):
    """Listens to one probe and stops it as soon as it is known whether its cost can be at most ``cap`` (None: never).

    ``lower_bound``: what was proved of the cost. ``settled``: the question has its answer. ``take`` hears every schedule.
    """

    def __init__(
        self,
        cap: float | None,
        cancelled: Cancelled,
        take: Callable[[Sequence[int]], object] = lambda steps: None,
    ) -> None:
        self._cap, self._cancelled, self._take = cap, cancelled, take
        self.lower_bound = 0.0
        self.settled = False

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """A schedule within the probe's budget."""
        self._take(steps)
        self.settled |= self._cap is not None and cost <= self._cap

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        """A bound on the cost within the probe's budget; one under assumptions proves nothing here."""
        if not assumptions:
            self.lower_bound = max(self.lower_bound, lower_bound)
            self.settled |= self._cap is not None and lower_bound > self._cap

    def cancelled(self) -> bool:
        """Whether to stop this probe."""
        return self.settled or self._cancelled()


def probe(
    problem: Problem, options: SolveOptions, seconds: float, start: Steps | None, ear: Ear
) -> tuple[SolveResult, float]:
    """One solve of ``seconds`` from ``start``, and the least cost within the budget that it proved: infinite for none at all."""
    options = replace(
        options,
        time_limit_s=max(LEAST_SLICE_S, seconds),
        gap=0.0,
        start=None if start is None else Schedule.of(problem.graph, start),
    )
    result = find_solver(SOLVER).load().solve(problem, options, ear)
    bound = ear.lower_bound
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
    """Ask for levels until ``limits`` meet, ``over`` says so or ``until`` (``time.perf_counter``) has come.

    ``limits``: (low, top), now: no level below ``low`` has what is looked for, ``top`` does. ``ask``: for a level in between
    and seconds, whether the answer is known now, and with it the limits moved.
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
    """The next level to ask for, of those in [low, top); None where all left are within ``nearest`` of a doubtful one.

    First above the doubtful ones, where a schedule is most likely; then below them, where a proof is.
    """
    floor = doubtful[-1] + 1 if doubtful else low
    if top - floor >= (nearest if doubtful else 1):
        return (floor + top - 1) // 2
    if doubtful and doubtful[0] - low >= nearest:
        return (low + doubtful[0] - 1) // 2
    return None


def load_kernels(cancelled: Cancelled = never, say: Say = say_nothing) -> None:
    """Load what the searches run; compile it first if need be.

    That is not the user's time limit; ``say`` hears of it. Returns early where cancelled.
    """
    from checkmate.solvers.sequence.local_search import warm_up

    compile_first(say, cancelled)
    if not cancelled():
        warm_up()
