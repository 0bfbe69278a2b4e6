"""Meet a budget by compiling.

Solve, compile, read the memory, ask for less.

XLA's bytes are not the graph's: it fuses ops, whose values then need no memory, and it orders what is not
tied. So the order alone is tried first, and then the solver's budget is corrected by what XLA answers
(``checkmate.memory.compiling``). No step is run, and the same step gives the same answer again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from checkmate.backends.tf.xla.compiled import StepCompilation, XlaMemory
from checkmate.backends.xla_policy.waits import WaitPolicy, usual_ways, ways_to_order, ways_to_tie
from checkmate.errors import NoScheduleError
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.compiling import Compiled, Compiler, CompilingSearch, slow_to_compile
from checkmate.memory.simulate import simulate
from checkmate.progress import Progress, Report
from checkmate.units import format_bytes, format_bytes_up

_NEAR_ORDER = 1.6  # of the room: a mixer's plain order took 0.77 of that where all steps wait
_HOLDING = 0.1  # of the step: where all steps wait it took 3 to 15 % more, whatever was computed again

Compile = Callable[[Schedule, WaitPolicy], StepCompilation]


@dataclass(frozen=True, eq=False)
class Solving:
    """How schedules of a graph come to be.

    ``solve``: a graph and its bytes → a schedule within them, or None. ``least``: the schedule with the least
    memory known. ``whole``: a graph and its bytes → schedules of whole segments, which XLA takes less for.
    """

    solve: Callable[[Graph, int], Schedule | None]
    least: Callable[[Graph], Schedule]
    whole: Callable[[Graph, int], Sequence[Schedule]] = lambda graph, asked: ()


@dataclass(frozen=True, eq=False)
class XlaAttempt:
    """Hold one schedule, and what XLA made of it.

    ``tied``: which of its steps wait. ``extra_steps``: its recomputations. ``overhead``: predicted, as a
    share of computing everything once.
    """

    schedule: Schedule
    tied: WaitPolicy
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
        return self.plain if self.chosen is None else self.chosen.memory

    @property
    def schedule(self) -> Schedule | None:
        """Return the chosen schedule; None: the step stays plain."""
        return None if self.chosen is None else self.chosen.schedule

    @property
    def tied(self) -> WaitPolicy:
        """Return which steps of the chosen schedule wait."""
        return WaitPolicy.RUNS if self.chosen is None else self.chosen.tied

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
    return f"raise the budget to {format_bytes_up(fit.memory.peak_bytes)} or more"


def fit_compiled(
    graph: Graph,
    plain: StepCompilation,
    budget_bytes: int,
    *,
    compile: Compile,
    solving: Solving,
    report: Report,
    loose: Graph | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> XlaFit:
    """Return the cheapest schedule whose compiled step keeps ``budget_bytes``.

    The bytes are arguments, results and temporaries together. Where nothing else keeps them, the schedule
    with the least memory is tried, and then with all its steps tied. ``loose``: the same ops, which count
    less; where still nothing keeps the budget its schedules are tried. Where those do not either, the closest
    is chosen. ``tell``: takes a sentence before the first schedule, where they are slow to compile.
    """
    if plain.memory.peak_bytes <= budget_bytes:
        return XlaFit(plain.memory, budget_bytes, None, (), plain.seconds)
    seconds = [plain.seconds]
    fixed = plain.memory.peak_bytes - plain.memory.temp_bytes
    room = max(1, budget_bytes - fixed)
    tried: list[Compiled[WaitPolicy, XlaMemory]] = []

    def compiled(schedule: Schedule, tied: WaitPolicy) -> tuple[XlaMemory, int]:
        number = f"compiling attempt {len(seconds)} of {most} at most with XLA"
        report(Progress("compile", message=f"{number}; the plain step took {plain.seconds:.0f} s"))
        made = compile(_of(graph, schedule), tied)
        seconds.append(made.seconds)
        return made.memory, made.memory.peak_bytes - fixed

    graphs = [each for each in (graph, loose) if each is not None]
    compilers = [_compiler(each, compiled, solving, report) for each in graphs]
    most = sum(each.most for each in compilers)
    if slow := slow_to_compile(plain.seconds, most):
        tell(slow)
    best = None
    for each, compiler in zip(graphs, compilers, strict=True):
        known = [replace(one, schedule=_of(each, one.schedule)) for one in tried]
        search = CompilingSearch(each, room, _rate(each, plain.memory), compiler, known)
        best, tried = search.run(), search.tried
        if search.fitting:
            break
    attempts = {id(each): _attempt(graph, each) for each in tried}
    chosen = None if best is None else attempts[id(best)]
    if chosen is not None and chosen.memory.peak_bytes >= plain.memory.peak_bytes:
        chosen = None
    return XlaFit(plain.memory, budget_bytes, chosen, tuple(attempts.values()), sum(seconds))


def _compiler(
    graph: Graph,
    compiled: Callable[[Schedule, WaitPolicy], tuple[XlaMemory, int]],
    solving: Solving,
    report: Report,
) -> Compiler[WaitPolicy, XlaMemory]:
    def solved(asked: int) -> Schedule | None:
        report(Progress("solve", message=f"solving for {format_bytes(asked)}"))
        return solving.solve(graph, asked)

    order = ways_to_order(graph)
    return Compiler(
        ways_to_tie(graph),
        usual_ways(graph),
        lambda tied: tied in order,
        compiled,
        solved,
        partial(solving.least, graph),
        whole=partial(solving.whole, graph),
        near_order=_NEAR_ORDER,
        says_least=True,
        extra=lambda tied: _HOLDING if tied is WaitPolicy.ALL else 0.0,
    )


def _rate(graph: Graph, plain: XlaMemory) -> float:
    everything = simulate(graph, Schedule.plain(graph)).peak_bytes - graph.fixed_bytes
    return max(1, plain.temp_bytes) / max(1, everything)


def _attempt(graph: Graph, each: Compiled[WaitPolicy, XlaMemory]) -> XlaAttempt:
    overhead = each.cost / graph.base_cost - 1 if graph.base_cost else 0.0
    extra = len(each.schedule.steps) - graph.n
    return XlaAttempt(_of(graph, each.schedule), each.way, extra, overhead, each.made)


def _of(graph: Graph, schedule: Schedule) -> Schedule:
    return Schedule.of(graph, schedule.steps)
