"""Describe the machine of a measurement, which gives seconds a meaning."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkmate import __version__
from checkmate.machine.load import usable_cores
from checkmate.machine.processor import processor_name
from checkmate.machine.supported import versions
from checkmate.units import format_bytes

_LIBRARIES = ("highspy", "numba", "numpy", "pulp")


@dataclass(frozen=True)
class Machine:
    """Describe the machine at the start of a measurement.

    ``cores``: logical cores that this process may use. ``load``: processes that wanted a core in the minute
    before, on average; None where the system does not say. ``libraries``: versions of the installed ones.
    """

    processor: str
    cores: int
    memory_bytes: int
    system: str
    python: str
    checkmate: str
    libraries: Mapping[str, str]
    load: float | None

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "libraries": dict(self.libraries)}

    def __str__(self) -> str:
        load = "" if self.load is None else f", load {self.load:.1f} at the start"
        libraries = ", ".join(f"{name} {version}" for name, version in self.libraries.items())
        return (
            f"{self.processor}, {self.cores} core{'s' * (self.cores != 1)}{load}, "
            f"{format_bytes(self.memory_bytes)}, {self.system}, Python {self.python}, checkmate "
            f"{self.checkmate}, {libraries}"
        )


def this_machine() -> Machine:
    """Return a description of this process's machine, now."""
    import psutil

    return Machine(
        processor=processor_name(),
        cores=usable_cores(),
        memory_bytes=int(psutil.virtual_memory().total),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        checkmate=__version__,
        libraries=versions(_LIBRARIES),
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    )
