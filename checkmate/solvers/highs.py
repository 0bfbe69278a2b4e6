"""Make a HiGHS that prints nothing, and run it in a thread of its own.

``startSolve`` of highspy has one lock per process, and raises if another run goes on.
"""

from __future__ import annotations

import threading
from typing import Any


def silent_highs() -> Any:
    """Return a new HiGHS that never prints.

    A new ``highspy.Highs`` sets its callbacks before it can be told to be silent. From 1.16 on it prints its
    name then, to standard output, where an answer in JSON may be expected.
    """
    import highspy

    class Silent(highspy.Highs):  # type: ignore[misc]
        """HiGHS that is silent from its first call on."""

        def enableCallbacks(self) -> None:  # noqa: N802 (highspy's name)
            """Be silent, then do as highspy does; its constructor calls this."""
            self.silent()
            super().enableCallbacks()

    return Silent()


def start_highs(highs: Any, name: str, *, daemon: bool) -> threading.Event:
    """Begin to solve; return an event that is set when the solve has ended.

    ``cancelSolve`` ends it early. A process that ends under a running HiGHS aborts; it waits for the thread
    unless ``daemon``.
    """
    over = threading.Event()
    threading.Thread(target=_solve, args=(highs, over), name=name, daemon=daemon).start()
    return over


def _solve(highs: Any, over: threading.Event) -> None:
    try:
        highs.solve()
        highs.resetGlobalScheduler(False)  # this thread's scheduler; highspy does the same after its own run
    finally:
        over.set()
