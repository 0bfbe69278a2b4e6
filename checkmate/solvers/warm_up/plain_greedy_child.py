"""Run greedy as plain Python, as a process of its own.

``python -m checkmate.solvers.warm_up.plain_greedy_child``

Start it with ``NUMBA_DISABLE_JIT=1``, so that greedy runs as plain Python. In: ``graph`` (body: a pickled
graph of the parent's), ``fit`` (budget_bytes; a newer one replaces it). Out: ``hello``, ``fitted``
(budget_bytes, fits; body: the schedule as int32).
"""

from __future__ import annotations

import math
import pickle
import sys

from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.ipc.protocol import Message
from checkmate.solvers.sequence.greedy_solver import QUICK, greedy_steps
from checkmate.solvers.sequence.model import ScaledModel, build_model


def main() -> int:
    """Serve until the parent has ended."""
    channel, inbox = begin("plain greedy", nicer=0), Inbox()
    channel.listen(inbox.put)
    # Only two processes of this program on one machine exchange pickles; no pickled file is ever read.
    scaled = build_model(pickle.loads(inbox.tasks.get().body))
    while True:
        _fit(channel, inbox, scaled, inbox.tasks.get())


def _fit(channel: Channel, inbox: Inbox, scaled: ScaledModel, message: Message) -> None:
    """Answer one request."""
    job, budget = message.job, int(message.header["budget_bytes"])
    end = greedy_steps(scaled, budget, until=math.inf, cancelled=lambda: inbox.cancelled(job), further=QUICK)
    facts = {"job": job, "budget_bytes": budget, "fits": end.fits}
    channel.send({"type": "fitted", **facts}, end.steps.tobytes())


if __name__ == "__main__":
    sys.exit(main())
