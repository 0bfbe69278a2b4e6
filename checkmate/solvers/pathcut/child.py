"""Prove lower bounds for one budget after another: ``python -m checkmate.solvers.pathcut.child``.

In: ``PickledGraph``, ``Prove`` (gives up the one before), ``FittingSchedule``, ``Cancel``. Out, per job:
``ProofBegun``; ``ProvedBound`` and ``DescribedSchedule`` as they come; ``ProofEnded``.
"""

from __future__ import annotations

import pickle
import time

from checkmate.ir import Graph
from checkmate.ir.arrays import Steps
from checkmate.processes.messages import Message, pack_steps, unpack_steps
from checkmate.processes.serve import Channel, Inbox, Server
from checkmate.solvers.pathcut.cuts import Reach
from checkmate.solvers.pathcut.in_process import (
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


class ProverServer(Server):
    kind, table = "prover", PROVER_MESSAGES

    def __init__(self, channel: Channel, inbox: Inbox) -> None:
        super().__init__(channel, inbox)
        self._graph: Graph | None = None
        self._reach: Reach | None = None
        self._provers: dict[int, Prover] = {}
        self._known: dict[int, Steps] = {}  # a schedule for the job that is being worked on

    def hear(self, message: Message) -> None:
        if isinstance(message, FittingSchedule):
            self._known = {message.job: unpack_steps(message.steps)}
        else:
            super().hear(message)

    def work(self, asked: Message) -> Message | None:
        if isinstance(asked, PickledGraph):
            graph: Graph = pickle.loads(asked.graph)
            self._graph, self._reach = graph, Reach.of(graph)
            self._provers.clear()
        elif isinstance(asked, Prove) and self._graph is not None:
            return self._prove(self._prover(self._graph, asked), asked)
        return None

    def _prover(self, graph: Graph, asked: Prove) -> Prover:
        budget, provers = asked.budget_bytes, self._provers
        prover = provers.pop(budget, None) or Prover(graph, budget, workers=asked.workers, reach=self._reach)
        provers[budget] = prover
        while len(provers) > _REMEMBERED:
            provers.pop(next(iter(provers)))
        return prover

    def _prove(self, prover: Prover, asked: Prove) -> ProofEnded:
        sender, error = _Sender(self, prover, asked.job), ""
        self.channel.send(ProofBegun(asked.job))
        try:
            sender.bound(prover.bound)
            prover.run(sender, until=time.perf_counter() + asked.seconds)
            sender.bound(prover.bound)
        except Exception as failure:  # the edge of this process
            error = f"the prover failed: {type(failure).__name__}: {str(failure)[:300]}"
        return ProofEnded(asked.job, error)

    def known(self, job: int) -> Steps | None:
        return self._known.get(job)


class _Sender(ProofListener):
    def __init__(self, server: ProverServer, prover: Prover, job: int) -> None:
        self._server, self._prover, self._job = server, prover, job

    def bound(self, lower_bound: float, assumptions: tuple[str, ...] = ()) -> None:
        self._server.channel.send(ProvedBound(self._job, lower_bound, self._prover.cuts, self._prover.rounds))

    def described(self, steps: Steps) -> None:
        self._server.channel.send(DescribedSchedule(self._job, pack_steps(steps)))

    def known(self) -> Steps | None:
        return self._server.known(self._job)

    def cancelled(self) -> bool:
        return self._server.inbox.cancelled(self._job)


if __name__ == "__main__":
    ProverServer.main()
