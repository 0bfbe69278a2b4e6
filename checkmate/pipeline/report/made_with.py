"""Say what a measured row was made with: versions, kernels, machine, load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkmate import __version__
from checkmate.ir.graph import Graph
from checkmate.machine.libraries import versions
from checkmate.machine.processor import processor_name

if TYPE_CHECKING:
    from checkmate.tf.measure.fresh_step import FreshMeasurement


def made_with(graph: Graph, plain: FreshMeasurement) -> dict[str, Any]:
    """Return what the figures of a row depend on besides the model.

    ``checkmate``, ``tensorflow`` and ``keras`` are versions. ``kernels``: those that ran the plain step.
    ``device`` ran it. ``load``: cores that other programs took meanwhile, of ``cores``. What is not known is
    None.
    """
    return {
        "checkmate": __version__,
        "tensorflow": graph.metadata.get("tensorflow"),
        "keras": versions(["keras"]).get("keras"),
        "kernels": plain.settings.get("kernels"),
        "processor": processor_name(),
        "device": plain.device,
        "load": plain.load,
        "cores": plain.cores,
    }
