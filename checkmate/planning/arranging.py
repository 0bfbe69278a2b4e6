"""Arrange a schedule's steps so that the meter shows what is allowed.

Where the allocator's free memory is in the wrong pieces, another order of the steps is cheaper than another
schedule: it computes nothing more.
"""

from __future__ import annotations

from dataclasses import replace

from checkmate.backends.protocol import Replica
from checkmate.ir import Schedule, SolveResult
from checkmate.memory.check import check
from checkmate.progress import Cancelled, stop_if

_MOVES, _WORK = 40_000, 40_000_000  # per round: the most moves, and the most moves · buffers; about 2 s
_SEEDS = 3  # searches to try, since by chance one may end a tenth higher than another
_ROUNDS = 3  # the best order's requests are computed anew, because it may allow other take-overs


def arranged(replica: Replica, result: SolveResult, goal: int, cancelled: Cancelled) -> SolveResult:
    """Return ``result`` with its steps reordered to show fewer bytes, if possible at most ``goal``; unchanged
    if no better order is found. No order requests more than the result's budget; ``check`` replays each."""
    best, least = result, _shows(replica, result)
    for seed in range(_SEEDS):
        if least <= goal:
            break
        stop_if(cancelled)
        found = _searched(replica, result, goal, seed)
        if (shows := _shows(replica, found)) < least:
            best, least = found, shows
    return best


def _shows(replica: Replica, result: SolveResult) -> int:
    return replica.predicted(result.require_schedule().steps.tolist())


def _searched(replica: Replica, result: SolveResult, goal: int, seed: int) -> SolveResult:
    from checkmate.solvers.addresses.arrange import arrange

    steps, peak = result.require_schedule().steps.tolist(), result.peak_bytes
    for number in range(_ROUNDS):
        requests = replica.requests(steps)
        if requests is None:
            break
        found = arrange(
            requests,
            replica.before(steps),
            moves=min(_MOVES, _WORK // max(1, len(requests.buffers))),
            seed=_ROUNDS * seed + number,
            goal=goal,
        )
        replayed = check(replica.graph, found, budget_bytes=result.budget_bytes)
        if found == steps or not replayed.ok:
            break
        steps, peak = found, replayed.peak_bytes
    return replace(result, schedule=Schedule.of(replica.graph, steps), peak_bytes=peak)
