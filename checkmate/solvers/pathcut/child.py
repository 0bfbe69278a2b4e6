"""Prove lower bounds for one budget after another, in its own process.

``python -m checkmate.solvers.pathcut.child``

A job can be stopped at any moment. In: ``graph`` (body: a pickled graph of the parent's), ``prove``
(budget_bytes, seconds, rounds, workers; replaces the job before), ``known`` (body: a schedule), ``cancel``.
Out: ``begun``, ``bound`` (null: no schedule exists), ``described`` (body: a schedule that may not fit),
``over``. Schedules are int32 bodies.
"""

from __future__ import annotations

import math
import pickle
import sys
import time

import numpy as np

from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.ipc.protocol import Message
from checkmate.ir.graph import Graph
from checkmate.solvers.pathcut.cuts import Reach
from checkmate.solvers.pathcut.prover import Prover, Steps

_REMEMBERED = 6  # the most budgets whose provers are kept, to go on with


def main() -> int:
    """Serve until the parent has ended."""
    channel, inbox = begin("prover"), Inbox()
    known: dict[int, Steps] = {}

    def take_message(message: Message) -> None:
        if message.type == "known":
            known.clear()
            known[message.job] = np.frombuffer(message.body, np.int32)
        else:
            if message.type == "prove":
                message.header["supersedes"] = True
            inbox.put(message)

    channel.listen(take_message)
    graph: Graph | None = None
    reach: Reach | None = None
    provers: dict[int, Prover] = {}
    while True:
        message = inbox.tasks.get()
        if message.type == "graph":
            graph = pickle.loads(message.body)
            reach = Reach.of(graph)
            provers.clear()
        elif message.type == "prove" and graph is not None and not inbox.cancelled(message.job):
            budget = int(message.header["budget_bytes"])
            workers = int(message.header["workers"])
            prover = provers.pop(budget, None) or Prover(graph, budget, workers=workers, reach=reach)
            provers[budget] = prover
            while len(provers) > _REMEMBERED:
                provers.pop(next(iter(provers)))
            _prove(channel, inbox, prover, message, known)


def _prove(channel: Channel, inbox: Inbox, prover: Prover, message: Message, known: dict[int, Steps]) -> None:
    """Do one job and report on it."""
    job, rounds = message.job, message.header.get("rounds")

    def facts() -> dict[str, object]:
        return {"job": job, "cuts": prover.cuts, "programs": prover.rounds}

    def report_bound(bound: float) -> None:
        channel.send({"type": "bound", "bound": None if math.isinf(bound) else bound, **facts()})

    channel.send({"type": "begun", "job": job})
    error = ""
    try:
        report_bound(prover.bound)
        prover.run(
            until=time.perf_counter() + float(message.header["seconds"]),
            cancelled=lambda: inbox.cancelled(job),
            on_bound=report_bound,
            on_steps=lambda steps: channel.send({"type": "described", "job": job}, steps.tobytes()),
            enough=lambda bound: False,  # the parent knows the cost, and stops the job
            rounds=None if rounds is None else prover.rounds + int(rounds),
            known=lambda: known.get(job),
        )
        report_bound(prover.bound)
    except Exception as failure:  # the edge of this process
        error = f"the prover failed: {type(failure).__name__}: {str(failure)[:300]}"
    channel.send({"type": "over", "error": error, **facts()})


if __name__ == "__main__":
    sys.exit(main())
