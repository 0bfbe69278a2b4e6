"""``python -m checkmate.workers.solver``: solves for the window, streams what it finds, stops the moment it is told.

In: ``graph`` (body: a graph file's JSON; workers; constraints; question: a number for both), ``solve`` (budget_bytes, time_limit_s),
``least`` (max_overhead: a fraction, null for any cost; time_limit_s), ``known`` (body: a schedule of the graph; made to keep the constraints where it does not), ``known_bound``, ``cancel``. Out: ``hello``;
``preparing`` (message) while the search is being compiled, on a machine's first use, and ``prepared`` (message) after it;
``range``, ``point`` (a schedule new on the frontier) and ``known_bound`` (budget_bytes, lower_bound; null: no schedule exists), each
with its question; per solve ``incumbent``, ``bound``, ``done``, ``error``; per search for the least memory ``smaller`` (peak_bytes,
cost; body), ``bound_bytes`` (lower_bound_bytes), ``done`` (with ``least``), ``error``. Schedules travel as int32 bodies. What is found and
proved holds under the question's constraints.
"""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from checkmate.errors import CheckmateError
from checkmate.formats.graph import graph_from_json
from checkmate.formats.result import result_facts
from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.ipc.protocol import Message
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.progress import never
from checkmate.solvers.compile.cache import is_compiled
from checkmate.solvers.compile.compilation import Compilation, wait_for
from checkmate.solvers.constraints import Constraints, constrained, start_for
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.solvers.once_bound import held_bound
from checkmate.solvers.portfolio.interactive import Live
from checkmate.solvers.problem import SolveOptions


class Streaming:
    """Sends a solve's news as it comes; asks the inbox whether to stop."""

    def __init__(self, channel: Channel, inbox: Inbox, job: int) -> None:
        self._channel, self._inbox, self._job = channel, inbox, job

    def preparing(self, sentence: str) -> None:
        """Told already, solve or no solve."""

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


class Shrinking:
    """The same for a search for the least memory."""

    def __init__(self, channel: Channel, inbox: Inbox, job: int) -> None:
        self._channel, self._inbox, self._job = channel, inbox, job

    def preparing(self, sentence: str) -> None:
        """Told already, solve or no solve."""

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        """Send a smaller schedule."""
        header = {"type": "smaller", "job": self._job, "peak_bytes": int(peak_bytes), "cost": float(cost)}
        self._channel.send(header, np.asarray(steps, np.int32).tobytes())

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        """Send a better bound; one under assumptions is not known to hold."""
        if not assumptions:
            header = {"type": "bound_bytes", "job": self._job, "lower_bound_bytes": int(lower_bound_bytes)}
            self._channel.send(header)

    def cancelled(self) -> bool:
        """Whether the window wants to stop, or has asked for something newer."""
        return self._inbox.cancelled(self._job)


class Growing:
    """Sends what is new on the frontier of ``question``."""

    def __init__(self, channel: Channel, question: int) -> None:
        self._channel, self._question = channel, question

    def point(self, point: FrontierPoint) -> None:
        """Send a schedule."""
        header = {
            "type": "point",
            "question": self._question,
            "budget_bytes": point.budget_bytes,
            "solver": point.solver,
            "solve_seconds": point.seconds,
        }
        self._channel.send(header, point.schedule.steps.tobytes())

    def bound(self, budget_bytes: int, lower_bound: float) -> None:
        """Send a bound."""
        value = None if math.isinf(lower_bound) else lower_bound
        header = {"type": "known_bound", "question": self._question}
        self._channel.send({**header, "budget_bytes": budget_bytes, "lower_bound": value})


class Question:
    """A graph, its constraints, and the live exploration of both."""

    def __init__(self, channel: Channel, message: Message, compilation: Compilation | None) -> None:
        header = message.header
        self.graph = graph_from_json(Path(header.get("name", "graph")), json.loads(message.body))
        self.limited = constrained(self.graph, Constraints.from_json(header.get("constraints", {})))
        self.growing = Growing(channel, int(header["question"]))
        workers = int(header.get("workers", 1))
        self.live = Live(self.limited, self.growing, workers=workers, compilation=compilation)
        channel.send({"type": "range", "question": int(header["question"]), **_range(self.limited)})
        self.live.begin()

    def take(self, steps: list[int], solver: str) -> None:
        """Take in a schedule of the graph; what comes of it under the constraints is sent, where that is something else."""
        start = start_for(self.graph, self.limited, Schedule.of(self.graph, steps))
        if start is not None:
            point = self.live.frontier.add(start.steps.tolist(), solver=solver)
            if point is not None and start.steps.tolist() != steps:
                self.growing.point(point)


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("solver"), Inbox()
    channel.listen(inbox.put)
    compilation = None if is_compiled() else Compilation()
    if compilation is not None:
        threading.Thread(target=_tell, args=(channel, compilation), daemon=True, name="tell").start()
    question: Question | None = None
    while True:
        idle = question is not None and inbox.tasks.empty()
        if idle and question is not None and question.live.idle(lambda: not inbox.tasks.empty()):
            continue
        message = inbox.tasks.get()
        try:
            if message.type == "graph":
                if question is not None:
                    question.live.close()
                    question = None
                question = Question(channel, message, compilation)
            elif question is not None:
                _serve(channel, inbox, question, message)
        except CheckmateError as error:
            channel.send({"type": "error", "job": message.job, "message": str(error), "hint": error.hint})


def _tell(channel: Channel, compilation: Compilation) -> None:
    """Say how far the search is compiled, until it is."""
    wait_for(compilation, lambda sentence: channel.send({"type": "preparing", "message": sentence}), never)
    channel.send({"type": "prepared", "message": compilation.sentence})


def _range(graph: Graph) -> dict[str, Any]:
    need = held_bound(graph)
    return {"bound_bytes": need.bytes, "op": need.op, "values": list(need.values)}


def _serve(channel: Channel, inbox: Inbox, question: Question, message: Message) -> None:
    if message.type in ("solve", "least"):
        if inbox.cancelled(message.job):
            channel.send({"type": "done", "job": message.job, "status": "cancelled", "message": "superseded"})
        else:
            (_solve if message.type == "solve" else _least)(channel, inbox, question.live, message)
    elif message.type == "known":
        question.take(np.frombuffer(message.body, np.int32).tolist(), str(message.header["solver"]))
    elif message.type == "known_bound":
        value = message.header["lower_bound"]
        bound = math.inf if value is None else float(value)
        question.live.frontier.add_bound(int(message.header["budget_bytes"]), bound)


def _solve(channel: Channel, inbox: Inbox, live: Live, message: Message) -> None:
    options = SolveOptions(time_limit_s=float(message.header.get("time_limit_s", 20.0)))
    budget = int(message.header["budget_bytes"])
    result = live.solve(budget, options, Streaming(channel, inbox, message.job))
    body = b"" if result.schedule is None else result.schedule.steps.tobytes()
    channel.send({"type": "done", "job": message.job, **_facts(result)}, body)


def _least(channel: Channel, inbox: Inbox, live: Live, message: Message) -> None:
    cap = message.header["max_overhead"]
    options = SolveOptions(time_limit_s=float(message.header.get("time_limit_s", 20.0)))
    found = live.least(None if cap is None else float(cap), options, Shrinking(channel, inbox, message.job))
    least = {"lower_bound_bytes": found.lower_bound_bytes, "proved": found.proved, "probes": found.probes}
    status = "optimal" if found.proved else "cancelled" if found.cancelled else "feasible"
    facts = {**_facts(found.result), "status": status, "least": least}
    channel.send({"type": "done", "job": message.job, **facts}, found.schedule.steps.tobytes())


def _facts(result: SolveResult) -> dict[str, Any]:
    return {**result_facts(result), "statistics": dict(result.statistics)}


if __name__ == "__main__":
    sys.exit(main())
