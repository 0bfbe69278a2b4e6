"""Find where the device's allocator and its replica part.

``python -m tests.benchmarks.allocator_apart MODEL -b 32 -g graph.json -s schedule.json -o FILE.json.gz``

The scheduled step runs in this process. Everything that its allocator was asked for goes to the file, with
sizes, addresses and the op that asked, from the first variable on. What is printed: each run's peak on the
meter, the replica's peak when it is fed with these very requests, and the predicted peak. Where the first two
differ the replica is wrong; where they are equal and the third differs, the predicted requests are.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

from checkmate.backends.tf.allocator.predict import predicted_allocated, usable_bytes
from checkmate.backends.tf.costs.session import choose_device, flat_batch, prepare
from checkmate.backends.tf.devices import peak_bytes, reset_peak
from checkmate.backends.tf.emit.region import fetch_bytes
from checkmate.backends.tf.emit.small_chunks import SmallChunks
from checkmate.backends.tf.measure.step import compiled_step, requests_of, run_step
from checkmate.backends.tf.memory_check import first_region
from checkmate.backends.tf.profiler import MemoryEvent, trace_run
from checkmate.formats.graph import read_graph
from checkmate.formats.schedule import read_schedule
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.bfc import Bfc, Request
from checkmate.progress import never, silent
from checkmate.request import ModelRequest

_RUNS = 4


class Replica:
    """The replica of the allocator, fed with what the real one was asked."""

    def __init__(self, capacity: int | None) -> None:
        self._bfc = Bfc(capacity)
        self._open: dict[int, int] = {}
        self._next = 0
        self.apart: list[tuple[str, int, int]] = []

    def play(self, events: list[MemoryEvent]) -> int:
        """Ask for all of ``events``; return the peak meanwhile."""
        peak = 0
        for event in events:
            if event.requested_bytes > 0:
                self._next += 1
                self._open[event.address] = self._next
                request = Request(self._next, event.requested_bytes)
            elif event.address in self._open:
                request = Request(self._open.pop(event.address), 0)
            else:
                continue
            before = self._bfc.in_use
            peak = max(peak, self._bfc.play([request]))
            took = self._bfc.in_use - before
            if took != event.allocated_bytes:
                self.apart.append((event.op, took, event.allocated_bytes))
        return peak


def run(request: ModelRequest, graph: Graph, steps: list[int]) -> dict[str, Any]:
    """Run the step a few times; return what was asked and what was held."""
    kind = choose_device(request, here=True).kind
    meter = f"{kind.upper()}:0"
    made: list[Any] = []

    def make() -> None:
        if kind == "cpu":
            fetch_bytes(first_region(graph, Schedule.of(graph, steps)))
        folded = prepare(request, here=True, report=silent, cancelled=never)
        made.append((folded, compiled_step(folded, steps), flat_batch(folded.traced.loaded, 0)))

    phases = {"before": list(trace_run(make, device=kind).memory)}
    folded, function, batch = made[0]
    phases["set aside"] = list(trace_run(SmallChunks(folded.structure).make, device=kind).memory)
    peaks = []
    for number in range(_RUNS):
        reset_peak(meter)
        phases[f"run {number}"] = list(
            trace_run(lambda: run_step(function, batch)[0].numpy(), device=kind).memory
        )
        peaks.append(peak_bytes(meter))
    memory = 0 if folded.graph.device is None else folded.graph.device.memory_bytes
    replica = Replica(None if kind == "cpu" else usable_bytes(memory))
    played = {name: replica.play(events) for name, events in phases.items()}
    history = requests_of(phases["before"])
    return {
        "peaks": peaks,
        "replica": [played[f"run {number}"] for number in range(_RUNS)],
        "predicted": predicted_allocated(folded, graph, steps, history),
        "apart": replica.apart,
        "events": {name: [dataclasses.astuple(each) for each in events] for name, events in phases.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.allocator_apart", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("-b", "--batch-size", type=int, default=32)
    parser.add_argument("-g", "--graph", type=Path, required=True)
    parser.add_argument("-s", "--schedule", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    graph = read_graph(asked.graph)
    steps = read_schedule(asked.schedule, graph).require_schedule().steps.tolist()
    found = run(ModelRequest(asked.model, asked.batch_size), graph, steps)
    with gzip.open(asked.output, "wt", encoding="utf-8") as file:
        json.dump(found, file)
    for name in ("peaks", "replica", "predicted"):
        print(name, found[name])
    print(len(found["apart"]), "requests got other chunks; the first:", found["apart"][:5])


if __name__ == "__main__":
    main()
