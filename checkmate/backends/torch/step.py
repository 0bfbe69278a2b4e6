"""A region as planning sees it: its peak is predicted from its graph, then measured in a fresh process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from checkmate.backends.protocol import Fitted, Measurable
from checkmate.backends.torch.fresh import Beside, OpReadings, measure_beside, measure_plain
from checkmate.backends.torch.graph import Region
from checkmate.errors import StepTooLargeError, VerificationError
from checkmate.ir import CostOrigin, CostUnit, Graph, Schedule, SolveResult
from checkmate.memory.simulate import simulate
from checkmate.memory.step_requests import InitialAllocations
from checkmate.progress import Cancelled, Report


@dataclass(frozen=True, eq=False)
class Measured(Fitted):
    beside: Beside


@dataclass(frozen=True, eq=False)
class Predicted:
    """A replica for PyTorch's meter, which counts just the bytes of live values (``simulate``)."""

    graph: Graph

    def predicted(self, steps: Sequence[int]) -> int:
        return simulate(self.graph, Schedule.of(self.graph, list(steps))).peak_bytes

    def requests(self, steps: Sequence[int]) -> None:
        return None

    def before(self, steps: Sequence[int]) -> InitialAllocations:
        return InitialAllocations()


class RegionStep(Measurable):
    """A region and its inputs. Making it measures the plain step, and the costs of its ops unless the graph
    has measured costs. If the plain step does not fit the device, ``plain_peak`` is None and costs are
    unchanged.
    """

    def __init__(self, region: Region, inputs: Sequence[Any], report: Report, cancelled: Cancelled) -> None:
        self.report, self.cancelled, self._inputs = report, cancelled, inputs
        self.plain_peak: int | None = None  # above its inputs
        self.readings = OpReadings({}, {})
        self.region = region
        with suppress(StepTooLargeError):
            known = region.graph.cost_origin is CostOrigin.MEASURED
            self.plain_peak, self.readings = measure_plain(region, inputs, report, cancelled, ops=not known)
            self.region = with_readings(region, self.readings)

    @property
    def graph(self) -> Graph:
        return self.region.graph

    @property
    def plain_bytes(self) -> int:
        if self.plain_peak is None:
            return simulate(self.graph, Schedule.plain(self.graph)).peak_bytes
        return self.graph.fixed_bytes + self.plain_peak

    @property
    def replica(self) -> Predicted:
        return Predicted(self.graph)

    def measure(self, result: SolveResult, what: str = "", *, within: int | None = None) -> Measured:
        schedule = result.require_schedule()
        found = measure_beside(self.region, self._inputs, schedule, what, self.report, self.cancelled)
        if found.equal is False:
            raise VerificationError(
                f"gradients of the scheduled step are not the plain step's: {found.worst[0]} differs most, "
                f"by {found.worst[1]:.2g} of the largest",
                hint="please report this, with the module",
            )
        return Measured(result, self.graph.fixed_bytes + found.peak_bytes, (), found)

    def in_turn(self, fitted: Fitted, within: int) -> Fitted:
        return fitted  # its ops always run one after another


def with_readings(region: Region, readings: OpReadings) -> Region:
    """Return the region with the seconds of its ops, and with the workspace that they were seen to take.
    Without readings it stays as it is.
    """
    if not readings.seconds:
        return region
    graph, ops = region.graph, []
    for index, op in enumerate(graph.ops):
        outputs = sum(graph.values[each].bytes for each in op.outputs if graph.values[each].alias_of is None)
        # Readings come from the plain step, which saves no generator state; the graph's workspace counts
        # that.
        workspace = op.workspace_bytes + max(0, readings.bytes.get(index, 0) - outputs)
        ops.append(replace(op, workspace_bytes=workspace, cost=readings.seconds.get(index, 0.0)))
    seen = replace(graph, ops=tuple(ops), cost_unit=CostUnit.SECONDS, cost_origin=CostOrigin.MEASURED)
    return region.with_graph(seen)
