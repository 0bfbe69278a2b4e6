"""Check schedules, and place their buffers, for the window: ``python -m checkmate.workers.replays``.

It shares nothing with the process that found the schedules, so its checks are independent. In:
``GraphToReplay``, ``ConstraintsToCheck``; ``CheckSchedule`` or ``PlaceSchedule``. Out: ``Checked`` in the
order of asking; ``JobProgress`` of a placement, and ``Placed``.
"""

from __future__ import annotations

import time

from checkmate.formats.graph import unpack_graph
from checkmate.ir import Graph, Schedule
from checkmate.memory.check import check
from checkmate.memory.placement import place
from checkmate.memory.simulate import simulate
from checkmate.processes.messages import Message, unpack_steps
from checkmate.processes.serve import Server
from checkmate.progress import Progress
from checkmate.solvers.constraints import constrained
from checkmate.workers.window_messages import (
    WINDOW_MESSAGES,
    Checked,
    CheckSchedule,
    ConstraintsToCheck,
    GraphToReplay,
    Placed,
    PlaceSchedule,
)

_TOLD_EVERY_S = 0.1


class ReplayServer(Server):
    kind, table = "replays", WINDOW_MESSAGES
    _graph: Graph | None = None

    def work(self, asked: Message) -> Message | None:
        graph = self._graph
        match asked:
            case GraphToReplay(graph=body):
                self._graph = unpack_graph(body)
                self._limited = dict[int, Graph]()  # the graph under each question's constraints
            case ConstraintsToCheck(question=question, constraints=constraints) if graph is not None:
                self._limited[question] = constrained(graph, constraints)
            case CheckSchedule() if graph is not None:
                limited, steps = self._limited[asked.question], unpack_steps(asked.steps).tolist()
                report = check(limited, steps)
                return Checked(asked.job, report, report if limited is graph else check(graph, steps))
            case PlaceSchedule() if graph is not None:
                return self._place(graph, asked)
        return None

    def _place(self, graph: Graph, asked: PlaceSchedule) -> Placed | None:
        schedule = Schedule.of(graph, unpack_steps(asked.steps))
        told = time.monotonic()

        def report(share: float) -> None:
            nonlocal told
            if time.monotonic() - told > _TOLD_EVERY_S:
                told = time.monotonic()
                self.report(asked.job, Progress("place", share, 1.0))

        timeline = simulate(graph, schedule)
        placement = place(graph, schedule, timeline, report, lambda: self.inbox.cancelled(asked.job))
        return None if placement is None else Placed(asked.job, placement.to_bytes())


if __name__ == "__main__":
    ReplayServer.main()
