"""Make the bundled graphs anew, on a quiet machine.

Start it from the project's folder: ``python -m resources.make_graphs``, or with the names of some. Then
``python -m resources.make_samples`` draws the start page's pictures of them anew.

To be done when a change makes another graph of a sample's step; ``tests/tf/test_bundled_graphs.py`` says
when. Costs are measured here and now, or operation counts: nothing is taken from the cache of costs. A
network of the paper is built from its layers, with operation counts as costs.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from checkmate.catalog.samples import find_sample
from checkmate.formats import write_graph
from checkmate.graphs.paper import find_network
from checkmate.ir.graph import Graph
from checkmate.progress import Progress, never
from checkmate.request import ModelRequest

FOLDER = Path(__file__).parent / "graphs"
NAMES = ("transformer", "unet")  # of samples
_COUNTED = ("transformer",)  # whose costs are operation counts, which no machine's noise changes
BUILT = ("resnet50",)  # of the paper's networks


def request_of(name: str) -> ModelRequest:
    """Return the request for a sample's bundled graph.

    It has the sample's own batch and the user's device.
    """
    sample = find_sample(name)
    assert sample is not None
    return ModelRequest(name, batch_size=sample.batch_size)


def file_of(name: str) -> Path:
    """Return the file of the bundled graph called ``name``."""
    batch = find_network(name).batch_size if name in BUILT else request_of(name).batch_size
    return FOLDER / f"{name}-b{batch}.json.gz"


def profiled(name: str) -> Graph:
    """Return the graph of the sample ``name``.

    Its costs are those of this machine, unless they are counted.
    """
    # The kernels that most machines run, whatever this one would choose. TensorFlow reads this on its import.
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from checkmate.backends.protocol import CostsWanted
    from checkmate.backends.tf.backend import TensorflowBackend

    asked, costs = request_of(name), CostsWanted("analytic" if name in _COUNTED else "measured", refresh=True)
    request = replace(asked, device="cpu")
    graph = TensorflowBackend().profile(request, costs, report=_tell, cancelled=never)
    return replace(graph, metadata={**graph.metadata, "request": asked.to_json()})


def _tell(progress: Progress) -> None:
    sys.stderr.write(f"{progress.stage}: {progress.message}\n")


def main() -> int:
    """Write those that are named, or all of them."""
    for name in sys.argv[1:] or (*NAMES, *BUILT):
        graph = find_network(name).graph() if name in BUILT else profiled(name)
        write_graph(file_of(name), graph)
        sys.stderr.write(f"{file_of(name)}: {graph.n} ops\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
