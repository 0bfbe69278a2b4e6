"""Count the cores that this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Count the cores that this process may use."""
    return len(own_cores()) or os.cpu_count() or 1


def own_cores() -> list[int]:
    """Return the numbers of this process's cores. Empty where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
