"""Make a certificate for the window.

This is the process ``python -m checkmate.workers.certifier``.

In: ``Certify`` and ``Cancel``. Out: ``CertifyProgress`` while it works; then ``CertificateWritten`` or
``CertifyFailed``. What was cancelled writes nothing, and does not answer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from checkmate import planning
from checkmate.errors import CheckmateError
from checkmate.formats.graph import graph_from_json
from checkmate.formats.schedule import write_certificate
from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.progress import Progress
from checkmate.workers.messages.certifier import CertificateWritten, Certify, CertifyFailed, CertifyProgress
from checkmate.workers.messages.table import WINDOW_MESSAGES


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("certifier", WINDOW_MESSAGES), Inbox()
    channel.listen(inbox.put)
    while True:
        match inbox.tasks.get():
            case Certify() as asked if not inbox.cancelled(asked.job):
                _certify(channel, inbox, asked)


def _certify(channel: Channel, inbox: Inbox, asked: Certify) -> None:
    def report(progress: Progress) -> None:
        channel.send(CertifyProgress(asked.job, progress.message))

    try:
        found = planning.certify(
            graph_from_json(Path(asked.name), json.loads(asked.graph)),
            asked.budget_bytes,
            known_cost=asked.known_cost,
            seconds=asked.seconds,
            report=report,
            cancelled=lambda: inbox.cancelled(asked.job),
        )
        if inbox.cancelled(asked.job):
            return
        if found is None:
            sentence = f"no certificate was made in {asked.seconds:g} s"
            hint = "give it more time in a terminal: checkmate certify --time-limit 600"
            channel.send(CertifyFailed(asked.job, sentence, hint))
            return
        write_certificate(asked.path, found.data)
    except CheckmateError as error:
        channel.send(CertifyFailed(asked.job, str(error), error.hint))
    else:
        channel.send(CertificateWritten(asked.job, found.cost, found.cases))


if __name__ == "__main__":
    sys.exit(main())
