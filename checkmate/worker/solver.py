"""``python -m checkmate.worker.solver``: solves for the window, streams what it finds, stops the moment it is told.

In: ``graph`` (body: a graph file's JSON), ``solve`` (budget_bytes, time_limit_s), ``cancel``. Out: ``hello``, ``point`` (a schedule
found while filling the frontier), ``minimum``, ``incumbent``, ``bound``, ``done``, ``error``. Schedules travel as int32 bodies.
"""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from checkmate import pipeline
from checkmate.errors import CheckmateError
from checkmate.formats.graph import graph_from_json
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.problem import SolveOptions
from checkmate.worker.child import Channel, Inbox, begin
from checkmate.worker.protocol import Message

FRONTIER_POINTS = 14


class Streaming:
    """Sends a solve's news as it comes; asks the inbox whether to stop."""

    def __init__(self, channel: Channel, inbox: Inbox, job: int) -> None:
        self._channel, self._inbox, self._job = channel, inbox, job

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Send a better schedule."""
        body = np.asarray(steps, np.int32).tobytes()
        self._channel.send({"type": "incumbent", "job": self._job, "cost": float(cost)}, body)

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        """Send a better bound."""
        header = {
            "type": "bound",
            "job": self._job,
            "lower_bound": float(lower_bound),
            "assumptions": list(assumptions),
        }
        self._channel.send(header)

    def cancelled(self) -> bool:
        """Whether the window wants to stop, or has asked for something newer."""
        return self._inbox.cancelled(self._job)


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("solver"), Inbox()
    channel.listen(inbox.put)
    graph: Graph | None = None
    pending: list[int] = []
    while True:
        try:
            message = inbox.tasks.get(block=not pending)
        except queue.Empty:
            assert graph is not None
            _send_point(channel, graph, pending.pop(0))
            continue
        try:
            if message.type == "graph":
                graph = graph_from_json(Path(message.header.get("name", "graph")), json.loads(message.body))
                pending = _open(channel, graph)
            elif message.type == "solve" and graph is not None:
                _solve(channel, inbox, graph, message)
        except CheckmateError as error:
            channel.send({"type": "error", "job": message.job, "message": str(error), "hint": error.hint})


def _open(channel: Channel, graph: Graph) -> list[int]:
    """Tell the ends of the budget range; return the budgets to fill the frontier with, in a useful order."""
    peak = pipeline.keep_everything_peak(graph)
    bound = working_set_bound(graph)
    found = pipeline.known_minimum(graph)
    channel.send(
        {
            "type": "minimum",
            "bytes": found.bytes,
            "bound_bytes": bound.bytes,
            "op": bound.op,
            "values": list(bound.values),
            "keep_everything_bytes": peak,
            "proved": found.proved,
        }
    )
    low = max(found.bytes, 1)
    budgets = [int(budget) for budget in np.geomspace(low, max(peak, low), FRONTIER_POINTS)]
    return budgets[::2] + budgets[1::2]


def _send_point(channel: Channel, graph: Graph, budget: int) -> None:
    result = pipeline.solve(
        graph, budget, solver="greedy" if budget < pipeline.keep_everything_peak(graph) else "keep-all"
    )
    if result.schedule is not None:
        channel.send({"type": "point", **_facts(result)}, result.schedule.steps.tobytes())


def _solve(channel: Channel, inbox: Inbox, graph: Graph, message: Message) -> None:
    if inbox.cancelled(message.job):
        channel.send({"type": "done", "job": message.job, "status": "cancelled", "message": "superseded"})
        return
    options = SolveOptions(time_limit_s=float(message.header.get("time_limit_s", 20.0)))
    budget = int(message.header["budget_bytes"])
    result = pipeline.solve(graph, budget, options=options, listener=Streaming(channel, inbox, message.job))
    body = b"" if result.schedule is None else result.schedule.steps.tobytes()
    channel.send({"type": "done", "job": message.job, **_facts(result)}, body)


def _facts(result: SolveResult) -> dict[str, Any]:
    return {
        "status": result.status.value,
        "solver": result.solver,
        "budget_bytes": result.budget_bytes,
        "cost": result.cost,
        "base_cost": result.base_cost,
        "peak_bytes": result.peak_bytes,
        "lower_bound": result.lower_bound,
        "solve_seconds": result.solve_seconds,
        "assumptions": list(result.assumptions),
        "message": result.message,
        "statistics": dict(result.statistics),
    }


if __name__ == "__main__":
    sys.exit(main())
