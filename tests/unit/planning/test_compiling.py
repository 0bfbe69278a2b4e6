"""Test the search for a schedule that keeps a budget once it is compiled.

Solver and compiler are made up: the compiler takes a share of the graph's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from checkmate.backends.protocol import Compilation, Compiled, Compiler
from checkmate.ir import Graph, GraphBuilder, Schedule, SolveResult, SolveStatus
from checkmate.memory.simulate import simulate
from checkmate.planning import known_minimum
from checkmate.planning.compiling import CompiledSearch, GroupSearch, Solves, _most, _slow_to_compile
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.solvers.problem import SolveOptions
from tests.graphs_strategies import training_chain

ROOM = 90  # of the 100 bytes that the plain order holds: near enough for the order alone


def graph() -> Graph:
    builder = GraphBuilder("two")
    first = builder.value("first", 60)
    builder.op("make", [], [first], cost=1.0)
    builder.op("use", [first], [builder.value("second", 40, keep=True)], cost=1.0)
    return builder.build()


STEP = graph()
PLAIN = Schedule.plain(STEP)


def longer(count: int) -> Schedule:
    """Return the plain order, and so many recomputations."""
    return Schedule.of(STEP, [0] * count + [0, 1])


class Made(Compiler[str, str]):
    """Compiles to the bytes that ``taken`` says, and notes what it compiled."""

    def __init__(
        self,
        taken: Callable[[Schedule, str], int],
        ways: Sequence[str] = ("some",),
        *,
        usual: int = 1,
        holding: Sequence[str] = (),
        **limits: Any,
    ) -> None:
        self._taken, self.ways, self.usual, self._holding = taken, ways, usual, holding
        self.graph, self.rate = STEP, 1.0
        self.compiled: list[tuple[Schedule, str]] = []
        for name, value in limits.items():
            setattr(self, name, value)

    def compile(self, schedule: Schedule, way: str) -> tuple[str, int]:
        self.compiled.append((schedule, way))
        return way, self._taken(schedule, way)

    def holds_order(self, way: str) -> bool:
        return way in self._holding


class Priced(Made):
    """A compiler whose steps are faster, the longer they are."""

    def price(self, schedule: Schedule, made: str) -> float:
        return -float(len(schedule.steps))


class Offered(Solves):
    """Solves that give what they are told to. ``asked``: for how many bytes, in order."""

    def __init__(
        self,
        solved: Iterator[Schedule],
        whole: Sequence[Schedule] = (),
        least: Schedule = PLAIN,
        step: Graph = STEP,
    ) -> None:
        super().__init__(step, ScheduleSolver("greedy", SolveOptions()))
        self._offered, self._whole, self._least = solved, whole, least
        self.asked: list[int] = []

    def within(self, asked: int) -> Schedule | None:
        self.asked.append(asked)
        return next(self._offered, None)

    def whole(self, asked: int) -> Iterator[Schedule]:
        return iter(self._whole)

    def least(self) -> Schedule:
        return self._least


class Step(Compilation[str, str]):
    """A step that one compiler compiles. Plainly it takes more than there is room for."""

    def __init__(self, compiler: Made) -> None:
        self._compiler = compiler

    graph = property(lambda self: self._compiler.graph)
    compilers = property(lambda self: [self._compiler])
    plain_bytes = property(lambda self: 10**6)
    fixed_bytes = property(lambda self: 0)
    plain_seconds = property(lambda self: 1.0)


def search(solves: Offered, compiler: Made) -> GroupSearch[str, str]:
    compiler.graph = solves.graph
    whole = CompiledSearch(Step(compiler), solves.solver)
    return GroupSearch(whole, solves, ROOM, compiler, 0)


def run(solves: Offered, compiler: Made) -> Compiled[str, str]:
    """Return what the search chooses: of what fits the cheapest, else the smallest."""
    looking = search(solves, compiler)
    looking.run()
    return min(looking.fitting or looking.tried, key=lambda each: (each.price, each.temporary))


@pytest.mark.parametrize("holding", [(), ("all",), ("some", "all")])
def test_the_order_alone_is_tried_where_a_way_holds_it(holding: tuple[str, ...]) -> None:
    assert simulate(STEP, PLAIN).peak_bytes == 100
    compiler = Made(lambda schedule, way: ROOM, ("some", "all"), holding=holding)
    solves = Offered(iter([PLAIN]))
    best = run(solves, compiler)
    assert best.temporary == ROOM
    assert [way for _, way in compiler.compiled] == [holding[0] if holding else "some"]
    assert bool(solves.asked) is not bool(holding)


def test_of_what_fits_the_one_that_was_compiled_best_is_taken() -> None:
    again = longer(1)
    looking = search(Offered(iter([again, PLAIN])), Priced(lambda schedule, way: ROOM // 2))
    looking.run()
    best = looking.fitting[0]
    assert len(looking.tried) == 2 and best.schedule is again
    assert best.cost > looking.tried[1].cost and best.price < looking.tried[1].price


@pytest.mark.parametrize(("more", "cheaper"), [(1, True), (0, False)])
def test_whole_segments_are_compiled_where_they_are_cheaper(more: int, cheaper: bool) -> None:
    whole = Schedule.of(STEP, [0, 1])
    compiler = Made(lambda schedule, way: ROOM)
    best = run(Offered(iter([longer(more)]), [whole]), compiler)
    assert best.cost == 2.0
    assert any(schedule is whole for schedule, _ in compiler.compiled) is cheaper
    assert (best.schedule is whole) is cheaper


def test_whole_segments_that_would_not_fit_are_left_out() -> None:
    builder = GraphBuilder("chain")
    values = [builder.value(f"v{i}", 30, keep=i == 2) for i in range(3)]
    builder.op("make", [], [values[0]], cost=1.0)
    builder.op("more", [values[0]], [values[1]], cost=1.0)
    builder.op("use", [values[0], values[1]], [values[2]], cost=1.0)
    step = builder.build()
    # The first takes half as much again as it requests, so the second, which requests as much, would too.
    offered = [Schedule.of(step, [0] * count + [1, 2]) for count in (2, 3, 4, 5)]
    assert [simulate(step, each).peak_bytes for each in offered] == [90] * 4
    compiler = Made(lambda schedule, way: 135)
    best = run(Offered(iter([]), offered, offered[0], step), compiler)
    assert compiler.compiled == [(offered[0], "some")] and best.temporary == 135


@pytest.mark.parametrize("usual", [1, 2, 3])
def test_no_search_compiles_more_often_than_it_says(usual: int) -> None:
    """Test with a compiler that always takes a byte too much."""
    compiler = Made(lambda *_: ROOM + 1, ("some", "all"), usual=usual, holding=("some", "all"))
    solves = Offered(map(longer, range(2, 50)), list(map(longer, range(50, 59))), longer(1))
    best = run(solves, compiler)
    assert best.temporary > ROOM
    assert len(compiler.compiled) <= _most(compiler)


def test_the_way_that_took_less_before_comes_first() -> None:
    taken = {"large": ROOM + 2, "small": ROOM + 1}
    compiler = Made(lambda schedule, way: taken[way], tuple(taken), usual=2)
    run(Offered(map(longer, range(1, 99))), compiler)
    assert [way for _, way in compiler.compiled[:4]] == ["large", "small", "small", "large"]


@pytest.mark.parametrize(("near", "says_least", "ways"), [(1.3, False, 1), (2.0, False, 2), (1.3, True, 2)])
def test_what_is_far_over_the_room_is_tried_in_one_way(near: float, says_least: bool, ways: int) -> None:
    schedule = longer(1)
    compiler = Made(lambda *_: int(1.5 * ROOM), ("one", "other"), usual=2, near=near, says_least=says_least)
    run(Offered(iter([schedule] * 99), least=schedule), compiler)
    assert len(compiler.compiled) == ways


def test_what_compiles_slowly_is_told_of_before() -> None:
    assert _slow_to_compile(9.9, 24) is None
    told = _slow_to_compile(41.2, 24)
    assert told is not None and "41 s" in told and "24 times" in told


class Ending(ScheduleSolver):
    """A solver whose solves end in one way, without a schedule."""

    status = SolveStatus.LIMIT
    given: list[tuple[int, float]]

    def solve(
        self, graph: Graph, budget_bytes: int, *, start: Any = None, seconds: float | None = None
    ) -> SolveResult:
        self.given.append((budget_bytes, seconds or 0.0))
        return SolveResult(self.status, "auto", budget_bytes, graph.base_cost)


def ending(status: SolveStatus) -> tuple[Solves, list[tuple[int, float]]]:
    """Return solves of 20 s that all end so, and a list that tells of each: bytes and seconds."""
    solver = Ending("auto", SolveOptions(time_limit_s=20))
    given: list[tuple[int, float]] = []
    object.__setattr__(solver, "given", given)
    object.__setattr__(solver, "status", status)
    return Solves(training_chain(12), solver), given


def test_each_solve_that_finds_nothing_halves_the_next_one_s_time() -> None:
    solves, given = ending(SolveStatus.LIMIT)
    assert all(solves.within(budget) is None for budget in range(11))
    assert sum(seconds for _, seconds in given) < 3 * 20.0
    assert given[-1][1] == 1.25  # enough for what is found quickly


def test_a_proof_leaves_the_time_as_it_is() -> None:
    solves, given = ending(SolveStatus.INFEASIBLE)
    for budget in (1, 2, 1):
        assert solves.within(budget) is None
    assert given == [(1, 20.0), (2, 20.0)]  # and each budget is solved for once


def test_what_cannot_be_lowered_stays() -> None:
    solves, given = ending(SolveStatus.INFEASIBLE)
    known = known_minimum(solves.graph)
    assert solves.least().same_steps(known.schedule)
    asked = [budget for budget, _ in given[1:]]  # the first is for what is known
    assert given[0][0] == known.bytes
    assert asked == sorted(set(asked))  # each is for more than the one before, in which there was none
    assert len(asked) <= 5 and all(known.bound.bytes < each < known.bytes for each in asked)


def test_solving_lowers_what_a_heuristic_found(monkeypatch: pytest.MonkeyPatch) -> None:
    step = training_chain(12)
    plain, least = Schedule.plain(step), known_minimum(step)
    solver = ScheduleSolver("auto", SolveOptions(time_limit_s=5), counted=True)
    assert simulate(step, Solves(step, solver).least()).peak_bytes <= least.bytes
    # A heuristic that finds the plain order alone.
    high = simulate(step, plain).peak_bytes
    monkeypatch.setattr(ScheduleSolver, "minimum", lambda *_: replace(least, bytes=high, schedule=plain))
    solves = Solves(step, solver)
    assert simulate(step, solves.least()).peak_bytes < 0.8 * high
    asked = [result.budget_bytes for result in solves.results]
    assert asked and all(least.bound.bytes <= each <= high for each in asked)
    # What was found is known to be of a solve, for whoever tells of it.
    least_found = solves.least()
    assert any(least_found.same_steps(result.schedule) for result in solves.results)


@pytest.mark.parametrize(
    ("segments", "name", "taken"),
    [(True, "auto", "chain"), (False, "auto", "local-search"), (True, "greedy", "greedy")],
)
def test_segments_are_preferred_where_that_is_wanted_and_no_solver_was_named(
    segments: bool, name: str, taken: str
) -> None:
    solver = ScheduleSolver(name, SolveOptions(time_limit_s=1), counted=True)
    solves = Solves(training_chain(24), solver, segments)
    assert solves.within(160) is solves.results[-1].schedule is not None
    assert solves.results[-1].solver == taken
    assert any(solves.whole(160)) is (name == "auto")


def test_what_is_known_of_the_least_memory_is_told_as_it_was_solved() -> None:
    step = training_chain(12)
    solves = Solves(step, ScheduleSolver("auto", SolveOptions(time_limit_s=5), counted=True))
    least = solves.least()
    assert any(least.same_steps(result.schedule) for result in solves.results)
