"""Arrange a schedule's steps so that the meter shows what is allowed.

A schedule may request little enough and yet be shown as too much, because the allocator's free memory is in
the wrong pieces. Then another order of its steps is cheaper than another schedule: it computes nothing more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.backends.tf.allocator.predict import before_steps, predicted_allocated
from checkmate.backends.tf.allocator.replay import requests_of_step
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.memory.check import check
from checkmate.progress import Cancelled, never, stop_if

_MOVES, _WORK = 40_000, 40_000_000  # in each round: the most moves, and moves times buffers; about 2 s
_SEEDS = 3  # searches; one may show a tenth more than another, and which one is chance
_ROUNDS = 3  # the requests are read anew from the best order: other inputs may be written over there


@dataclass(frozen=True, eq=False)
class Arranger:
    """Arranges schedules of one step.

    ``history`` is what the allocator is asked for before the first step: (handle, bytes). ``cancelled`` is
    asked before each search.
    """

    folded: FoldedStep
    graph: Graph
    history: Sequence[tuple[int, int]]
    cancelled: Cancelled = never

    def arranged(self, result: SolveResult, goal: int) -> SolveResult:
        """Return ``result`` with its steps in an order that shows less.

        It ends with the first order that should show at most ``goal`` bytes. No order requests more than the
        result's budget. The result comes back as it is where no order is better. Every order is replayed by
        ``check``; one that does not pass is not taken.

        Raises:
            CancelledError: the user cancelled.
        """
        best, least = result, self._shows(result)
        for seed in range(_SEEDS):
            stop_if(self.cancelled)
            found = self._arranged(result, goal, seed)
            if (shows := self._shows(found)) < least:
                best, least = found, shows
            if least <= goal:
                break
        return best

    def _shows(self, result: SolveResult) -> int:
        steps = result.require_schedule().steps.tolist()
        return predicted_allocated(self.folded, self.graph, steps, self.history)

    def _arranged(self, result: SolveResult, goal: int, seed: int) -> SolveResult:
        """Return the order that one search ended with."""
        from checkmate.solvers.addresses.arrange import arrange  # numba takes a while to load

        steps, peak = result.require_schedule().steps.tolist(), result.peak_bytes
        for number in range(_ROUNDS):
            before = before_steps(self.folded, self.graph, Schedule.of(self.graph, steps), self.history)
            requests = requests_of_step(self.folded, self.graph, steps)
            found = arrange(
                requests,
                before,
                moves=min(_MOVES, _WORK // max(1, len(requests.buffers))),
                seed=_ROUNDS * seed + number,
                goal=goal,
            )
            replayed = check(self.graph, found, budget_bytes=result.budget_bytes)
            if found == steps or not replayed.ok:
                break
            steps, peak = found, replayed.peak_bytes
        return dataclasses.replace(result, schedule=Schedule.of(self.graph, steps), peak_bytes=peak)
