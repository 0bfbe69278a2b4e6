"""Solve, compile, read, correct: until XLA's own plan keeps the budget.

The solver counts the buffers of a graph. XLA plans its own; what it needs is known once a step is compiled.
So each compiled schedule says what to solve for next. Nothing is run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.jax.emit import scheduled
from checkmate.jax.fuse import Fusion
from checkmate.jax.memory import StepMemory, memory_of
from checkmate.jax.program import Program
from checkmate.memory.meter_aim import MeterAim, Shot
from checkmate.memory.simulate import simulate

_ATTEMPTS = 8

Solve = Callable[[Graph, int], SolveResult]


@dataclass(frozen=True, eq=False)
class Compiled:
    """A schedule as XLA compiled it."""

    jitted: Any
    memory: StepMemory
    result: SolveResult
    requested: int  # what the graph says


@dataclass
class Search:
    """The search for one budget.

    ``budget`` is what the whole step may hold; ``plain`` is what it plainly takes.
    """

    program: Program
    fused: Sequence[Fusion]
    graph: Graph
    platform: str
    donated: tuple[int, ...]
    plain: StepMemory
    budget: int
    solve: Solve
    ties: bool = True
    tried: list[Compiled] = field(default_factory=list)
    compile_seconds: float = 0.0

    def run(self) -> None:
        """Try schedules until one keeps the budget and uses it."""
        graph, fixed = self.graph, self.plain.fixed
        everything = simulate(graph, Schedule.plain(graph)).peak_bytes - graph.fixed_bytes
        # XLA's buffers for a byte of the graph's: less than one where it fuses more than the graph knows.
        scale = min(1.0, self.plain.temporary / max(1, everything))
        room = self.budget - fixed
        aim = MeterAim(room, room, rate=1.0, base_cost=graph.base_cost)
        for _ in range(_ATTEMPTS):
            result = self.solve(graph, graph.fixed_bytes + int(aim.target / scale))
            if result.schedule is None:
                aim.found_nothing()
            else:
                found = self.compile(result)
                requested = int(scale * (found.requested - graph.fixed_bytes))
                aim.took(Shot(aim.target, requested, found.memory.temporary, float(result.cost or 0.0)))
            if aim.settled:
                return

    def compile(self, result: SolveResult) -> Compiled:
        """Compile a schedule, or return what is known of its like."""
        schedule = result.require_schedule()
        started = time.perf_counter()
        run = scheduled(self.program, self.fused, schedule, self.platform, ties=self.ties)
        jitted = jax.jit(run, donate_argnums=self.donated)
        shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in self._arguments()]
        memory = memory_of(jitted.lower(*shapes).compile())
        self.compile_seconds += time.perf_counter() - started
        found = Compiled(jitted, memory, result, simulate(self.graph, schedule).peak_bytes)
        self.tried.append(found)
        return found

    def best(self) -> Compiled | None:
        """Return the cheapest that keeps the budget, else the smallest."""
        fitting = [each for each in self.tried if each.memory.whole <= self.budget]
        if fitting:
            return min(fitting, key=lambda each: each.result.cost or 0.0)
        return min(self.tried, key=lambda each: each.memory.whole, default=None)

    def _arguments(self) -> list[Any]:
        return [self.program.avals[value] for value in self.program.arguments]
