"""Describe the machine of a measurement, which gives seconds a meaning."""

from __future__ import annotations

import os
import platform
from typing import Any

import psutil

from checkmate import __version__
from checkmate.machine.load import usable_cores
from checkmate.machine.processor import processor_name
from checkmate.machine.supported import versions


def this_machine() -> dict[str, Any]:
    """Return what this process's machine is, now.

    ``cores``: those that this process may use. ``load``: processes that wanted a core in the minute before.
    """
    return {
        "processor": processor_name(),
        "cores": usable_cores(),
        "memory_bytes": int(psutil.virtual_memory().total),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "checkmate": __version__,
        "libraries": versions(("highspy", "numba", "numpy", "pulp")),
        "load": os.getloadavg()[0],
    }
