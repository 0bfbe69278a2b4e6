"""Meet a budget by compiling.

Solve, compile, read the memory, ask for less.

XLA's bytes are not the graph's: it fuses ops, whose values then need no memory, and it orders what is not
tied. So the solver's budget is corrected by what XLA answers. No step is run, and the same step gives the
same answer again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checkmate.errors import NoScheduleError
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.progress import Progress, Report
from checkmate.tf.xla.compiled import StepCompilation
from checkmate.tf.xla.memory import XlaMemory
from checkmate.tf.xla.ties import Tied
from checkmate.units import format_bytes, format_bytes_up

MOST_ATTEMPTS = 6
_NEAR = 0.93  # of the budget's room for temporaries: a step that takes as much is good enough
_SURE = 0.98  # of the bytes that the last answer suggests
_STEP = 0.92  # of the bytes that were asked for: the next attempt asks for no more

Compile = Callable[[Schedule, Tied], StepCompilation]
Solve = Callable[[int], Schedule | None]


@dataclass(frozen=True, eq=False)
class XlaAttempt:
    """Hold one schedule, and what XLA made of it.

    ``tied``: which of its steps wait. ``extra_steps``: its recomputations. ``overhead``: predicted, as a
    share of computing everything once.
    """

    schedule: Schedule
    tied: Tied
    extra_steps: int
    overhead: float
    memory: XlaMemory


@dataclass(frozen=True, eq=False)
class XlaFit:
    """Report how a compiled step meets its budget.

    ``plain``: the user's own step, compiled. ``chosen``: None: it stays plain. ``attempts``: all schedules
    that were compiled. ``compile_seconds``: of all compilations.
    """

    plain: XlaMemory
    budget_bytes: int
    chosen: XlaAttempt | None
    attempts: tuple[XlaAttempt, ...]
    compile_seconds: float

    @property
    def memory(self) -> XlaMemory:
        """Return the memory of the step that is chosen."""
        return self.plain if self.chosen is None else self.chosen.memory

    @property
    def schedule(self) -> Schedule | None:
        """Return the chosen schedule; None: the step stays plain."""
        return None if self.chosen is None else self.chosen.schedule

    @property
    def tied(self) -> Tied:
        """Return which steps of the chosen schedule wait."""
        return Tied.RECOMPUTED if self.chosen is None else self.chosen.tied

    @property
    def overhead(self) -> float:
        """Return the predicted extra computation, a share."""
        return 0.0 if self.chosen is None else self.chosen.overhead

    @property
    def extra_steps(self) -> int:
        """Return how many recomputations the chosen schedule has."""
        return 0 if self.chosen is None else self.chosen.extra_steps

    @property
    def fits(self) -> bool:
        """Return whether the chosen step keeps the budget."""
        return self.memory.peak_bytes <= self.budget_bytes


def none_fits(what: str, fit: XlaFit, remedy: str) -> NoScheduleError:
    """Return the error for a step whose every schedule is over the budget.

    ``what``: the step, in words. ``remedy``: what to do.
    """
    least = fit.memory.peak_bytes
    return NoScheduleError(
        f"no schedule was found with which XLA keeps {what} within {format_bytes(fit.budget_bytes)}: the "
        f"least that was compiled takes {format_bytes(least)}",
        hint=remedy,
        details={"budget_bytes": fit.budget_bytes, "needed_bytes": least},
    )


def smallest_remedy(fit: XlaFit) -> str:
    """Return what to do where no schedule keeps the budget."""
    return f"raise the budget to {format_bytes_up(fit.memory.peak_bytes)} or more, or use a smaller batch"


def fit_compiled(
    graph: Graph,
    plain: StepCompilation,
    budget_bytes: int,
    *,
    compile: Compile,
    solve: Solve,
    least: Callable[[], Schedule],
    report: Report,
) -> XlaFit:
    """Return the cheapest schedule whose compiled step keeps ``budget_bytes``.

    The bytes are arguments, results and temporaries together. ``solve``: bytes of the graph → a schedule
    within them, or None. ``least``: the schedule with the least memory known; where nothing else keeps the
    budget it is tried, and then with all its steps tied. Where nothing does, the closest is chosen.
    """
    attempts: list[XlaAttempt] = []
    seconds = [plain.seconds]

    def attempt(schedule: Schedule, tied: Tied) -> XlaMemory:
        report(Progress("compile", message=f"compiling attempt {len(attempts) + 1} with XLA"))
        made = compile(schedule, tied)
        seconds.append(made.seconds)
        overhead = simulate(graph, schedule).cost / graph.base_cost - 1 if graph.base_cost else 0.0
        extra = len(schedule.steps) - graph.n
        attempts.append(XlaAttempt(schedule, tied, extra, overhead, made.memory))
        return made.memory

    def known(schedule: Schedule, tied: Tied = Tied.RECOMPUTED) -> bool:
        steps = schedule.steps.tolist()
        return any(tied is each.tied and steps == each.schedule.steps.tolist() for each in attempts)

    search = _Fitting(graph, plain.memory, budget_bytes)
    while not search.over and len(attempts) < MOST_ATTEMPTS:
        asked = search.next_bytes()
        report(Progress("solve", message=f"solving for {format_bytes(asked)}"))
        schedule = solve(asked)
        if schedule is None:
            break
        if known(schedule):
            search.repeated(asked)
        else:
            search.answered(asked, attempt(schedule, Tied.RECOMPUTED))
    memories = (plain.memory, *(each.memory for each in attempts))
    if all(memory.peak_bytes > budget_bytes for memory in memories):
        smallest = least()
        for tied in (Tied.RECOMPUTED, Tied.ALL):
            if not known(smallest, tied) and attempt(smallest, tied).peak_bytes <= budget_bytes:
                break
    best = _best(attempts, plain.memory, budget_bytes)
    return XlaFit(plain.memory, budget_bytes, best, tuple(attempts), sum(seconds))


class _Fitting:
    """Choose what to ask the solver for.

    Below ``fits`` bytes of the graph XLA kept the budget; above ``exceeds`` it did not.
    """

    def __init__(self, graph: Graph, plain: XlaMemory, budget_bytes: int) -> None:
        self._fixed = graph.fixed_bytes
        everything = simulate(graph, Schedule.plain(graph)).peak_bytes - self._fixed
        self._room = max(1, budget_bytes - plain.peak_bytes + plain.temp_bytes)
        self._next = everything * min(1.0, self._room / max(1, plain.temp_bytes))
        self._fits, self._exceeds = 0.0, float(everything)
        self.over = plain.peak_bytes <= budget_bytes
        self._repeats = 0

    def next_bytes(self) -> int:
        """Return the solver's next budget."""
        return self._fixed + max(1, int(self._next))

    def answered(self, asked: int, memory: XlaMemory) -> None:
        """Take XLA's answer to a schedule of ``asked`` bytes."""
        bytes_ = asked - self._fixed
        share = self._room / max(1, memory.temp_bytes)
        if share >= 1:
            self._fits = max(self._fits, bytes_)
            self.over = self.over or _NEAR * share <= 1
            self._next = min(bytes_ * share * _SURE, (self._fits + self._exceeds) / 2)
        else:
            self._exceeds = min(self._exceeds, bytes_)
            self._next = bytes_ * min(_STEP, share * _SURE)
            if self._fits:
                self._next = (self._fits + self._exceeds) / 2
        if self._fits and self._exceeds - self._fits < (1 - _NEAR) * self._exceeds:
            self.over = True

    def repeated(self, asked: int) -> None:
        """Ask for less, because a known schedule came back."""
        self._repeats += 1
        if self._fits or self._repeats >= MOST_ATTEMPTS:
            self.over = True
        self._next = (asked - self._fixed) * _STEP


def _best(attempts: list[XlaAttempt], plain: XlaMemory, budget_bytes: int) -> XlaAttempt | None:
    """Return the cheapest that fits, else the smallest.

    None: the plain step is the one to take.
    """
    fitting = [each for each in attempts if each.memory.peak_bytes <= budget_bytes]
    if fitting:
        return min(fitting, key=lambda each: (each.overhead, each.memory.peak_bytes))
    closest = min(attempts, key=lambda each: each.memory.peak_bytes, default=None)
    return None if closest is None or closest.memory.peak_bytes >= plain.peak_bytes else closest
