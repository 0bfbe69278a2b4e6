"""Measure what TensorFlow's layout pass does to schedules.

``python -m tests.benchmarks.layout -o docs/results/layout/NAME.json`` needs no GPU: it counts live peaks
before and after Grappler's passes for a virtual card, for the tables of docs/pages/benchmarks/gpu-layout.md.
``python -m tests.benchmarks.layout --measure`` runs the steps on the device at hand: the allocator's peak and
seconds of the plain step, of the schedule without marks and with them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from checkmate import SolveOptions
from checkmate.bench.common.machine import this_machine
from checkmate.ir.graph import Device
from checkmate.ir.schedule import Schedule
from checkmate.machine.libraries import versions
from checkmate.memory.simulate import simulate
from checkmate.pipeline import solve
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from checkmate.tf.costs import session
from checkmate.tf.costs.profile import analytic_costs
from checkmate.tf.devices import kernels_here
from checkmate.tf.measure.step import compiled_step, run_step
from checkmate.tf.trace.coarsen import FoldedStep, fold
from tests.tf.conv_models import ALL
from tests.tf.relaid import relaid
from tests.tf.virtual_gpu import Rewritten, live_peak, placed, rewritten, with_gates

MODELS = Path(__file__).parents[1] / "tf" / "conv_models.py"
CARD, HOST = Device("a virtual card", "gpu"), Device("a CPU", "cpu")
GATES = ("PreventGradient", "StopGradient", "Snapshot")
MIB = 2**20
_RUNS = 10
_Peak = dict[str, int]


def scheduled(folded: FoldedStep, budget: int) -> tuple[FoldedStep, Schedule]:
    """Return the greedy schedule for ``budget`` requested bytes.

    The budget comes on top of the fixed bytes. If there is no schedule, return that of the next larger
    budget.
    """
    graph = analytic_costs(folded)
    while True:
        found = solve(
            graph, graph.fixed_bytes + budget, solver="greedy", options=SolveOptions(time_limit_s=10.0)
        )
        if found.schedule is not None:
            return dataclasses.replace(folded, graph=graph), found.schedule
        budget += budget // 20


def emitted(folded: FoldedStep, schedule: Schedule, device: Device) -> Any:
    """Return the scheduled step for ``device``; on a GPU with marks."""
    step = dataclasses.replace(folded, graph=dataclasses.replace(folded.graph, device=device))
    return compiled_step(step, schedule.steps.tolist())


def prepared(name: str, policy: str | None, batch: int, device: str) -> tuple[FoldedStep, int]:
    """Return the folded step, and 55 % of what its plain schedule requests."""
    request = ModelRequest(
        f"{MODELS}:{name}", batch_size=batch, device=device, allow_code=True, mixed_precision=policy
    )
    folded = session.prepare(request, report=silent, cancelled=never)
    graph = folded.graph
    plain = simulate(graph, Schedule.plain(graph)).peak_bytes - graph.fixed_bytes
    return folded, int(0.55 * plain)


def peaks(name: str, policy: str | None, batch: int, architecture: str) -> Iterator[tuple[str, _Peak]]:
    """Yield (column, peaks before and after the passes) per way to emit."""
    first = architecture < "8.0" and policy is None

    def row(step: Rewritten) -> _Peak:
        after = live_peak(rewritten(step, architecture=architecture), channels_first_kernels=first)
        return {"before_bytes": live_peak(step), "after_bytes": after}

    folded, budget = prepared(name, policy, batch, "cpu")
    solved, schedule = scheduled(folded, budget)
    without = placed(emitted(solved, schedule, HOST))
    yield "plain", row(placed(compiled_step(folded, None)))
    yield "no marks", row(without)
    for gate in GATES:
        yield gate, row(with_gates(without, gate))
    yield "marks", row(placed(emitted(solved, schedule, CARD)))
    after = relaid(folded.traced, architecture)
    again = fold(after, kernels_here("cpu"), fixed=folded.graph.fixed, device=HOST, metadata={})
    yield "folded after the pass", row(placed(emitted(*scheduled(again, budget), HOST)))


def measured(name: str, policy: str | None, batch: int) -> Iterator[tuple[str, str]]:
    """Yield (column, "MiB, ms") for the steps as they run here."""
    folded, budget = prepared(name, policy, batch, "gpu" if tf.config.list_physical_devices("GPU") else "cpu")
    solved, schedule = scheduled(folded, budget)
    meter = "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"
    data = session.flat_batch(folded.traced.loaded)
    functions = {
        "plain": compiled_step(folded, None),
        "no marks": emitted(solved, schedule, HOST),
        "marks": emitted(solved, schedule, CARD),
    }
    for label, function in functions.items():
        run_step(function, data)[0].numpy()  # tries out the kernels, with scratch of its own
        tf.config.experimental.reset_memory_stats(meter)
        held = tf.config.experimental.get_memory_info(meter)["current"]
        seconds: list[float] = []
        for _ in range(_RUNS):
            begun = time.perf_counter()
            run_step(function, data)[0].numpy()
            seconds.append(time.perf_counter() - begun)
        peak = tf.config.experimental.get_memory_info(meter)["peak"] - held
        yield label, f"{peak / MIB:.1f} MiB, {statistics.median(seconds) * 1e3:.1f} ms"


def main() -> None:
    """Print one table, or write its file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--architecture", default="8.0", help="compute capability of the virtual card")
    parser.add_argument("--policy", choices=("mixed_float16", "mixed_bfloat16"))
    parser.add_argument("-o", "--output", type=Path, help="write the peaks in bytes to this file")
    options = parser.parse_args()
    if options.measure:
        for name in ALL:
            print(name, dict(measured(name, options.policy, options.batch)), flush=True)
        return
    facts: dict[str, Any] = {
        "format": "checkmate-layout",
        "version": 1,
        "machine": this_machine().to_json(),
        "made_with": versions(("tensorflow", "keras")),
        "architecture": options.architecture,
        "policy": options.policy,
        "batch": options.batch,
        "rows": [],
    }
    for name in ALL:
        row = {"net": name, "peaks": dict(peaks(name, options.policy, options.batch, options.architecture))}
        facts["rows"].append(row)
        print(json.dumps(row), flush=True)
    if options.output:
        options.output.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
