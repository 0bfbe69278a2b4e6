"""Draw the start page's pictures of the bundled graphs anew.

Start it from the project's folder: ``python -m resources.make_samples``. Each picture is two memory curves:
of keeping everything, and of a schedule at a share of that memory, found here. The schedule's steps are
kept beside its curve, so that a test can compute both again.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate.catalog.bundled import graph_name
from checkmate.formats import read_any_graph
from checkmate.ir.result import SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.planning import solve
from checkmate.solvers.problem import SolveOptions
from resources.make_graphs import file_of

FILE = Path(__file__).parent / "tables" / "samples.json"
_SECONDS = 30.0


@dataclass(frozen=True)
class Shown:
    """Say what a bundled graph is, and what it shows."""

    name: str
    title: str
    shows: str
    share: float


SHOWN = (
    Shown(
        "unet",
        "U-Net",
        "Skip connections hold early activations until the last layers. Give it less memory, and see which "
        "of them are computed again.",
        0.6,
    ),
    Shown(
        "transformer",
        "Transformer",
        "Equal blocks are drawn as one. Open one to see what attention holds, and what that costs to compute "
        "again.",
        0.5,
    ),
    Shown(
        "resnet50",
        "ResNet50",
        "A large batch from the Checkmate paper. See which cards it fits, and at what cost: Solve > Which "
        "card do I need…",
        0.4,
    ),
)


def sample_of(shown: Shown) -> dict[str, Any]:
    """Return the picture of a graph, with the facts that its card says."""
    graph = read_any_graph(file_of(shown.name))
    plain = simulate(graph, Schedule.plain(graph))
    budget = int(plain.peak_bytes * shown.share)
    result = solve(graph, budget, options=SolveOptions(time_limit_s=_SECONDS))
    schedule = result.require_schedule()
    assert result.cost is not None
    return {
        "graph": graph_name(file_of(shown.name)),
        "title": shown.title,
        "shows": shown.shows,
        "share": shown.share,
        "batch_size": graph.batch_size,
        "ops": graph.n,
        "cost_origin": graph.cost_origin.value,
        "extra_cost": result.cost / graph.base_cost - 1,
        "proved": result.status is SolveStatus.OPTIMAL,
        "plain_bytes": plain.live_bytes.tolist(),
        "kept_bytes": simulate(graph, schedule).live_bytes.tolist(),
        "steps": schedule.steps.tolist(),
    }


def main() -> int:
    """Write the table of samples."""
    FILE.parent.mkdir(exist_ok=True)
    samples = [sample_of(shown) for shown in SHOWN]
    table = json.dumps({"samples": samples}, separators=(",", ":"), ensure_ascii=False)
    FILE.write_text(table + "\n", encoding="utf-8")
    for sample in samples:
        sys.stderr.write(f"{sample['graph']}: {sample['extra_cost']:+.2%}, proved: {sample['proved']}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
