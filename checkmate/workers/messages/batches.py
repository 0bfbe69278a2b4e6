"""Messages between the window and the search for the largest batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkmate.ipc.messages import Message, NewestJob

# From the window.


@dataclass(frozen=True)
class FindLargestBatch(NewestJob):
    """Find the largest batch whose step fits, by scaling the graph.

    ``max_overhead``: the extra cost allowed, as a share of computing everything once; None: one forward pass;
    infinite: any. ``workers``: the most threads or processes to use.
    """

    name: str
    budget_bytes: int
    max_overhead: float | None
    time_limit_s: float
    workers: int
    graph: bytes


# From the process that searches.


@dataclass(frozen=True)
class LargestBatchProgress(Message):
    """What the search does, or what it has found so far."""

    job: int
    sentence: str


@dataclass(frozen=True)
class LargestBatchFound(Message):
    """The largest batch that was found; all of it is of scaled graphs.

    ``peak_bytes``: predicted. ``upper_batch``: no larger one fits, which is proved. ``plain_batch``: without
    recomputation; 0: none. ``baselines``: by solver, the largest found for it. ``choices``: pairs of a batch
    and the extra cost that it takes, a share of computing everything once; both rise. ``cancelled``: the
    search was stopped. ``note``: what was taken to grow. ``graph_and_schedule``: JSON of
    ``{"graph": …, "schedule": …}`` at that batch, each as in its own file.
    """

    job: int
    batch: int
    peak_bytes: int
    upper_batch: int
    plain_batch: int
    baselines: Mapping[str, Any]
    choices: tuple[tuple[int, float], ...]
    cancelled: bool
    note: str
    graph_and_schedule: bytes


@dataclass(frozen=True)
class LargestBatchFailed(Message):
    """No batch was found: a sentence for the user, and what can be done. ``proved``: there is none."""

    job: int
    message: str
    hint: str
    proved: bool
