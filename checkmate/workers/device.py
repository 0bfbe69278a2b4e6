"""Profile models and export schedules for the window: ``python -m checkmate.workers.device``.

TensorFlow is imported here, never in the window. In: ``Profile``, ``Export``, ``Cancel``. Out, per job:
``JobProgress``; a ``ProfiledGraph`` with estimated costs before anything is measured; ``ProfiledGraph`` or
``Exported``.
"""

from __future__ import annotations

import json
import os
from functools import partial
from typing import NoReturn

from checkmate import planning
from checkmate.errors import CheckmateError
from checkmate.formats.graph import pack_graph
from checkmate.formats.schedule import report_to_json, result_to_json
from checkmate.machine.fault_report import as_known
from checkmate.machine.supported import steps_are_tensorflows
from checkmate.processes.messages import Message
from checkmate.processes.serve import Server
from checkmate.request import ModelRequest
from checkmate.workers.window_messages import (
    WINDOW_MESSAGES,
    Export,
    Exported,
    Profile,
    ProfiledGraph,
    unpack_solved,
)


class DeviceServer(Server):
    """Outlives faults, as TensorFlow took seconds to load."""

    kind, table = "device", WINDOW_MESSAGES

    @classmethod
    def main(cls) -> NoReturn:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        if steps_are_tensorflows():  # else the first task is answered by saying so
            from checkmate.backends.tf.environment import prepare_own_process

            prepare_own_process()
        super().main()

    def fault(self, error: Exception) -> CheckmateError:
        return as_known(error)

    def work(self, asked: Message) -> Message | None:
        match asked:
            case Profile():
                return self._profile(asked)
            case Export():
                return self._export(asked)
        return None

    def _profile(self, asked: Profile) -> ProfiledGraph:
        graph = planning.profile(
            asked.request,
            costs=asked.costs,
            estimated=lambda graph: self.channel.send(ProfiledGraph(asked.job, True, pack_graph(graph))),
            report=partial(self.report, asked.job),
            cancelled=partial(self.inbox.cancelled, asked.job),
        )
        return ProfiledGraph(asked.job, False, pack_graph(graph))

    def _export(self, asked: Export) -> Exported:
        graph, result = unpack_solved(asked.graph_and_schedule)
        outcome = planning.export_within(
            ModelRequest.from_json(graph.origin.request),
            graph,
            result,
            asked.budget,
            asked.directory,
            constraints=asked.constraints,
            report=partial(self.report, asked.job),
            cancelled=partial(self.inbox.cancelled, asked.job),
        )
        written = json.dumps(result_to_json(outcome.graph, outcome.result)).encode("utf-8")
        return Exported(asked.job, report_to_json(outcome.report), written)


if __name__ == "__main__":
    DeviceServer.main()
