"""Solve, compile, read, correct: until XLA's own plan keeps the budget.

First comes the order alone: nothing recomputed, all steps tied. The solver counts the buffers of a graph.
XLA plans its own; what it needs is known once a step is compiled. So each compiled schedule says what to
solve for next. Nothing is run.
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
from checkmate.jax.emit import TiedSteps, scheduled
from checkmate.jax.fuse import Fusion
from checkmate.jax.memory import StepMemory, memory_of
from checkmate.jax.program import Program
from checkmate.jax.ways import Way
from checkmate.memory.meter_aim import MeterAim, Shot
from checkmate.memory.simulate import simulate
from checkmate.pipeline import keep_everything_peak, known_minimum, solve

_ATTEMPTS = 6
_NEAR = 1.3  # of the room for temporaries: what takes more will not fit in another way
_USUAL = 2  # ways are tried for each schedule; all are for the smallest

Solve = Callable[[Graph, int], SolveResult]


@dataclass(frozen=True, eq=False)
class CompiledStep:
    """A schedule as XLA compiled it; ``executable`` is None after a trial."""

    jitted: Any
    way: Way
    executable: Any
    memory: StepMemory
    result: SolveResult
    requested: int  # what the graph says


@dataclass
class Search:
    """The search for one budget.

    ``budget`` is what the whole step may hold; ``plain`` is what it plainly takes. ``ways`` are tried in
    order.
    """

    program: Program
    fused: Sequence[Fusion]
    graph: Graph
    platform: str
    donated: tuple[int, ...]
    plain: StepMemory
    budget: int
    ways: tuple[Way, ...]
    solve: Solve
    tried: list[CompiledStep] = field(default_factory=list)
    compile_seconds: float = 0.0
    compilations: int = 0

    def run(self) -> CompiledStep | None:
        """Try schedules until one keeps the budget and uses it; return the best.

        That is the cheapest that keeps the budget, else the smallest; None where no schedule was found.
        """
        if not self._fits(self._order_alone()):
            self._try_schedules()
        fitting = [each for each in self.tried if self._fits(each)]
        for trial in sorted(fitting, key=lambda each: each.result.cost or 0.0):
            found = self._finish(trial)
            if self._fits(found):
                return found
        least = min(self.tried, key=lambda each: each.memory.whole, default=None)
        return None if least is None else self._finish(least)

    def _fits(self, compiled: CompiledStep) -> bool:
        return compiled.memory.whole <= self.budget

    def _order_alone(self) -> CompiledStep:
        """Compile the plain order with all its steps tied.

        XLA's own order may hold more than the step's, and order costs nothing.
        """
        result = solve(self.graph, keep_everything_peak(self.graph), solver="keep-all")
        firm = [way for way in self.ways if way.ties is TiedSteps.ALL]
        return self._trial(result, firm)

    def _try_schedules(self) -> None:
        graph = self.graph
        room = self.budget - self.plain.fixed
        aim = MeterAim(room, room, rate=1.0, base_cost=graph.base_cost)
        for _ in range(_ATTEMPTS):
            result = self.solve(graph, graph.fixed_bytes + aim.target)
            if result.schedule is None:
                aim.found_nothing()
            else:
                found = self._trial(result, self.ways[:_USUAL])
                requested = found.requested - graph.fixed_bytes
                aim.took(Shot(aim.target, requested, found.memory.temporary, float(result.cost or 0.0)))
            if aim.settled:
                break
        if not any(self._fits(each) for each in self.tried):
            least = self.solve(graph, known_minimum(graph).bytes)
            if least.schedule is not None:
                self._trial(least, self.ways)

    def _trial(self, result: SolveResult, ways: Sequence[Way]) -> CompiledStep:
        """Compile a schedule in one way after another.

        It ends with the first that keeps the budget, or is far over it.
        """
        steps = result.require_schedule().steps
        for known in self.tried:
            if np.array_equal(known.result.require_schedule().steps, steps):
                return known
        room = self.budget - self.plain.fixed
        best: CompiledStep | None = None
        for way in ways:
            found = self._compile(result, way)
            best = found if best is None or found.memory.whole < best.memory.whole else best
            if self._fits(best) or found.memory.temporary > _NEAR * room:
                break
        assert best is not None
        self.tried.append(best)
        return best

    def _compile(self, result: SolveResult, way: Way) -> CompiledStep:
        schedule = result.require_schedule()
        run = scheduled(self.program, self.fused, schedule, self.platform, way.ties)
        jitted = jax.jit(run, donate_argnums=self.donated)
        memory = memory_of(self._executable(jitted, way.trial_options(self.platform)))
        return CompiledStep(jitted, way, None, memory, result, simulate(self.graph, schedule).peak_bytes)

    def _finish(self, trial: CompiledStep) -> CompiledStep:
        """Compile a trial as it will run, and read its memory again."""
        executable = self._executable(trial.jitted, trial.way.options)
        return replace(trial, executable=executable, memory=memory_of(executable))

    def _executable(self, jitted: Any, options: dict[str, Any]) -> Any:
        started = time.perf_counter()
        lowered = jitted.lower(*(self.program.avals[value] for value in self.program.arguments))
        found = lowered.compile(options)
        self.compile_seconds += time.perf_counter() - started
        self.compilations += 1
        return found
