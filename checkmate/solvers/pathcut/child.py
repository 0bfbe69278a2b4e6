"""Prove lower bounds for one budget after another.

This is the process ``python -m checkmate.solvers.pathcut.child``. A proof stops the moment the parent says
so.

In: ``PickledGraph``, ``Prove`` (gives up the one before), ``FittingSchedule``, ``Cancel``. Out, per job:
``ProofBegun``; ``ProvedBound`` and ``DescribedSchedule`` as they come; ``ProofEnded``.
"""

from __future__ import annotations

import pickle
import sys
import time

from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.ipc.messages import Message
from checkmate.ipc.steps import pack_steps, unpack_steps
from checkmate.ir.arrays import Steps
from checkmate.ir.graph import Graph
from checkmate.solvers.pathcut.cuts import Reach
from checkmate.solvers.pathcut.messages import (
    PROVER_MESSAGES,
    DescribedSchedule,
    FittingSchedule,
    PickledGraph,
    ProofBegun,
    ProofEnded,
    Prove,
    ProvedBound,
)
from checkmate.solvers.pathcut.prover import ProofListener, Prover

_REMEMBERED = 6  # the most budgets whose provers are kept, to go on with


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("prover", PROVER_MESSAGES), Inbox()
    known: dict[int, Steps] = {}

    def hear(message: Message) -> None:
        if isinstance(message, FittingSchedule):  # for the job that is being worked on
            known.clear()
            known[message.job] = unpack_steps(message.steps)
        else:
            inbox.put(message)

    channel.listen(hear)
    graph: Graph | None = None
    reach: Reach | None = None
    provers: dict[int, Prover] = {}
    while True:
        message = inbox.tasks.get()
        if isinstance(message, PickledGraph):
            graph = pickle.loads(message.graph)
            reach = Reach.of(graph)
            provers.clear()
        elif isinstance(message, Prove) and graph is not None and not inbox.cancelled(message.job):
            budget = message.budget_bytes
            prover = provers.pop(budget, None) or Prover(graph, budget, workers=message.workers, reach=reach)
            provers[budget] = prover
            while len(provers) > _REMEMBERED:
                provers.pop(next(iter(provers)))
            _prove(channel, inbox, prover, message, known)


class _Sender(ProofListener):
    """Sends what a job's prover finds, and stops when the parent says so."""

    def __init__(
        self, channel: Channel, inbox: Inbox, prover: Prover, job: int, known: dict[int, Steps]
    ) -> None:
        self._channel, self._inbox, self._prover, self._job = channel, inbox, prover, job
        self._known = known

    def bound(self, lower_bound: float, assumptions: tuple[str, ...] = ()) -> None:
        self._channel.send(ProvedBound(self._job, lower_bound, self._prover.cuts, self._prover.rounds))

    def described(self, steps: Steps) -> None:
        self._channel.send(DescribedSchedule(self._job, pack_steps(steps)))

    def known(self) -> Steps | None:
        return self._known.get(self._job)

    def cancelled(self) -> bool:
        return self._inbox.cancelled(self._job)


def _prove(channel: Channel, inbox: Inbox, prover: Prover, asked: Prove, known: dict[int, Steps]) -> None:
    sender = _Sender(channel, inbox, prover, asked.job, known)
    channel.send(ProofBegun(asked.job))
    error = ""
    try:
        sender.bound(prover.bound)
        rounds = None if asked.rounds is None else prover.rounds + asked.rounds
        prover.run(sender, until=time.perf_counter() + asked.seconds, rounds=rounds)
        sender.bound(prover.bound)
    except Exception as failure:  # the edge of this process
        error = f"the prover failed: {type(failure).__name__}: {str(failure)[:300]}"
    channel.send(ProofEnded(asked.job, error, prover.cuts, prover.rounds))


if __name__ == "__main__":
    sys.exit(main())
