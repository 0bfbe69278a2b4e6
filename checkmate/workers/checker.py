"""Replay schedules for the window.

This is the process ``python -m checkmate.workers.checker``. It shares nothing with the process that found
them, so its answers are independent.

In: ``GraphToCheck``, ``ConstraintsToCheck``, ``CheckSchedule``. Out: ``Checked``, in the order of asking.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from checkmate.formats.graph import graph_from_json
from checkmate.ipc.child import Inbox, begin
from checkmate.ipc.steps import unpack_steps
from checkmate.ir.graph import Graph
from checkmate.memory.check import check
from checkmate.solvers.constraints import constrained
from checkmate.workers.messages.checker import Checked, CheckSchedule, ConstraintsToCheck, GraphToCheck
from checkmate.workers.messages.table import WINDOW_MESSAGES


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("checker", WINDOW_MESSAGES), Inbox()
    channel.listen(inbox.put)
    graph: Graph | None = None
    limited: dict[int, Graph] = {}  # the graph under each question's constraints
    while True:
        match inbox.tasks.get():
            case GraphToCheck(name=name, graph=body):
                graph, limited = graph_from_json(Path(name), json.loads(body)), {}
            case ConstraintsToCheck(question=question, constraints=constraints) if graph is not None:
                limited[question] = constrained(graph, constraints)
            case CheckSchedule() as asked if graph is not None:
                channel.send(_check(graph, limited[asked.question], asked))


def _check(graph: Graph, limited: Graph, asked: CheckSchedule) -> Checked:
    steps = unpack_steps(asked.steps).tolist()
    report = check(limited, steps)
    return Checked(asked.ticket, report, report if limited is graph else check(graph, steps))


if __name__ == "__main__":
    sys.exit(main())
