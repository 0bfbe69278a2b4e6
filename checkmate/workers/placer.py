"""Place the buffers of schedules for the window.

This is the process ``python -m checkmate.workers.placer``. It asks the allocator's replica.

In: ``GraphToCheck``, ``PlaceSchedule``. Out: ``PlacingProgress``, ``Placed``. A newer schedule stops the work
on an older one, which then has no answer.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from checkmate.formats.graph import graph_from_json
from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.ipc.steps import unpack_steps
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.placement import place
from checkmate.memory.simulate import simulate
from checkmate.workers.messages.checker import GraphToCheck
from checkmate.workers.messages.placer import Placed, PlaceSchedule, PlacingProgress
from checkmate.workers.messages.table import WINDOW_MESSAGES

_TOLD_EVERY_S = 0.1


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("placer", WINDOW_MESSAGES), Inbox()
    channel.listen(inbox.put)
    graph: Graph | None = None
    while True:
        match inbox.tasks.get():
            case GraphToCheck(name=name, graph=body):
                graph = graph_from_json(Path(name), json.loads(body))
            case PlaceSchedule() as asked if graph is not None and not inbox.cancelled(asked.job):
                _place(channel, inbox, graph, asked)


def _place(channel: Channel, inbox: Inbox, graph: Graph, asked: PlaceSchedule) -> None:
    schedule = Schedule.of(graph, unpack_steps(asked.steps))
    told = time.monotonic()

    def report(share: float) -> None:
        nonlocal told
        if time.monotonic() - told > _TOLD_EVERY_S:
            told = time.monotonic()
            channel.send(PlacingProgress(asked.job, share))

    timeline = simulate(graph, schedule)
    placement = place(graph, schedule, timeline, report, lambda: inbox.cancelled(asked.job))
    if placement is not None:
        channel.send(Placed(asked.job, placement.to_bytes()))


if __name__ == "__main__":
    sys.exit(main())
