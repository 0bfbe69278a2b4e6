"""How XLA compiles the schedules of a TensorFlow step; none is run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property

from checkmate.backends.protocol import Compilation, CompiledFit, Compiler
from checkmate.backends.tf.xla.compiled import StepCompilation, XlaMemory
from checkmate.backends.xla_policy.waits import WaitPolicy, usual_ways, ways_to_order, ways_to_tie
from checkmate.errors import NoScheduleError
from checkmate.ir import Graph, Schedule
from checkmate.memory.simulate import simulate
from checkmate.units import format_bytes

_NEAR_ORDER = 1.6  # a mixer's plain order took 0.77 of the memory if all steps waited
_HOLDING = 0.1  # extra time if all steps wait, as a share of the step: 3 to 15 % were measured


class XlaCompilation(Compilation[WaitPolicy, XlaMemory]):
    def __init__(self) -> None:
        """Compile the plain step."""
        plain = self.compiled(None)
        self.plain, self.plain_seconds = plain.memory, plain.seconds
        self.plain_bytes = self.plain.peak_bytes
        self.fixed_bytes = self.plain_bytes - self.plain.temp_bytes

    @property
    @abstractmethod
    def loose(self) -> Graph | None:
        """The graph with less scratch (``coarsen.loose``); None if it has no scratch to leave out."""

    @property
    def as_written(self) -> StepCompilation | None:
        """The plain step with the user's own recomputation; None: none was taken out."""
        return None

    @abstractmethod
    def compiled(self, schedule: Schedule | None, tied: WaitPolicy = WaitPolicy.RUNS) -> StepCompilation:
        """Compile the plain step (None) or a scheduled one; a NotCompiledError: XLA cannot."""

    @property
    def share_bytes(self) -> int:
        written = self.as_written
        return self.plain_bytes if written is None else min(self.plain_bytes, written.memory.peak_bytes)

    @cached_property
    def compilers(self) -> Sequence[Compiler[WaitPolicy, XlaMemory]]:
        return (_XlaCompiler(self, self.graph),)

    @property
    def last_resort(self) -> Sequence[Compiler[WaitPolicy, XlaMemory]]:
        return () if self.loose is None else (_XlaCompiler(self, self.loose),)


class _XlaCompiler(Compiler[WaitPolicy, XlaMemory]):
    near_order = _NEAR_ORDER
    says_least = True

    def __init__(self, step: XlaCompilation, graph: Graph) -> None:
        self._step, self.graph = step, graph
        self.ways, self.usual, self._order = ways_to_tie(graph), usual_ways(graph), ways_to_order(graph)
        everything = simulate(graph, Schedule.plain(graph)).peak_bytes - graph.fixed_bytes
        self.rate = max(1, step.plain.temp_bytes) / max(1, everything)

    def compile(self, schedule: Schedule, way: WaitPolicy) -> tuple[XlaMemory, int]:
        memory = self._step.compiled(Schedule.of(self._step.graph, schedule.steps), way).memory
        return memory, memory.peak_bytes - self._step.fixed_bytes

    def holds_order(self, way: WaitPolicy) -> bool:
        return way in self._order

    def extra(self, way: WaitPolicy) -> float:
        return _HOLDING if way is WaitPolicy.ALL else 0.0


def none_fits(fit: CompiledFit[WaitPolicy, XlaMemory], what: str, further: str) -> NoScheduleError:
    """``what``: the step, in words. ``further``: what to do beside raising the budget."""
    return NoScheduleError(
        f"no schedule was found with which XLA keeps {what} within {format_bytes(fit.budget_bytes)}: the "
        f"least that was compiled takes {format_bytes(fit.whole_bytes)}",
        hint=f"{fit.remedy}, {further}",
        details={"budget_bytes": fit.budget_bytes, "needed_bytes": fit.whole_bytes},
    )
