"""HiGHS in a thread of its own: ``startSolve`` of highspy has one lock per process, and raises where another run goes on."""

from __future__ import annotations

import threading
from typing import Any


def start_highs(highs: Any, name: str, *, daemon: bool) -> threading.Event:
    """Begin to solve; the event is set when that has ended, ``cancelSolve`` ends it early.

    A process that ends under a running HiGHS aborts; where the thread is no daemon, it waits.
    """
    over = threading.Event()
    threading.Thread(target=_solve, args=(highs, over), name=name, daemon=daemon).start()
    return over


def _solve(highs: Any, over: threading.Event) -> None:
    try:
        highs.solve()
        highs.resetGlobalScheduler(False)  # of this thread; as highspy does after its own
    finally:
        over.set()
