"""Solve, compile, read, correct: until XLA's own plan keeps the budget.

The solver counts the buffers of a graph. XLA plans its own; what it needs is known once a step is compiled.
So each compiled schedule says what to solve for next. Nothing is run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.jax.emit import TiedSteps, scheduled
from checkmate.jax.fuse import Fusion
from checkmate.jax.memory import StepMemory, memory_of
from checkmate.jax.program import Program
from checkmate.memory.meter_aim import MeterAim, Shot
from checkmate.memory.simulate import simulate
from checkmate.pipeline import known_minimum

_ATTEMPTS = 6
# XLA plans its buffers before it makes machine code, so trials make poor code quickly (CPU).
_TRIAL = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

Solve = Callable[[Graph, int], SolveResult]


@dataclass(frozen=True, eq=False)
class CompiledStep:
    """A schedule as XLA compiled it; ``executable`` is None after a trial."""

    jitted: Any
    executable: Any
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
    tried: list[CompiledStep] = field(default_factory=list)
    compile_seconds: float = 0.0
    compilations: int = 0

    def run(self) -> CompiledStep | None:
        """Try schedules until one keeps the budget and uses it; return the best.

        That is the cheapest that keeps the budget, else the smallest; None where no schedule was found.
        """
        self._try_all()
        fitting = [each for each in self.tried if each.memory.whole <= self.budget]
        for trial in sorted(fitting, key=lambda each: each.result.cost or 0.0):
            found = self._finish(trial)
            if found.memory.whole <= self.budget:
                return found
        least = min(self.tried, key=lambda each: each.memory.whole, default=None)
        return None if least is None else self._finish(least)

    def _try_all(self) -> None:
        graph = self.graph
        everything = simulate(graph, Schedule.plain(graph)).peak_bytes - graph.fixed_bytes
        # XLA's buffers for a byte of the graph's: less than one where it fuses more than the graph knows.
        scale = min(1.0, self.plain.temporary / max(1, everything))
        room = self.budget - self.plain.fixed
        aim = MeterAim(room, room, rate=1.0, base_cost=graph.base_cost)
        for _ in range(_ATTEMPTS):
            result = self.solve(graph, graph.fixed_bytes + int(aim.target / scale))
            if result.schedule is None:
                aim.found_nothing()
            else:
                found = self._trial(result)
                requested = int(scale * (found.requested - graph.fixed_bytes))
                aim.took(Shot(aim.target, requested, found.memory.temporary, float(result.cost or 0.0)))
            if aim.settled:
                break
        if not self.tried:  # the least that the graph needs is over: it is the closest
            least = self.solve(graph, known_minimum(graph).bytes)
            if least.schedule is not None:
                self._trial(least)

    def _trial(self, result: SolveResult) -> CompiledStep:
        """Compile a schedule.

        While nothing fits, all its steps are tied where that takes less.
        """
        steps = result.require_schedule().steps
        for known in self.tried:
            if np.array_equal(known.result.require_schedule().steps, steps):
                return known
        found = self._compile(result, TiedSteps.RECOMPUTED)
        if all(each.memory.whole > self.budget for each in (found, *self.tried)):
            firm = self._compile(result, TiedSteps.ALL)
            found = firm if firm.memory.whole < found.memory.whole else found
        self.tried.append(found)
        return found

    def _compile(self, result: SolveResult, ties: TiedSteps) -> CompiledStep:
        schedule = result.require_schedule()
        run = scheduled(self.program, self.fused, schedule, self.platform, ties)
        jitted = jax.jit(run, donate_argnums=self.donated)
        memory = memory_of(self._executable(jitted, _TRIAL if self.platform == "cpu" else {}))
        return CompiledStep(jitted, None, memory, result, simulate(self.graph, schedule).peak_bytes)

    def _finish(self, trial: CompiledStep) -> CompiledStep:
        """Compile a trial as it will run, and read its memory again."""
        executable = self._executable(trial.jitted, {})
        return replace(trial, executable=executable, memory=memory_of(executable))

    def _executable(self, jitted: Any, options: dict[str, Any]) -> Any:
        started = time.perf_counter()
        lowered = jitted.lower(*(self.program.avals[value] for value in self.program.arguments))
        found = lowered.compile(options)
        self.compile_seconds += time.perf_counter() - started
        self.compilations += 1
        return found
