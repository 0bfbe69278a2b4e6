"""Test how a budget is met by compiling.

All is known of the compiler here.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from checkmate import planning
from checkmate.backends.tf.xla.compiled import StepCompilation, XlaMemory
from checkmate.backends.tf.xla.fit import Solving, XlaFit, fit_compiled
from checkmate.backends.xla_policy.waits import WaitPolicy, ways_to_order
from checkmate.ir.graph import Graph, GraphBuilder
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.compiling import MOST_SCHEDULES
from checkmate.memory.simulate import simulate
from checkmate.planning.compiled.search import CompiledSearch
from checkmate.planning.deterministic_solve import solve_counted
from checkmate.progress import silent
from checkmate.solvers.bounds import below_minimum
from checkmate.solvers.problem import Listener, SolveOptions

FIXED = 1000


def _compilation(temp_bytes: float) -> StepCompilation:
    memory = XlaMemory(FIXED, 0, int(temp_bytes), *2 * (np.zeros(0, np.int64),))
    return StepCompilation(memory, 1.0)


def _fit(
    graph: Graph, share: float, rate: float, floor: float = 0.0, all_tied: float = 1.0
) -> tuple[XlaFit, list[int]]:
    """Fit to a share of the plain temporaries.

    XLA takes ``rate`` bytes for each of the graph's, but no less than ``floor``. Where all steps are tied it
    takes ``all_tied`` times as much.
    """
    plain = simulate(graph, Schedule.plain(graph)).peak_bytes - graph.fixed_bytes
    asked: list[int] = []

    def compiled(schedule: Schedule, tied: WaitPolicy) -> StepCompilation:
        taken = rate * (simulate(graph, schedule).peak_bytes - graph.fixed_bytes)
        return _compilation(max(floor, taken) * (all_tied if tied is WaitPolicy.ALL else 1.0))

    fit = fit_compiled(
        graph,
        _compilation(max(floor, plain)),
        FIXED + int(share * plain),
        compile=compiled,
        solving=_solving(asked),
        report=silent,
    )
    return fit, asked


def _solving(asked: list[int]) -> Solving:
    """Solve in a second at most, and note for what."""

    def solve(graph: Graph, bytes_: int) -> Schedule | None:
        asked.append(bytes_)
        options = SolveOptions(time_limit_s=1)
        return solve_counted(graph, bytes_, options=options, listener=Listener()).schedule

    return Solving(solve, lambda graph: solve(graph, graph.fixed_bytes + 1000) or Schedule.plain(graph))


def test_a_plain_step_that_fits_stays_plain() -> None:
    fit, asked = _fit(_long_chain(), 1.0, 1.0)
    assert fit.fits and fit.schedule is None and not asked
    assert (fit.overhead, fit.extra_steps, fit.compile_seconds) == (0.0, 0, 1.0)


def test_xla_that_takes_more_than_the_graph_is_asked_for_less() -> None:
    graph = _long_chain()
    fit, asked = _fit(graph, 0.7, 1.3)
    assert fit.fits and fit.schedule is not None
    assert len(fit.attempts) >= 2
    assert min(asked) < asked[0]
    assert fit.compile_seconds == 1.0 + len(fit.attempts)
    fitting = [each for each in fit.attempts if each.memory.peak_bytes <= fit.budget_bytes]
    assert fit.overhead == min(each.overhead for each in fitting)


def test_the_same_step_is_fitted_the_same_way() -> None:
    first, again = _fit(_long_chain(), 0.6, 1.2), _fit(_long_chain(), 0.6, 1.2)
    assert first[1] == again[1]
    assert first[0].schedule is not None and again[0].schedule is not None
    assert first[0].schedule.steps.tolist() == again[0].schedule.steps.tolist()


def test_where_nothing_fits_the_search_ends_and_says_so() -> None:
    graph = _long_chain()
    plain = simulate(graph, Schedule.plain(graph)).peak_bytes - graph.fixed_bytes
    fit, asked = _fit(graph, 0.5, 1.0, floor=0.9 * plain)
    assert not fit.fits
    assert fit.memory.peak_bytes <= fit.plain.peak_bytes
    assert len(fit.attempts) <= MOST_SCHEDULES + len(WaitPolicy)  # the smallest is tried in all ways
    assert len(asked) <= 2 * MOST_SCHEDULES


def test_where_nothing_else_fits_all_steps_are_tied() -> None:
    graph = _long_chain()
    plain = simulate(graph, Schedule.plain(graph)).peak_bytes - graph.fixed_bytes
    fit, _ = _fit(graph, 0.55, 1.0, floor=0.6 * plain, all_tied=0.8)
    assert fit.fits and fit.tied is WaitPolicy.ALL and fit.extra_steps
    assert [each.tied for each in fit.attempts].count(WaitPolicy.ALL) == 1  # the plain order is too far over


def test_where_the_order_alone_keeps_the_budget_nothing_is_recomputed() -> None:
    graph = _long_chain()
    plain = simulate(graph, Schedule.plain(graph)).peak_bytes - graph.fixed_bytes
    fit, _ = _fit(graph, 0.7, 1.0, floor=0.9 * plain, all_tied=0.5)
    assert fit.fits and fit.tied is WaitPolicy.ALL
    assert (fit.overhead, fit.extra_steps) == (0.0, 0)
    assert [each.tied for each in fit.attempts][:3] == [*ways_to_order(graph)]
    helped, asked = _fit(graph, 0.7, 0.65)
    assert helped.fits and helped.tied is ways_to_order(graph)[0] and not asked
    cheaper, asked = _fit(graph, 0.9, 1.0, all_tied=0.5)  # than to let all steps wait
    assert asked and cheaper.fits and cheaper.tied is WaitPolicy.RUNS and 0 < cheaper.overhead < 0.1
    hopeless, _ = _fit(_long_chain(), 0.3, 0.5)
    assert all(each.extra_steps for each in hopeless.attempts)  # a graph of three times the room


@pytest.mark.parametrize("rate", [0.6, 0.8, 1.0, 1.3])
@pytest.mark.parametrize("share", [0.8, 0.6, 0.45])
def test_the_budget_is_used_up_or_nothing_cheaper_is_known(share: float, rate: float) -> None:
    """Try several rates of XLA's bytes to the graph's."""
    graph = _long_chain()
    fit, asked = _fit(graph, share, rate)
    assert fit.fits
    room = fit.budget_bytes - FIXED
    cheaper = [each for each in fit.attempts if each.overhead < fit.overhead]
    assert fit.memory.temp_bytes >= 0.9 * room or not fit.extra_steps, (fit.memory.temp_bytes / room, asked)
    assert all(each.memory.peak_bytes > fit.budget_bytes for each in cheaper)


def _with_scratch(graph: Graph, bytes_: int) -> Graph:
    """Return the graph with so much scratch for each gradient."""
    ops = (replace(op, workspace_bytes=bytes_) if op.name.startswith("b") else op for op in graph.ops)
    return replace(graph, ops=tuple(ops))


def test_where_nothing_fits_a_graph_that_counts_less_is_solved() -> None:
    """Keep what the graph calls impossible, as XLA takes no scratch."""
    loose = _long_chain()
    tight = _with_scratch(loose, 600)

    def taken(schedule: Schedule) -> int:
        return simulate(loose, Schedule.of(loose, schedule.steps)).peak_bytes

    plain = taken(Schedule.plain(loose))

    def fitted(share: float, second: Graph | None) -> XlaFit:
        return fit_compiled(
            tight,
            _compilation(plain),
            FIXED + int(share * plain),
            compile=lambda schedule, tied: _compilation(taken(schedule)),
            solving=replace(_solving([]), least=Schedule.plain),
            loose=second,
            report=silent,
        )

    found = [fitted(0.3, each) for each in (None, loose)]
    assert not found[0].fits and found[1].fits
    schedule = found[1].schedule
    assert schedule is not None and schedule.graph_fingerprint == tight.fingerprint
    fitting = [each for each in found[1].attempts if each.memory.peak_bytes <= found[1].budget_bytes]
    assert found[1].overhead == min(each.overhead for each in fitting)
    compiled = [(tuple(each.schedule.steps.tolist()), each.tied) for each in found[1].attempts]
    assert len(compiled) == len(set(compiled))  # what was compiled for the first graph is known
    enough = [fitted(0.8, each) for each in (None, loose)]
    assert all(each.fits for each in enough)
    assert len(enough[0].attempts) == len(enough[1].attempts)  # it is not needed there


class _AnswersOnce:
    """A solver that finds a small schedule once, and then none."""

    name = "greedy"

    def __init__(self) -> None:
        self.asked = 0

    def for_a_share(self, share: float) -> _AnswersOnce:
        return self

    def solve_above_minimum(self, graph: Graph, _: int) -> SolveResult:
        self.asked += 1
        if self.asked > 1:
            error = below_minimum(graph, 1)
            assert error is not None
            raise error
        return planning.solve(graph, int(0.5 * planning.keep_everything_peak(graph)), solver="greedy")

    def solve(self, graph: Graph, _: int) -> SolveResult:
        return planning.solve(graph, planning.keep_everything_peak(graph), solver="keep-all")

    def minimum_bytes(self, graph: Graph) -> int:
        return planning.keep_everything_peak(graph)

    def bound_bytes(self, graph: Graph) -> int:
        return graph.fixed_bytes


def test_what_was_compiled_for_more_is_known_where_less_is_wanted() -> None:
    graph = _long_chain()

    def compiled(schedule: Schedule, tied: WaitPolicy = WaitPolicy.RECOMPUTED) -> StepCompilation:
        return _compilation(simulate(graph, schedule).peak_bytes)

    loaded = SimpleNamespace(traced=SimpleNamespace(loaded=SimpleNamespace(name="any")))
    step: Any = SimpleNamespace(graph=graph, loose=None, compiled=compiled, report=silent, folded=loaded)
    plain, solver = compiled(Schedule.plain(graph)), _AnswersOnce()
    search = CompiledSearch(step, plain, cast(Any, solver))
    first = search.fitted(FIXED + int(0.8 * plain.memory.temp_bytes))
    again = search.fitted(FIXED + int(0.6 * plain.memory.temp_bytes))
    assert again.result is first.result and again.fit.fits and solver.asked > 1


class _SolvesLoosely(_AnswersOnce):
    """A solver that finds nothing in a graph, but in another of its ops."""

    def __init__(self, loose: Graph) -> None:
        super().__init__()
        self.loose = loose

    def solve_above_minimum(self, graph: Graph, asked: int) -> SolveResult:
        if graph is not self.loose:
            error = below_minimum(graph, 1)
            assert error is not None
            raise error
        return planning.solve(graph, asked, solver="greedy")


def test_what_a_graph_that_counts_less_gave_is_told_of_the_steps_own() -> None:
    loose = _long_chain()
    tight = _with_scratch(loose, 600)

    def compiled(schedule: Schedule, tied: WaitPolicy = WaitPolicy.RECOMPUTED) -> StepCompilation:
        return _compilation(simulate(loose, Schedule.of(loose, schedule.steps)).peak_bytes)

    loaded = SimpleNamespace(traced=SimpleNamespace(loaded=SimpleNamespace(name="any")))
    step: Any = SimpleNamespace(graph=tight, loose=loose, compiled=compiled, report=silent, folded=loaded)
    plain = compiled(Schedule.plain(tight))
    search = CompiledSearch(step, plain, cast(Any, _SolvesLoosely(loose)))
    found = search.fitted(FIXED + int(0.6 * plain.memory.temp_bytes))
    result, schedule = found.result, found.result.require_schedule()
    replayed = simulate(tight, schedule)  # it is a schedule of that graph
    assert found.fit.extra_steps and schedule.same_steps(found.fit.schedule)
    assert (result.peak_bytes, result.cost) == (replayed.peak_bytes, replayed.cost)
    assert result.budget_bytes >= replayed.peak_bytes
    assert result.lower_bound == tight.base_cost and result.status is SolveStatus.FEASIBLE


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


@pytest.mark.parametrize(("seconds", "told"), [(1.0, 0), (30.0, 1)])
def test_what_compiles_slowly_is_told_of_once_before_schedules_are_compiled(
    seconds: float, told: int
) -> None:
    graph, said = _long_chain(), list[str]()
    compiled: list[int] = []

    def compile_it(schedule: Schedule, tied: WaitPolicy) -> StepCompilation:
        compiled.append(len(said))
        return _compilation(1.0)

    plain = replace(_compilation(1e6), seconds=seconds)
    fit_compiled(
        graph,
        plain,
        FIXED + 10**5,
        compile=compile_it,
        solving=Solving(lambda each, asked: None, Schedule.plain),
        report=silent,
        tell=said.append,
    )
    assert len(said) == told and set(compiled) == {told}
