"""Test how a budget is met by compiling, where all is known of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from checkmate.backends.protocol import CompiledFit
from checkmate.backends.tf.xla.compiled import StepCompilation, XlaMemory
from checkmate.backends.tf.xla.compiler import XlaCompilation
from checkmate.backends.xla_policy.waits import WaitPolicy, ways_to_order, ways_to_tie
from checkmate.ir import Graph, GraphBuilder, Schedule, SolveResult, SolveStatus
from checkmate.memory.simulate import simulate
from checkmate.planning.compiling import MOST_SCHEDULES, CompiledSearch
from checkmate.planning.plan_request import PlanRequest
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.planning.solving import Minimum, keep_everything_peak, known_minimum, solve
from checkmate.progress import Progress
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget

FIXED = 1000


def _compilation(temp_bytes: float, seconds: float = 1.0) -> StepCompilation:
    memory = XlaMemory(FIXED, 0, int(temp_bytes), *2 * (np.zeros(0, np.int64),))
    return StepCompilation(memory, seconds)


class _Step(XlaCompilation):
    """A step for whose schedules XLA takes as many temporaries as ``taken`` says.

    ``plain``: the plain step's, in bytes and seconds, where they are not a schedule's.
    """

    graph: Any = None
    loose: Any = None

    def __init__(
        self,
        graph: Graph,
        taken: Callable[[Schedule, WaitPolicy], float],
        loose: Graph | None = None,
        plain: tuple[float, float] | None = None,
    ) -> None:
        self.graph, self._taken, self.loose, self._plain = graph, taken, loose, plain
        self.attempts: list[tuple[Schedule, WaitPolicy, float]] = []
        super().__init__()

    def compiled(self, schedule: Schedule | None, tied: WaitPolicy = WaitPolicy.RUNS) -> StepCompilation:
        if schedule is None and self._plain is not None:
            return _compilation(*self._plain)
        taken = self._taken(schedule or Schedule.plain(self.graph), tied)
        if schedule is not None:
            self.attempts.append((schedule, tied, taken))
        return _compilation(taken)

    def overheads(self, room: float) -> list[float]:
        """Return the overheads of what was compiled and takes at most ``room`` temporaries."""
        costs = [simulate(self.graph, each).cost for each, _, taken in self.attempts if int(taken) <= room]
        return [float(cost) / self.graph.base_cost - 1 for cost in costs]


@dataclass(frozen=True, eq=False)
class _Noting(ScheduleSolver):
    asked: list[int] = field(default_factory=list)

    def solve(self, graph: Graph, budget_bytes: int, **options: Any) -> SolveResult:
        self.asked.append(budget_bytes)
        return super().solve(graph, budget_bytes, **options)


def _solver(**options: Any) -> _Noting:
    return _Noting("auto", SolveOptions(time_limit_s=1), counted=True, **options)


Fit = CompiledFit[WaitPolicy, XlaMemory]


def _temporaries(graph: Graph, schedule: Schedule) -> int:
    return simulate(graph, Schedule.of(graph, schedule.steps)).peak_bytes - graph.fixed_bytes


def _long_chain() -> Graph:
    """Return twenty layers, forward and back. Each gradient reads the layer's input."""
    builder = GraphBuilder("chain")
    values = [builder.value("a0", 100)]
    builder.op("f0", outputs=[values[0]], cost=1.0)
    for i in range(1, 20):
        values.append(builder.value(f"a{i}", 100))
        builder.op(f"f{i}", [values[-2]], [values[-1]], cost=1.0)
    gradient = builder.value("g20", 100)
    builder.op("loss", [values[-1]], [gradient], cost=1.0)
    for i in range(19, -1, -1):
        found = builder.value(f"g{i}", 100, keep=i == 0)
        builder.op(f"b{i}", [gradient, values[i]], [found], cost=1.0)
        gradient = found
    return builder.build()


CHAIN = _long_chain()
PLAIN = _temporaries(CHAIN, Schedule.plain(CHAIN))


def _fit(
    share: float, rate: float, floor: float = 0.0, all_tied: float = 1.0
) -> tuple[Fit, _Step, list[int]]:
    """Return the fit to a share of the plain temporaries, what was compiled, and the bytes solved for.

    XLA takes ``rate`` bytes for each of the graph's, but no less than ``floor``. Where all steps are tied it
    takes ``all_tied`` times as much.
    """
    solver = _solver()

    def taken(schedule: Schedule, tied: WaitPolicy) -> float:
        found = max(floor, rate * _temporaries(CHAIN, schedule))
        return found * (all_tied if tied is WaitPolicy.ALL else 1.0)

    step = _Step(CHAIN, taken, plain=(max(floor, PLAIN), 1.0))
    return CompiledSearch(step, solver).fit(_within(share)), step, solver.asked


def _within(share: float) -> int:
    """Return the budget that leaves a share of the plain temporaries."""
    return FIXED + int(share * PLAIN)


def _way(fit: Fit) -> WaitPolicy | None:
    return None if fit.chosen is None else fit.chosen.way


def test_a_plain_step_that_fits_stays_plain() -> None:
    fit, step, asked = _fit(1.0, 1.0)
    assert fit.fits and fit.schedule is None and not asked and not step.attempts
    assert (fit.overhead, fit.recomputations, fit.compile_seconds) == (0.0, 0, 1.0)


def test_xla_that_takes_more_than_the_graph_is_asked_for_less() -> None:
    fit, step, asked = _fit(0.7, 1.3)
    assert fit.fits and fit.schedule is not None
    assert len(step.attempts) >= 2
    assert min(asked) < asked[0]
    assert fit.compilations == 1 + len(step.attempts) and fit.compile_seconds > 1.0
    assert fit.overhead == min(step.overheads(fit.budget_bytes - FIXED))


def test_the_same_step_is_fitted_the_same_way() -> None:
    first, again = _fit(0.6, 1.2), _fit(0.6, 1.2)
    assert first[2] == again[2]
    assert first[0].schedule is not None and again[0].schedule is not None
    assert first[0].schedule.steps.tolist() == again[0].schedule.steps.tolist()


def test_where_nothing_fits_the_search_ends_and_says_so() -> None:
    fit, step, asked = _fit(0.5, 1.0, floor=0.9 * PLAIN)
    assert not fit.fits
    assert fit.whole_bytes <= fit.plain_bytes
    assert len(step.attempts) <= MOST_SCHEDULES + len(WaitPolicy)  # the smallest is tried in all ways
    assert len(asked) <= 2 * MOST_SCHEDULES


def test_where_nothing_else_fits_all_steps_are_tied() -> None:
    fit, step, _ = _fit(0.55, 1.0, floor=0.6 * PLAIN, all_tied=0.8)
    assert fit.fits and _way(fit) is WaitPolicy.ALL and fit.recomputations
    assert [way for _, way, _ in step.attempts].count(WaitPolicy.ALL) == 1  # the plain order is too far over


def test_where_the_order_alone_keeps_the_budget_nothing_is_recomputed() -> None:
    fit, step, _ = _fit(0.7, 1.0, floor=0.9 * PLAIN, all_tied=0.5)
    assert fit.fits and _way(fit) is WaitPolicy.ALL
    assert (fit.overhead, fit.recomputations) == (0.0, 0)
    assert [way for _, way, _ in step.attempts][:3] == [*ways_to_order(CHAIN)]
    helped, _, asked = _fit(0.7, 0.65)
    assert helped.fits and _way(helped) is ways_to_order(CHAIN)[0] and not asked
    cheaper, _, asked = _fit(0.9, 1.0, all_tied=0.5)  # than to let all steps wait
    assert asked and cheaper.fits and _way(cheaper) is WaitPolicy.RUNS and 0 < cheaper.overhead < 0.1
    _, hopeless, _ = _fit(0.3, 0.5)
    assert all(each.recomputations for each, _, _ in hopeless.attempts)  # a graph of three times the room


@pytest.mark.parametrize("rate", [0.6, 0.8, 1.0, 1.3])
@pytest.mark.parametrize("share", [0.8, 0.6, 0.45])
def test_the_budget_is_used_up_or_nothing_cheaper_is_known(share: float, rate: float) -> None:
    fit, step, asked = _fit(share, rate)
    assert fit.fits
    room, used = fit.budget_bytes - FIXED, fit.whole_bytes - FIXED
    assert used >= 0.9 * room or not fit.recomputations, (used / room, asked)
    assert fit.overhead <= min(step.overheads(room)) + 1e-9


def _with_scratch(graph: Graph, bytes_: int) -> Graph:
    """Return the graph with so much scratch for each gradient."""
    ops = (replace(op, workspace_bytes=bytes_) if op.name.startswith("b") else op for op in graph.ops)
    return replace(graph, ops=tuple(ops))


@dataclass(frozen=True, eq=False)
class _KnowsNoLess(_Noting):
    """A solver that takes what the plain order requests for the least memory."""

    def minimum(self, graph: Graph) -> Minimum:
        peak, known = keep_everything_peak(graph), known_minimum(graph)
        return Minimum(peak, replace(known.bound, bytes=peak), Schedule.plain(graph))


def test_where_nothing_fits_a_graph_that_counts_less_is_solved() -> None:
    """Keep what the graph calls impossible, as XLA takes no scratch."""
    tight = _with_scratch(CHAIN, 600)

    def fitted(share: float, second: Graph | None) -> tuple[Fit, _Step]:
        step = _Step(tight, lambda schedule, tied: _temporaries(CHAIN, schedule), second)
        solver = _KnowsNoLess("auto", SolveOptions(time_limit_s=1), counted=True)
        return CompiledSearch(step, solver).fit(_within(share)), step

    (missed, _), (found, step) = (fitted(0.3, each) for each in (None, CHAIN))
    assert not missed.fits and found.fits
    schedule = found.schedule
    assert schedule is not None and schedule.same_steps(found.result and found.result.schedule)
    assert found.overhead == min(step.overheads(found.budget_bytes - FIXED))
    compiled = [(tuple(each.steps.tolist()), way) for each, way, _ in step.attempts]
    assert len(compiled) == len(set(compiled))  # what was compiled for the first graph is known
    enough = [fitted(0.8, each) for each in (None, CHAIN)]
    assert all(each.fits for each, _ in enough)
    assert len(enough[0][1].attempts) == len(enough[1][1].attempts)  # it is not needed there


@dataclass(frozen=True, eq=False)
class _AnswersOnce(_Noting):
    def solve(self, graph: Graph, budget_bytes: int, **options: Any) -> SolveResult:
        self.asked.append(budget_bytes)
        bytes_ = 1 if len(self.asked) > 1 else int(0.5 * keep_everything_peak(graph))
        return solve(graph, bytes_, solver="greedy")


def _follows() -> _Step:
    """Return a step for which XLA takes what the graph says."""
    return _Step(CHAIN, lambda schedule, tied: _temporaries(CHAIN, schedule))


def test_what_was_compiled_for_more_is_known_where_less_is_wanted() -> None:
    search = CompiledSearch(_follows(), _AnswersOnce("greedy", SolveOptions()))
    first, again = (search.fit(_within(share)) for share in (0.8, 0.6))
    assert first.fits and again.fits and again.schedule is not None
    assert again.result is first.result


def test_less_is_looked_for_though_a_small_dear_schedule_is_known() -> None:
    """Compile a schedule first that takes far too little, as where XLA holds less than the graph."""
    search = CompiledSearch(_follows(), _solver())
    small = solve(CHAIN, CHAIN.fixed_bytes + int(0.45 * PLAIN))
    search.as_given(small, _within(1.0))
    fit = search.fit(_within(0.8))
    assert fit.fits and small.overhead is not None and fit.overhead < 0.8 * small.overhead


def test_what_a_graph_that_counts_less_gave_is_told_of_the_steps_own() -> None:
    tight = _with_scratch(CHAIN, 600)
    step = _Step(tight, lambda schedule, tied: _temporaries(CHAIN, schedule), CHAIN)
    search = CompiledSearch(step, _KnowsNoLess("auto", SolveOptions(time_limit_s=1), counted=True))
    fit = search.fit(_within(0.3))
    result = fit.result
    assert result is not None
    schedule = result.require_schedule()
    replayed = simulate(tight, schedule)  # it is a schedule of that graph
    assert fit.recomputations and schedule.same_steps(fit.schedule)
    assert (result.peak_bytes, result.cost) == (replayed.peak_bytes, replayed.cost)
    assert result.budget_bytes >= replayed.peak_bytes
    assert result.lower_bound == tight.base_cost and result.status is SolveStatus.FEASIBLE


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6])
def test_the_schedule_that_is_chosen_is_the_one_that_is_told_of(share: float) -> None:
    fit = CompiledSearch(_follows(), _solver()).fit(_within(share))
    assert fit.schedule is not None and fit.fits is (share > 0.1)
    assert fit.result is not None and fit.result.require_schedule().same_steps(fit.schedule)


@pytest.mark.parametrize(("allowed", "tried"), [(0.9, 1), (0.5, 4)])
def test_a_given_schedule_is_compiled_until_a_way_keeps_the_budget(allowed: float, tried: int) -> None:
    given = solve(CHAIN, int(0.8 * keep_everything_peak(CHAIN)), solver="greedy")

    def taken(schedule: Schedule, tied: WaitPolicy) -> float:
        return _temporaries(CHAIN, schedule) * (0.9 if tied is WaitPolicy.ALL else 1.0)

    step = _Step(CHAIN, taken)
    fit = CompiledSearch(step, _solver()).as_given(given, _within(allowed))
    ways = ways_to_tie(CHAIN)
    assert [way for _, way, _ in step.attempts] == [*ways[: min(tried, len(ways))]]
    assert fit.fits is (tried == 1) and _way(fit) is (ways[0] if fit.fits else WaitPolicy.ALL)
    assert fit.result is given


@pytest.mark.parametrize(("seconds", "told"), [(1.0, 0), (30.0, 1)])
def test_what_compiles_slowly_is_told_of_once_before_schedules_are_compiled(
    seconds: float, told: int, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[int] = []

    def taken(schedule: Schedule, tied: WaitPolicy) -> float:
        said.append(capsys.readouterr().err.count("XLA took"))
        return 0.9 * _temporaries(CHAIN, schedule)

    solver, step = _solver(), _Step(CHAIN, taken, plain=(PLAIN, seconds))
    CompiledSearch(step, solver, PlanRequest(Budget(share=0.5), solver)).fit(_within(0.5))
    assert said[0] == sum(said) == told


def test_progress_numbers_the_compilations() -> None:
    heard: list[Progress] = []
    step = _Step(CHAIN, lambda schedule, tied: 1.3 * _temporaries(CHAIN, schedule), plain=(PLAIN, 1.0))
    CompiledSearch(step, _solver(report=heard.append)).fit(_within(0.6))
    compiled = [each.message for each in heard if each.stage == "compile"]
    numbers = [int(message.split()[2]) for message in compiled]
    assert numbers == [*range(1, 1 + len(step.attempts))] and len(numbers) > 1
    assert all(" at most with XLA; the plain step took 1 s" in message for message in compiled)
