"""Tell whether a graph was profiled on another machine."""

from __future__ import annotations

from checkmate.ir.graph import Graph
from checkmate.machine.processor import processor_name


def elsewhere_words(graph: Graph) -> str:
    """Return a sentence for a graph profiled on another processor.

    Empty where the processor is this machine's, or not known.
    """
    device = graph.device
    if device is None or device.kind != "cpu" or not device.name or device.name == processor_name():
        return ""
    return f"profiled on another machine ({device.name}); this one has {processor_name()}"
