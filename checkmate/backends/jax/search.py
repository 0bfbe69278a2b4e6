"""Solve, compile, read, correct: until XLA's own plan keeps the budget.

The search itself is ``checkmate.memory.compiling``'s; here is how JAX's steps are compiled for it. The solver
counts the buffers of a graph. XLA plans its own; what it needs is known once a step is compiled. Nothing is
run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import jax

from checkmate.backends.jax.compiled import StepMemory, memory_of, moved_bytes
from checkmate.backends.jax.device import Speed
from checkmate.backends.jax.emission import scheduled
from checkmate.backends.jax.fusions import Fusion
from checkmate.backends.jax.graph import product_seconds
from checkmate.backends.jax.program import Program
from checkmate.backends.jax.ways import Way, holds_order, near, usual_ways
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.memory.compiling import Compiled, Compiler, CompilingSearch
from checkmate.memory.simulate import simulate
from checkmate.planning.solving import keep_everything_peak, known_minimum, solve
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.solvers.baselines import whole_segments

# Bytes that XLA takes for each of a GPU's graph at most, before anything was compiled: 1.00 to 1.04 were seen
# where a ResNet's schedules were compiled for an H200. A plain step may hold what a scheduled one does not.
_MOST_RATE = 1.03
# On a CPU, of a schedule's cost: what it probably takes more where all steps wait. Of a Keras ViT and an
# MLP-Mixer that was 15 to 30 %, of other networks less than nothing.
_HELD = 0.15
# Of the plain step's cost: where recomputing costs less, it is tried before all steps are tied.
_WORTH = 0.03
# Of the plain step's cost: what fits may cost so much more than a schedule that requests what the step may
# hold, and no other group of ways is tried.
_GOOD = 0.15

Solve = Callable[[Graph, int], SolveResult]


def first_compiled(
    choices: Sequence[dict[str, Any]], compiled: Callable[[dict[str, Any]], Any]
) -> tuple[Any, int]:
    """Compile with the first options that XLA does not fail with.

    Also returned is with how many it failed.

    Raises:
        jax.errors.JaxRuntimeError: XLA fails with all.
    """
    for failed, options in enumerate(choices[:-1]):
        try:
            return compiled(options), failed
        except jax.errors.JaxRuntimeError:
            continue
    return compiled(choices[-1]), len(choices) - 1


@dataclass(frozen=True, eq=False)
class CompiledStep:
    """A schedule as XLA compiled it."""

    jitted: Any
    way: Way
    executable: Any
    memory: StepMemory
    result: SolveResult


@dataclass(frozen=True, eq=False)
class _Trial:
    """A schedule that was compiled to read its memory.

    ``executable`` is there where it was compiled as it will run. ``moved``: the bytes that its kernels read
    and write, where that was read.
    """

    jitted: Any
    memory: StepMemory
    executable: Any
    moved: int | None
    way: Way


@dataclass
class Search:
    """The search for one budget.

    ``budget`` is what the whole step may hold; ``plain`` is what it plainly takes. ``ways``:
    groups, each with a search of its own, until what fits is good. ``refused``: with how many of the
    options for trials XLA failed.
    ``segments``: schedules of whole segments are tried as well. ``first``: a schedule that is taken if it
    keeps the budget; ``as_given``: in any case.
    """

    program: Program
    fused: Sequence[Fusion]
    graph: Graph
    platform: str
    donated: tuple[int, ...]
    plain: StepMemory
    budget: int
    ways: tuple[tuple[Way, ...], ...]
    speed: Speed
    solve: Solve
    segments: bool = True
    first: SolveResult | None = None
    as_given: bool = False
    report: Report = silent
    cancelled: Cancelled = never
    results: list[SolveResult] = field(default_factory=list)
    known: dict[int, Schedule | None] = field(default_factory=dict)
    compile_seconds: float = 0.0
    compilations: int = 0
    refused: int = 0

    def run(self) -> CompiledStep | None:
        """Try schedules until one keeps the budget and uses it; return the best.

        That is the cheapest that keeps the budget, else the smallest; None where no schedule was found.
        """
        if self.first is not None:
            given = self._compiled_as_given(self.first)
            if self.as_given or given.memory.whole <= self.budget:
                return given
        tried = self._tried_all()
        for trial in self._fitting(tried):
            found = self._finish(trial)
            if found.memory.whole <= self.budget:
                return found
        best = min(tried, key=lambda each: each.temporary, default=None)
        return None if best is None else self._finish(best)

    @property
    def most(self) -> int:
        """Return how many compilations the search takes at most, for speed once."""
        return 1 + sum(self._search_by(ways).compiler.most for ways in self.ways)

    def _tried_all(self) -> list[Compiled[Way, _Trial]]:
        """Search with one group of ways after another, until what fits is good.

        The order alone comes first, in all of them: it recomputes nothing. Where only a later group holds it,
        that is good enough if recomputing costs about as much as the ties of all steps.
        """
        searches = [self._search_by(ways) for ways in self.ways]
        for search in searches:
            search.try_order_alone()
            if search.fitting and (search is searches[0] or self._least_cost >= 1 + _WORTH):
                return search.tried
        tried: list[Compiled[Way, _Trial]] = []
        for search in searches:
            if not search.fitting:
                search.run()
            tried += search.tried
            if any(map(self._is_good, self._fitting(tried))):
                break
        return tried

    def _search_by(self, ways: tuple[Way, ...]) -> CompilingSearch[Way, _Trial]:
        compiler = Compiler(
            ways,
            usual_ways(ways, self.platform),
            lambda way: holds_order(way, self.platform),
            self._compile,
            self._solved_within,
            lambda: self._solved_within(known_minimum(self.graph).bytes),
            self._price,
            self._whole,
            near(self.platform),
        )
        return CompilingSearch(self.graph, self.budget - self.plain.fixed, self._rate(), compiler)

    def _is_good(self, each: Compiled[Way, _Trial]) -> bool:
        """Return whether another group of ways has little to gain on what fits."""
        return each.cost <= (self._least_cost + _GOOD) * self.graph.base_cost

    @property
    def _least_cost(self) -> float:
        """Return the cost of a schedule that requests what the step may hold. It is in plain steps."""
        asked = self._solved_within(self.graph.fixed_bytes + self.budget - self.plain.fixed)
        return 1.0 if asked is None else float(simulate(self.graph, asked).cost) / self.graph.base_cost

    def _fitting(self, tried: Sequence[Compiled[Way, _Trial]]) -> list[Compiled[Way, _Trial]]:
        """Return what keeps the budget, what probably takes the least time first."""
        room = self.budget - self.plain.fixed
        found = [each for each in tried if each.temporary <= room]
        return sorted(found, key=lambda each: (each.price, each.temporary))

    def _compiled_as_given(self, result: SolveResult) -> CompiledStep:
        """Compile a schedule in one way after another, until one keeps the budget.

        Where none does it is the smallest.
        """
        schedule = result.require_schedule()
        self.results.append(result)
        tried: list[Compiled[Way, _Trial]] = []
        for way in chain.from_iterable(self.ways):
            made, temporary = self._compile(schedule, way)
            tried.append(Compiled(schedule, way, made, temporary, result.cost or 0.0, 0.0))
            if made.memory.whole <= self.budget:
                break
        return self._finish(min(tried, key=lambda each: each.temporary))

    def _rate(self) -> float:
        """Return how many bytes XLA will probably take for each of the graph's."""
        if self.platform == "cpu":
            return 1.0
        held = keep_everything_peak(self.graph) - self.graph.fixed_bytes
        return min(_MOST_RATE, max(1, self.plain.temporary) / max(1, held))

    def _price(self, schedule: Schedule, made: _Trial) -> float | None:
        """Return about how long a compiled schedule takes.

        It is the time of its bytes and that of its products. By such prices the policies of
        ``jax.checkpoint`` stood as they did when an H200 ran them.
        """
        if self.platform == "cpu":
            held = _HELD if made.way.ties is WaitPolicy.ALL else 0.0
            return (1 + held) * float(simulate(self.graph, schedule).cost)
        if made.moved is None:
            return None
        seconds = [product_seconds(fusion, self.speed) for fusion in self.fused]
        products: float = sum(seconds[step] for step in schedule.steps.tolist())
        return made.moved / self.speed.bytes + products

    def _whole(self, asked: int) -> list[Schedule]:
        found = whole_segments(self.graph, asked) if self.segments else []
        return [schedule for schedule in map(self._solved, found) if schedule is not None]

    def _solved_within(self, asked: int) -> Schedule | None:
        """Return a schedule that requests so many bytes, solved for once."""
        if asked not in self.known:
            self.known[asked] = self._solved(self.solve(self.graph, asked))
        return self.known[asked]

    def _solved(self, result: SolveResult) -> Schedule | None:
        self.results.append(result)
        return result.schedule

    def _result_of(self, schedule: Schedule) -> SolveResult:
        """Return what solving gave ``schedule``; else it is the plain order."""
        for result in self.results:
            if result.schedule is schedule:
                return result
        return solve(self.graph, keep_everything_peak(self.graph), solver="keep-all")

    def _compile(self, schedule: Schedule, way: Way) -> tuple[_Trial, int]:
        run = scheduled(self.program, self.fused, schedule, way.emitted(self.platform))
        jitted = jax.jit(run, donate_argnums=self.donated)
        executable = self._tried(jitted, choices := way.trial_options(self.platform))
        memory = memory_of(executable)
        moved = None if self.platform == "cpu" else moved_bytes(executable.as_text())
        as_run = executable if choices[self.refused] == way.options else None
        made = _Trial(jitted, memory, as_run, moved, way)
        return made, memory.whole - self.plain.fixed

    def _tried(self, jitted: Any, choices: Sequence[dict[str, Any]]) -> Any:
        """Compile with the first of ``choices`` that XLA does not fail with."""
        found, failed = first_compiled(choices[self.refused :], lambda each: self._executable(jitted, each))
        self.refused += failed
        return found

    def _finish(self, trial: Compiled[Way, _Trial]) -> CompiledStep:
        """Return a trial as it will run. It is compiled again, where it was compiled otherwise."""
        made, executable = trial.made, trial.made.executable
        if executable is None:
            executable = self._executable(made.jitted, trial.way.options)
        memory = memory_of(executable)
        return CompiledStep(made.jitted, trial.way, executable, memory, self._result_of(trial.schedule))

    def _executable(self, jitted: Any, options: dict[str, Any]) -> Any:
        stop_if(self.cancelled)
        done = self.compilations + 1
        number = f"number {done} of {self.most} at most"
        self.report(Progress("compile", message=f"compiling a scheduled step with XLA ({number})"))
        started = time.perf_counter()
        lowered = jitted.lower(*(self.program.avals[value] for value in self.program.arguments))
        found = lowered.compile(options)
        self.compile_seconds += time.perf_counter() - started
        self.compilations += 1
        return found
