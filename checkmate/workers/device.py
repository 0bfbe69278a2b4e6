"""Profile models and export schedules for the window.

This is the process ``python -m checkmate.workers.device``. TensorFlow is imported here, never in the window.

In: ``Profile``, ``Export``, ``Cancel``. Out, per job: ``DeviceProgress``; for a profile ``EstimatedGraph``
before anything is measured; then one of ``ProfiledGraph``, ``Exported``, ``DeviceCancelled``,
``DeviceFailed`` and ``StepChanged``, which ends the job.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from checkmate import planning
from checkmate.errors import CancelledError, CheckmateError, OtherStepError
from checkmate.formats.graph import graph_from_json, graph_to_json
from checkmate.formats.schedule import report_to_json, result_from_json, result_to_json
from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.ipc.messages import Message
from checkmate.ir.graph import Graph
from checkmate.machine.supported import JAX, keras_backend, why_unsupported
from checkmate.progress import Cancelled, Progress, Report
from checkmate.request import ModelRequest
from checkmate.workers.messages.device import (
    DeviceCancelled,
    DeviceFailed,
    DeviceProgress,
    EstimatedGraph,
    Export,
    Exported,
    Profile,
    ProfiledGraph,
    StepChanged,
)
from checkmate.workers.messages.table import WINDOW_MESSAGES


def main() -> int:
    """Serve until the parent is gone."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if keras_backend() != JAX and not why_unsupported():  # else the first task is answered by saying so
        from checkmate.backends.tf.environment import prepare_own_process

        prepare_own_process()
    channel, inbox = begin("device", WINDOW_MESSAGES), Inbox()
    channel.listen(inbox.put)
    while True:
        answer(channel, inbox, inbox.tasks.get())


def answer(channel: Channel, inbox: Inbox, message: Message) -> None:
    """Do what ``message`` asks, and send how it ended.

    An error is an answer too, and does not end this process: TensorFlow took seconds to load.
    """
    if not isinstance(message, Profile | Export):
        return
    job = message.job
    try:
        channel.send(_serve(channel, message, lambda: inbox.cancelled(job, superseded=False)))
    except CancelledError:
        channel.send(DeviceCancelled(job))
    except OtherStepError as error:
        channel.send(StepChanged(job, str(error), error.hint))
    except CheckmateError as error:
        channel.send(DeviceFailed(job, str(error), error.hint))
    except Exception as error:  # a fault inside, or in a library
        traceback.print_exc()  # the window keeps what is written to stderr in its log
        text = f"unexpected {type(error).__name__}: {str(error)[:300]}"
        hint = "this is a fault in the program; Copy report includes the traceback"
        channel.send(DeviceFailed(job, text, hint))


def _serve(channel: Channel, asked: Profile | Export, cancelled: Cancelled) -> Message:
    """Return the job's last message; those before it are sent."""

    def report(progress: Progress) -> None:
        channel.send(DeviceProgress(asked.job, progress))

    if isinstance(asked, Export):
        return _export(asked, report, cancelled)
    graph = planning.profile(
        asked.request,
        costs=asked.costs,
        estimated=lambda graph: channel.send(EstimatedGraph(asked.job, _graph_body(graph))),
        report=report,
        cancelled=cancelled,
    )
    return ProfiledGraph(asked.job, _graph_body(graph))


def _export(asked: Export, report: Report, cancelled: Cancelled) -> Exported:
    data = json.loads(asked.graph_and_schedule)
    graph = graph_from_json(Path("graph"), data["graph"])
    outcome = planning.export_within(
        ModelRequest.from_json(graph.metadata["request"]),
        graph,
        result_from_json(Path("schedule"), data["schedule"], graph),
        asked.budget,
        asked.directory,
        constraints=asked.constraints,
        report=report,
        cancelled=cancelled,
    )
    written = json.dumps(result_to_json(outcome.graph, outcome.result)).encode("utf-8")
    return Exported(asked.job, report_to_json(outcome.report), written)


def _graph_body(graph: Graph) -> bytes:
    return json.dumps(graph_to_json(graph)).encode("utf-8")


if __name__ == "__main__":
    sys.exit(main())
