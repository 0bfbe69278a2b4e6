"""``python -m checkmate.workers.checker``: replays schedules for the window, independently of the process that found them.

In: ``graph`` (name; body: a graph file's JSON), ``question`` (question: a number; constraints), ``check`` (ticket, question; body: a
schedule, int32). Out: ``hello``; ``checked`` (ticket; report: under the question's constraints; plain: of the graph without them).
In the order of arrival.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from checkmate.formats.graph import graph_from_json
from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.ipc.protocol import Message
from checkmate.ir.graph import Graph
from checkmate.ir.report import CheckReport
from checkmate.memory.check import check
from checkmate.solvers.constraints import Constraints, constrained


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("checker"), Inbox()
    channel.listen(inbox.put)
    graph: Graph | None = None
    limited: dict[int, Graph] = {}
    while True:
        message = inbox.tasks.get()
        if message.type == "graph":
            graph, limited = graph_from_json(Path(message.header["name"]), json.loads(message.body)), {}
        elif message.type == "question" and graph is not None:
            constraints = Constraints.from_json(message.header["constraints"])
            limited[int(message.header["question"])] = constrained(graph, constraints)
        elif message.type == "check" and graph is not None:
            _serve(channel, graph, limited[int(message.header["question"])], message)


def _serve(channel: Channel, graph: Graph, limited: Graph, message: Message) -> None:
    steps = np.frombuffer(message.body, np.int32).tolist()
    report = check(limited, steps)
    plain = report if limited is graph else check(graph, steps)
    facts = {"report": report_to_header(report), "plain": report_to_header(plain)}
    channel.send({"type": "checked", "ticket": message.header["ticket"], **facts})


def report_to_header(report: CheckReport) -> dict[str, Any]:
    """For a message's header; numbers come out of it as they went in."""
    return {
        "violations": [violation.message for violation in report.violations],
        "peak_bytes": report.peak_bytes,
        "peak_step": report.peak_step,
        "cost": report.cost,
        "base_cost": report.base_cost,
        "recomputations": report.recomputations,
    }


if __name__ == "__main__":
    sys.exit(main())
