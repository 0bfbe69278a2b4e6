"""Profile the bundled graphs anew, on a quiet machine.

Start it from the project's folder: ``python -m resources.make_graphs``.

To be done when a change makes another graph of a sample's step; ``tests/tf/test_bundled_graphs.py`` says
when. Costs are measured here and now: nothing is taken from the cache of costs.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from checkmate.catalog.samples import find_sample
from checkmate.formats import write_graph
from checkmate.ir.graph import Graph
from checkmate.progress import Progress, never
from checkmate.request import ModelRequest

FOLDER = Path(__file__).parent / "graphs"
NAMES = ("unet",)  # of samples


def request_of(name: str) -> ModelRequest:
    """Return the request for a sample's bundled graph.

    It has the sample's own batch and the user's device.
    """
    sample = find_sample(name)
    assert sample is not None
    return ModelRequest(name, batch_size=sample.batch_size)


def file_of(name: str) -> Path:
    """Return the file of the bundled graph of the sample ``name``."""
    return FOLDER / f"{name}-b{request_of(name).batch_size}.json.gz"


def profiled(name: str) -> Graph:
    """Return the graph of the sample ``name``; measure its costs here."""
    # The kernels that most machines run, whatever this one would choose. TensorFlow reads this on its import.
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from checkmate.pipeline import measured
    from checkmate.tf.costs.options import CostOptions

    asked, costs = request_of(name), CostOptions("measured")
    graph = measured.profile(replace(asked, device="cpu"), costs=costs, report=_tell, cancelled=never)
    return replace(graph, metadata={**graph.metadata, "request": asked.to_json()})


def _tell(progress: Progress) -> None:
    sys.stderr.write(f"{progress.stage}: {progress.message}\n")


def main() -> int:
    """Write all of them."""
    for name in NAMES:
        graph = profiled(name)
        write_graph(file_of(name), graph)
        sys.stderr.write(f"{file_of(name)}: {graph.n} ops, {graph.base_cost:.2f} s a step\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
