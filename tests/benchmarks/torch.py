"""Train PyTorch models under PyTorch's own ways to save memory, and by our schedules within as much.

``python -m tests.benchmarks torch [MODEL …] [-o FILE.json]``

Models are those of ``tests/torch``, with their loss; a step is forward and backward. Its peak is metered
above what is allocated before it, its operations are counted as it runs, seconds are taken in turns. Ways
through AOTAutograd run their halves alike, op by op, each argument dropped after its last reader.

Schedules of "ours" are the backend's, solved for measured seconds; those of "ours, flops" are solved for
PyTorch's own price of an op: the operations of products, convolutions and attention, and 1 for all others.
The last budget is a quarter of the plain peak, whether or not a peer comes near it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from checkmate.formats.files import write_json
from checkmate.training.torch_module import backend
from tests.benchmarks.measured_on import this_machine
from tests.benchmarks.torch_ways import ByFlops, Row, Way, WithLoss, compiled, halved, peers
from tests.torch.models import MODELS, Inputs

NETWORKS = ("gpt", "bert", "vit", "resnet", "convnext", "unet", "densenet", "translator", "vae")
OURS, OURS_BY_FLOPS = "ours", "ours, flops"
_SAME_PEAK = 1.02  # peers this close have one row of ours between them, within the least of their peaks
_LEAST_ROUNDS, _ROUNDS_S = 5, 15.0


def targets(peaks: Sequence[int], plain: int) -> list[int]:
    """Return the peaks for rows of ours, falling. ``plain``: that of our own plain step."""
    found = [plain]
    for peak in sorted((each for each in peaks if each < plain / _SAME_PEAK), reverse=True):
        if found[1:] and found[-1] <= _SAME_PEAK * peak:
            found[-1] = peak
        else:
            found.append(peak)
    return found


def measure(network: str) -> list[Row]:
    """Return the rows of a network: eager, peers, and ours within each peer's peak."""
    ways, rows, failed = list[Way](), list[Row](), list[Row]()

    def add(way: Way, **more: Any) -> None:
        ways.append(way)
        rows.append({"model": network, **way.row(ways[0]), **more})

    add(Way(network, "eager", lambda module: module))
    for name, wrap in peers(network):
        try:
            add(Way(network, name, wrap))
        except RuntimeError as error:
            failed.append({"model": network, "way": name, "failed": str(error)})
    peaks = [row["peak_bytes"] for row in rows]
    for budget in [*targets(peaks[1:], peaks[1]), peaks[0] // 4]:
        _add_ours(network, budget, add)
    _time(ways, rows)
    for row in rows:
        row["overhead"] = row["flops"] / rows[0]["flops"] - 1
    return rows + failed


def _add_ours(network: str, budget: int, add: Callable[..., None]) -> None:
    fixed = _fixed_bytes(WithLoss(network), MODELS[network].inputs(0))
    planner = backend(budget + fixed, cache=False, quiet=True)
    way = Way(network, OURS, compiled(planner))
    (plan,) = planner.plans
    assert plan.region.graph.fixed_bytes == fixed
    add(way, within=budget, recomputations=plan.schedule.recomputations, sentence=plan.sentence)
    if plan.peak_bytes <= budget + fixed:
        by_flops = ByFlops(plan.region.graph, budget + fixed)
        way = Way(network, OURS_BY_FLOPS, halved(by_flops.partition))
        add(way, within=budget, **by_flops.found)


def _fixed_bytes(module: nn.Module, inputs: Inputs) -> int:
    tensors = (*module.parameters(), *module.buffers(), *inputs)
    return sum(each.untyped_storage().nbytes() for each in tensors)


def _time(ways: Sequence[Way], rows: Sequence[Row]) -> None:
    taken, started = list[list[float]](), time.perf_counter()
    while len(taken) < _LEAST_ROUNDS or time.perf_counter() - started < _ROUNDS_S:
        taken.append([way.seconds() for way in ways])
    for number, row in enumerate(rows):
        # Whatever else the machine does only adds time: the least of each is compared.
        row["seconds"] = min(each[number] for each in taken)
        row["seconds_over_plain"] = row["seconds"] / rows[0]["seconds"] - 1


def within(rows: Sequence[Row], peak: int) -> list[Row | None]:
    """Return our rows for the largest budget that ``peak`` covers: solved for seconds, and for operations."""
    budget = max((row["within"] for row in rows if row.get("within", peak + 1) <= peak), default=None)
    found = {row["way"]: row for row in rows if budget is not None and row.get("within") == budget}
    return [found.get(OURS), found.get(OURS_BY_FLOPS)]


def told(rows: Sequence[Row]) -> str:
    """Return a line for each peer: what it takes, and what ours take within its peak."""
    ran, plain = [row for row in rows if "failed" not in row], rows[0]["peak_bytes"]
    beside = [[row, *within(ran, row["peak_bytes"])] for row in ran if "within" not in row]
    beside.append([None, *within(ran, plain // 4)])
    lines = ["model | way | peak MiB | of plain | FLOPs: it, ours, ours by FLOPs | seconds | equal to eager"]
    lines += (_line(ways, plain) for ways in beside)
    for row in rows:
        if "failed" in row:
            lines.append(f"{row['model']} | {row['way']} | failed: {row['failed']}")
        elif row["peak_bytes"] > row.get("within", row["peak_bytes"]):
            over = row["peak_bytes"] - row["within"]
            lines.append(
                f"{over} bytes over {row['within'] / 2**20:.1f} MiB: {row.get('sentence', row['way'])}"
            )
    return "\n".join(lines)


def _line(ways: Sequence[Row | None], plain: int) -> str:
    def each(cell: Callable[[Row], str]) -> str:
        return ", ".join("–" if row is None else cell(row) for row in ways)

    shown = next(row for row in ways if row)
    cells = [shown["model"], shown["way"], f"{shown['peak_bytes'] / 2**20:.1f}"]
    cells += [f"{shown['peak_bytes'] / plain:.0%}", each(lambda row: f"{row['overhead']:+.1%}")]
    cells.append(each(lambda row: f"{row['seconds_over_plain']:+.1%}"))
    cells.append(each(_equal))
    return " | ".join(cells)


def _equal(row: Row) -> str:
    if not row["gradients_bitwise"]:
        return "gradients DIFFER"
    return "=" if row["state_bitwise"] else "statistics DIFFER"


def main() -> None:
    """Measure the models that are named, and write after each; the file keeps its rows of others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=NETWORKS)
    parser.add_argument("-o", "--output", type=Path)
    chosen = parser.parse_args()
    torch._dynamo.config.recompile_limit = 100  # each way compiles the same code
    record: Row = {"title": "PyTorch's ways to save memory", "torch": torch.__version__}
    record |= {**this_machine(), "threads": torch.get_num_threads(), "rows": []}
    if chosen.output and chosen.output.exists():
        before = json.loads(chosen.output.read_text(encoding="utf-8"))["rows"]
        record["rows"] = [row for row in before if row["model"] not in chosen.models]
    for network in chosen.models:
        rows = measure(network)
        print(told(rows), flush=True)
        record["rows"] += rows
        if chosen.output:
            write_json(chosen.output, record)


if __name__ == "__main__":
    main()
