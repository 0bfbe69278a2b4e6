"""Name this machine's processor; tell graphs of other machines apart."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from checkmate.ir.graph import Graph


@cache
def processor_name() -> str:
    """Return the processor's name; on Linux ``platform`` does not know it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def elsewhere_words(graph: Graph) -> str:
    """Return a sentence for a graph profiled on another processor.

    Empty where the processor is this machine's, or not known.
    """
    device = graph.device
    if device is None or device.kind != "cpu" or not device.name or device.name == processor_name():
        return ""
    return f"profiled on another machine ({device.name}); this one has {processor_name()}"
