"""Run greedy as plain Python, as a process of its own.

Run with ``NUMBA_DISABLE_JIT=1``. In: ``PickledGraph``, then ``FitBudget`` (a newer one supersedes). Out:
``Fitted``.
"""

from __future__ import annotations

import math
import pickle
import sys

from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.solvers.pathcut.messages import PickledGraph
from checkmate.solvers.sequence.greedy_solver import QUICK, greedy_steps
from checkmate.solvers.sequence.model import ScaledModel, build_model
from checkmate.solvers.warm_up.messages import PLAIN_GREEDY_MESSAGES, FitBudget, Fitted


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("plain greedy", PLAIN_GREEDY_MESSAGES, nicer=0), Inbox()
    channel.listen(inbox.put)
    scaled: ScaledModel | None = None
    while True:
        message = inbox.tasks.get()
        if isinstance(message, PickledGraph):
            scaled = build_model(pickle.loads(message.graph))
        elif isinstance(message, FitBudget) and scaled is not None:
            _fit(channel, inbox, scaled, message)


def _fit(channel: Channel, inbox: Inbox, scaled: ScaledModel, asked: FitBudget) -> None:
    job, budget = asked.job, asked.budget_bytes
    end = greedy_steps(scaled, budget, until=math.inf, cancelled=lambda: inbox.cancelled(job), further=QUICK)
    channel.send(Fitted(job, budget, end.fits, end.steps.tobytes()))


if __name__ == "__main__":
    sys.exit(main())
