"""A traced step that XLA compiles, and what it is measured by."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from checkmate.backends.tf.measure.concrete import compiled_memory
from checkmate.backends.tf.memory_check import free_room
from checkmate.backends.tf.tasks import run_task
from checkmate.backends.tf.trace.coarsen import FoldedStep, loose
from checkmate.backends.tf.xla.compiled import StepCompilation, XlaMemory
from checkmate.backends.tf.xla.tied import XlaEmission
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.planning.verification.plain import Plain, measure_plain
from checkmate.progress import Cancelled, Report, stop_if
from checkmate.request import ModelRequest

# A CPU's allocator splits a free chunk that is at least twice what is asked for. Small buffers take some
# of it first.
_SPLIT = 3


@dataclass(frozen=True, eq=False)
class TracedForXla:
    """A traced step whose memory XLA tells, before it is run. The graph of ``folded`` is what is solved."""

    request: ModelRequest
    folded: FoldedStep
    report: Report
    cancelled: Cancelled

    @property
    def graph(self) -> Graph:
        return self.folded.graph

    @cached_property
    def loose(self) -> Graph | None:
        """Return the graph with less scratch; None: there is no less."""
        return loose(self.folded, self.graph)

    def compiled(self, schedule: Schedule | None, tied: WaitPolicy = WaitPolicy.RUNS) -> StepCompilation:
        """Compile the plain step (None) or a scheduled one, and run nothing.

        For a GPU that is done in a process of its own, since only one may hold its memory.

        Raises:
            NotCompiledError: XLA cannot compile it. CancelledError: the user cancelled.
        """
        stop_if(self.cancelled)
        steps, xla = None if schedule is None else schedule.steps.tolist(), XlaEmission(tied)
        if self.graph.device_kind == "cpu":
            return compiled_memory(self.folded, steps, xla)
        return self._compiled_elsewhere(steps, xla)

    def _compiled_elsewhere(self, steps: list[int] | None, xla: XlaEmission) -> StepCompilation:
        task = {"do": "compile", "request": self.request.to_json(), "steps": steps, "xla": xla.to_json()}
        message = "compiling a step with XLA"
        found = run_task(task, message=message, report=self.report, cancelled=self.cancelled)
        curve, makers = (np.asarray(found[name], np.int64) for name in ("curve", "steps"))
        memory = XlaMemory(found["arguments"], found["outputs"], found["temp"], curve, makers)
        return StepCompilation(memory, found["seconds"])

    def emission(self, memory: XlaMemory, tied: WaitPolicy) -> XlaEmission:
        """Return how a step is emitted whose compiled form takes ``memory``.

        On a CPU it fetches a region first that has room for all, and from which the block of temporaries is
        split. Else the block would take a whole region, of up to twice its size.
        """
        region = memory.argument_bytes + memory.output_bytes + _SPLIT * memory.temp_bytes
        room, device = free_room(self.graph), self.graph.device
        fetched = device is not None and device.kind == "cpu" and (room is None or region <= room)
        return XlaEmission(tied, region=region if fetched else 0)

    def measured_plain(self, plain: StepCompilation) -> Plain:
        """Measure the plain step, compiled as the user's own is.

        Raises:
            As ``measure_plain``.
        """
        found = measure_plain(
            self.request, self.folded, xla=XlaEmission(), report=self.report, cancelled=self.cancelled
        )
        return dataclasses.replace(found, predicted_bytes=plain.memory.peak_bytes)
