"""Tell a process that computes from one that waits."""

from __future__ import annotations

import psutil


def seconds_computed(pid: int) -> float:
    """Return the processor's seconds that a process took so far.

    Those of its children count, also once they have ended, so it never falls. It is 0 where there is no such
    process.
    """
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0.0
    return sum(map(_own_seconds, family))


def _own_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    ended = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return float(times.user + times.system + ended)
