"""``python -m checkmate.worker.solver``: solves for the window, streams what it finds, stops the moment it is told.

In: ``graph`` (body: a graph file's JSON; workers), ``solve`` (budget_bytes, time_limit_s), ``known`` (body: a schedule from a saved
exploration), ``known_bound``, ``cancel``. Out: ``hello``, ``range``, ``point`` (a schedule new on the frontier), ``known_bound``
(budget_bytes, lower_bound; null: no schedule exists), and per solve ``incumbent``, ``bound``, ``done``, ``error``. Schedules travel as int32 bodies.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from checkmate.errors import CheckmateError
from checkmate.formats.graph import graph_from_json
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.solvers.frontier import FrontierPoint
from checkmate.solvers.held import held_bound
from checkmate.solvers.live import Live
from checkmate.solvers.problem import SolveOptions
from checkmate.worker.child import Channel, Inbox, begin
from checkmate.worker.protocol import Message


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


class Growing:
    """Sends what is new on the frontier."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def point(self, point: FrontierPoint) -> None:
        """Send a schedule."""
        header = {
            "type": "point",
            "budget_bytes": point.budget_bytes,
            "solver": point.solver,
            "solve_seconds": point.seconds,
        }
        self._channel.send(header, point.schedule.steps.tobytes())

    def bound(self, budget_bytes: int, lower_bound: float) -> None:
        """Send a bound."""
        value = None if math.isinf(lower_bound) else lower_bound
        self._channel.send({"type": "known_bound", "budget_bytes": budget_bytes, "lower_bound": value})


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("solver"), Inbox()
    channel.listen(inbox.put)
    live: Live | None = None
    while True:
        if live is not None and inbox.tasks.empty() and live.idle(lambda: not inbox.tasks.empty()):
            continue
        message = inbox.tasks.get()
        try:
            if message.type == "graph":
                if live is not None:
                    live.close()
                live = _open(channel, message)
            elif live is not None:
                _serve(channel, inbox, live, message)
        except CheckmateError as error:
            channel.send({"type": "error", "job": message.job, "message": str(error), "hint": error.hint})


def _open(channel: Channel, message: Message) -> Live:
    graph = graph_from_json(Path(message.header.get("name", "graph")), json.loads(message.body))
    live = Live(graph, Growing(channel), workers=int(message.header.get("workers", 1)))
    channel.send({"type": "range", **_range(graph)})
    live.begin()
    return live


def _range(graph: Graph) -> dict[str, Any]:
    need = held_bound(graph)
    return {"bound_bytes": need.bytes, "op": need.op, "values": list(need.values)}


def _serve(channel: Channel, inbox: Inbox, live: Live, message: Message) -> None:
    if message.type == "solve":
        _solve(channel, inbox, live, message)
    elif message.type == "known":
        live.frontier.add(np.frombuffer(message.body, np.int32).tolist(), solver=str(message.header["solver"]))
    elif message.type == "known_bound":
        value = message.header["lower_bound"]
        live.frontier.add_bound(int(message.header["budget_bytes"]), math.inf if value is None else float(value))


def _solve(channel: Channel, inbox: Inbox, live: Live, message: Message) -> None:
    if inbox.cancelled(message.job):
        channel.send({"type": "done", "job": message.job, "status": "cancelled", "message": "superseded"})
        return
    options = SolveOptions(time_limit_s=float(message.header.get("time_limit_s", 20.0)))
    budget = int(message.header["budget_bytes"])
    result = live.solve(budget, options, Streaming(channel, inbox, message.job))
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
