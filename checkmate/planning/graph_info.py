"""What a graph holds, the ends of its budget range, and what is alive at the peak of its plain step."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from checkmate.ir import Graph, Schedule, Timeline
from checkmate.ir.shown import Shown
from checkmate.machine.cost_origin import cache_facts, reading_facts
from checkmate.memory.simulate import simulate
from checkmate.planning.solving import Minimum, known_minimum


@dataclass(frozen=True)
class AliveAtPeak:
    """A value in memory at the peak of the plain step; ``layer`` made it."""

    value: str
    bytes: int
    layer: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True, eq=False)
class GraphInfo(Shown):
    """What a graph holds, and what its plain step needs.

    ``timeline``: of the plain step, which computes everything once, in the given order. ``minimum``: the
    least peak that is known to be reachable.
    """

    graph: Graph
    timeline: Timeline
    minimum: Minimum

    @property
    def keep_everything_peak_bytes(self) -> int:
        return self.timeline.peak_bytes

    @property
    def peak_op(self) -> str:
        return self.graph.ops[self.timeline.peak_step].name

    @cached_property
    def alive_at_peak(self) -> tuple[AliveAtPeak, ...]:
        graph = self.graph
        return tuple(
            AliveAtPeak(
                graph.values[buffer.value].name,
                buffer.bytes,
                graph.ops[int(graph.producer[buffer.value])].group,
                graph.values[buffer.value].shape,
            )
            for buffer in self.timeline.alive_at(self.timeline.peak_step)
        )

    @property
    def alive_at_peak_by_layer(self) -> dict[str, int]:
        """Return the bytes of each layer at the plain step's peak, the largest first."""
        layers: dict[str, int] = defaultdict(int)
        for alive in self.alive_at_peak:
            layers[alive.layer or "(no layer)"] += alive.bytes
        return dict(sorted(layers.items(), key=lambda item: -item[1]))

    def to_json(self) -> dict[str, Any]:
        """Return what ``checkmate info --json`` prints. Sizes are in bytes, costs in the graph's unit."""
        return graph_facts(self.graph, self.timeline) | {
            "minimum_bound_bytes": self.minimum.bound.bytes,
            "minimum_bound_op": self.graph.ops[self.minimum.bound.op].name,
            "minimum_reached_bytes": self.minimum.bytes,
            "minimum_proved": self.minimum.proved,
            "peak_op": self.peak_op,
            "alive_at_peak": list(map(asdict, self.alive_at_peak)),
            "alive_at_peak_by_layer": self.alive_at_peak_by_layer,
        }


def graph_info(graph: Graph) -> GraphInfo:
    """Simulate the plain step and look for the least peak, which takes about ten short solves."""
    return GraphInfo(graph, _plain(graph), known_minimum(graph))


def graph_facts(graph: Graph, timeline: Timeline | None = None) -> dict[str, Any]:
    """Return facts about the graph as JSON has them: counts, device, origin of costs, the plain peak."""
    return {
        "name": graph.name,
        "ops": graph.n,
        "values": graph.m,
        "phases": dict(Counter(op.phase for op in graph.ops)),
        "batch_size": graph.batch_size,
        "device": None if graph.device is None else {"name": graph.device.name, "kind": graph.device.kind},
        "target": graph.origin.target or None,
        "cost_unit": graph.cost_unit.value,
        "cost_origin": graph.cost_origin.value,
        "cost_cache": dict(cache_facts(graph)),
        "cost_reading": dict(reading_facts(graph)),
        "base_cost": graph.base_cost,
        "fixed_bytes": graph.fixed_bytes,
        "fixed": dict(graph.fixed),
        "keep_everything_peak_bytes": (timeline or _plain(graph)).peak_bytes,
        "fingerprint": graph.fingerprint,
    }


def _plain(graph: Graph) -> Timeline:
    return simulate(graph, Schedule.plain(graph))
