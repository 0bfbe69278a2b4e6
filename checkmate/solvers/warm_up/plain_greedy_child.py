"""``python -m checkmate.solvers.warm_up.plain_greedy_child``: run greedy as plain Python.

Run with ``NUMBA_DISABLE_JIT=1``. In: ``graph`` (body: a pickled graph of the parent's), ``fit`` (budget_bytes; a
newer one supersedes). Out: ``hello``, ``fitted`` (budget_bytes, fits; body: the schedule as int32).
"""

from __future__ import annotations

import math
import pickle
import sys

from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.ipc.protocol import Message
from checkmate.solvers.sequence.greedy_solver import QUICK, greedy_steps
from checkmate.solvers.sequence.model import Scaled, build_model


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("plain greedy", nicer=0), Inbox()
    channel.listen(inbox.put)
    # Pickled between two processes of this program on one machine only; files never are.
    scaled = build_model(pickle.loads(inbox.tasks.get().body))
    while True:
        _fit(channel, inbox, scaled, inbox.tasks.get())


def _fit(channel: Channel, inbox: Inbox, scaled: Scaled, message: Message) -> None:
    job, budget = message.job, int(message.header["budget_bytes"])
    end = greedy_steps(scaled, budget, until=math.inf, cancelled=lambda: inbox.cancelled(job), further=QUICK)
    facts = {"job": job, "budget_bytes": budget, "fits": end.fits}
    channel.send({"type": "fitted", **facts}, end.steps.tobytes())


if __name__ == "__main__":
    sys.exit(main())
