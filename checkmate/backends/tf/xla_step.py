"""A step that XLA compiles:

its memory is XLA's own, known before it runs, so a schedule is chosen by compiling.

Then it is run in fresh processes: beside the plain step, compiled too, and once more after it was written.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from checkmate.backends.protocol import CompiledFit, CompiledStep, Fitted
from checkmate.backends.tf.comparing import Compared
from checkmate.backends.tf.measure.concrete import compiled_memory
from checkmate.backends.tf.measure.fresh_step import measure_fresh
from checkmate.backends.tf.memory_check import free_room
from checkmate.backends.tf.plain import Plain, measure_plain
from checkmate.backends.tf.tasks import run_task
from checkmate.backends.tf.tf_step import TfStep, TracedStep
from checkmate.backends.tf.trace.coarsen import loose
from checkmate.backends.tf.verification_report import Measurements
from checkmate.backends.tf.xla.compiled import StepCompilation, XlaMemory, save_compiled_step
from checkmate.backends.tf.xla.compiler import XlaCompilation, none_fits
from checkmate.backends.tf.xla.tied import XlaEmission
from checkmate.backends.xla_policy.waits import WaitPolicy, why_less
from checkmate.errors import NoScheduleError
from checkmate.ir import CostOrigin, Graph, Schedule, SolveResult
from checkmate.progress import Cancelled, Progress, Report
from checkmate.units import plural

# The region has this many times the bytes of the temporaries: the allocator splits only chunks of at least
# twice the request, and small buffers take some of the region first.
_SPLIT = 3


@dataclass(frozen=True, eq=False)
class XlaFitted(Fitted):
    tied: WaitPolicy
    memory: XlaMemory


class _Compilation(XlaCompilation):
    def __init__(self, step: XlaStep) -> None:
        self._step = step
        super().__init__()

    @property
    def graph(self) -> Graph:
        return self._step.graph

    @cached_property
    def loose(self) -> Graph | None:
        return loose(self._step.folded, self.graph)

    @cached_property
    def as_written(self) -> StepCompilation | None:
        taken_out = self._step.folded.traced.taken_out
        return self._compiled(None, XlaEmission(), as_written=True) if taken_out else None

    def compiled(self, schedule: Schedule | None, tied: WaitPolicy = WaitPolicy.RUNS) -> StepCompilation:
        return self._compiled(None if schedule is None else schedule.steps.tolist(), XlaEmission(tied))

    def _compiled(
        self, steps: list[int] | None, xla: XlaEmission, *, as_written: bool = False
    ) -> StepCompilation:
        """Compile the step; in another process for a GPU, since only one may hold its memory."""
        if self.graph.device_kind == "cpu":
            return compiled_memory(self._step.folded, steps, xla, as_written=as_written)
        step, how = self._step, {"steps": steps, "xla": xla.to_json(), "as_written": as_written}
        task = {"do": "compile", "request": step.request.to_json(), **how}
        message = "compiling a step with XLA"
        found = run_task(task, message=message, report=step.report, cancelled=step.cancelled, stage="compile")
        curve, makers = (np.asarray(found[name], np.int64) for name in ("curve", "steps"))
        memory = XlaMemory(found["arguments"], found["outputs"], found["temp"], curve, makers)
        return StepCompilation(memory, found["seconds"])


class XlaStep(TfStep, CompiledStep):
    def __init__(self, traced: TracedStep, report: Report, cancelled: Cancelled) -> None:
        """Compile the plain step."""
        super().__init__(traced, report, cancelled)
        report(Progress("compile", message="compiling the plain step with XLA"))
        self.compilation: _Compilation = _Compilation(self)

    def none_fits(self, fit: CompiledFit[WaitPolicy, XlaMemory]) -> NoScheduleError:
        what = f"a training step of {self.folded.traced.loaded.name!r}"
        return none_fits(fit, what, 'use a smaller batch, or add target="executor"')

    def fitted(self, fit: CompiledFit[WaitPolicy, XlaMemory], result: SolveResult) -> XlaFitted:
        tried = plural(fit.compilations, "step")
        notes = (
            f"compiled by XLA: {tried} compiled in {fit.compile_seconds:.0f} s",
            _costs_note(self.graph),
            *_tied_note(fit),
            *self.folded.traced.notes,
        )
        chosen = fit.chosen
        tied = WaitPolicy.RUNS if chosen is None else chosen.way
        memory = self.compilation.plain if chosen is None else chosen.made
        return XlaFitted(result, memory.peak_bytes, notes, tied, memory)

    @cached_property
    def plain(self) -> Plain:
        """The plain step, measured as compiled by XLA."""
        found = measure_plain(
            self.request, self.folded, xla=XlaEmission(), report=self.report, cancelled=self.cancelled
        )
        return dataclasses.replace(found, predicted_bytes=self.plain_bytes)

    def measurements(self, fitted: Fitted) -> Measurements:
        assert isinstance(fitted, XlaFitted)
        schedule, xla, memory = fitted.result.require_schedule(), self.emission(fitted), fitted.memory
        plain = self.plain
        measured = measure_fresh(
            self.request,
            schedule,
            message="measuring the scheduled step, compiled by XLA",
            report=self.report,
            cancelled=self.cancelled,
            stage="run",
            region=xla.region,
            xla=xla,
        )
        return Measurements(
            plain,
            measured,
            Compared(None),
            predicted_bytes=memory.peak_bytes,
            plain_predicted_bytes=self.plain_bytes,
            live_bytes=memory.live_by_step(len(schedule.steps)),
        )

    def emission(self, fitted: Fitted) -> XlaEmission:
        """Return how to emit the step. On a CPU, a region with room for everything is fetched first, so that
        the block of temporaries is split off it; otherwise the block would get a region of its own, up to
        twice its size."""
        assert isinstance(fitted, XlaFitted)
        memory = fitted.memory
        region = memory.argument_bytes + memory.output_bytes + _SPLIT * memory.temp_bytes
        room, device = free_room(self.graph), self.graph.device
        fetched = device is not None and device.kind == "cpu" and (room is None or region <= room)
        return XlaEmission(fitted.tied, region=region if fetched else 0)

    def save(self, fitted: Fitted, directory: Path) -> tuple[str, ...]:
        schedule = fitted.result.require_schedule()
        return save_compiled_step(self.folded, schedule, self.emission(fitted), directory)


def _costs_note(graph: Graph) -> str:
    if graph.cost_origin is not CostOrigin.ANALYTIC:
        return "the schedule was chosen by what ops cost one by one: XLA fuses them, and then they cost less"
    return "the schedule was chosen by estimates: XLA fuses ops, so seconds are not predicted"


def _tied_note(fit: CompiledFit[WaitPolicy, XlaMemory]) -> tuple[str, ...]:
    if fit.chosen is None:
        return ()
    if not fit.recomputations:
        return (f"nothing is recomputed: {why_less(fit.chosen.way)}",)
    if fit.chosen.way is not WaitPolicy.ALL:
        return ()
    return ("all steps wait for those before them: with ties of recomputations alone XLA needs more",)
