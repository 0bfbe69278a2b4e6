"""``python -m checkmate.workers.device``: TensorFlow's process for the window: profiles models, exports schedules.

In: ``profile`` (request, costs), ``export`` (request, directory, budget_bytes or budget_share of the plain step's peak, constraints
or null; body: graph and result as JSON), ``cancel``. Out: ``hello``, ``progress``, ``estimated`` (before anything is measured; body: the
graph's JSON, with estimated costs), ``profiled`` (body: the graph's JSON), ``exported`` (report; body: the written schedule's JSON, which
another one took the place of where its measured peak was over the budget), ``cancelled``, ``error`` (profile_again: whether profiling
the model again helps).
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from checkmate import pipeline
from checkmate.errors import CancelledError, CheckmateError, OtherStepError
from checkmate.formats.graph import graph_from_json, graph_to_json
from checkmate.formats.report import report_to_json
from checkmate.formats.schedule import result_from_json, result_to_json
from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.ipc.protocol import Message
from checkmate.ir.graph import Graph
from checkmate.machine.supported import why_unsupported
from checkmate.progress import Progress, Report
from checkmate.request import ModelRequest
from checkmate.solvers.constraints import Constraints
from checkmate.units import Budget


def main() -> int:
    """Serve until the parent is gone."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not why_unsupported():  # else the first task is answered by saying so
        from checkmate.tf.environment import prepare_own_process

        prepare_own_process()
    channel, inbox = begin("device"), Inbox()
    channel.listen(inbox.put)
    while True:
        answer(channel, inbox, inbox.tasks.get())


def answer(channel: Channel, inbox: Inbox, message: Message) -> None:
    """Do what ``message`` asks. Whatever goes wrong is an answer too: TensorFlow took seconds to load, and stays."""
    try:
        _serve(channel, inbox, message)
    except CancelledError:
        channel.send({"type": "cancelled", "job": message.job})
    except CheckmateError as error:
        again = isinstance(error, OtherStepError)
        said = {"message": str(error), "hint": error.hint, "profile_again": again}
        channel.send({"type": "error", "job": message.job, **said})
    except Exception as error:  # a fault inside, or in a library
        traceback.print_exc()  # the window keeps what is written to stderr in its log
        text = f"unexpected {type(error).__name__}: {str(error)[:300]}"
        hint = "this is a fault inside the program; Copy report takes its traceback along"
        channel.send({"type": "error", "job": message.job, "message": text, "hint": hint})


def _serve(channel: Channel, inbox: Inbox, message: Message) -> None:
    def cancelled() -> bool:
        return inbox.cancelled(message.job, superseded=False)

    report = _reporter(channel, message.job)
    if message.type == "profile":
        request = ModelRequest.from_json(message.header["request"])
        costs = str(message.header.get("costs", "measured"))

        def send(kind: str, graph: Graph) -> None:
            channel.send({"type": kind, "job": message.job}, json.dumps(graph_to_json(graph)).encode("utf-8"))

        graph = pipeline.profile(
            request,
            costs=costs,
            estimated=lambda graph: send("estimated", graph),
            report=report,
            cancelled=cancelled,
        )
        send("profiled", graph)
    elif message.type == "export":
        data = json.loads(message.body)
        graph = graph_from_json(Path("graph"), data["graph"])
        result = result_from_json(Path("schedule"), data["schedule"], graph)
        constraints = message.header.get("constraints")
        outcome = pipeline.export_within(
            ModelRequest.from_json(message.header["request"]),
            graph,
            result,
            Budget(message.header.get("budget_bytes"), message.header.get("budget_share")),
            Path(message.header["directory"]),
            constraints=None if constraints is None else Constraints.from_json(constraints),
            report=report,
            cancelled=cancelled,
        )
        written = json.dumps(result_to_json(outcome.graph, outcome.result)).encode("utf-8")
        channel.send(
            {"type": "exported", "job": message.job, "report": report_to_json(outcome.report)}, written
        )


def _reporter(channel: Channel, job: int) -> Report:
    def report(progress: Progress) -> None:
        channel.send(
            {
                "type": "progress",
                "job": job,
                "stage": progress.stage,
                "done": progress.done,
                "total": progress.total,
                "message": progress.message,
            }
        )

    return report


if __name__ == "__main__":
    sys.exit(main())
