"""Test the search for a schedule that keeps a budget once it is compiled.

The compiler is made: it takes a share of the graph's bytes.
"""

from __future__ import annotations

import pytest

from checkmate.ir import Graph, GraphBuilder, Schedule
from checkmate.memory.compiling import Compiler, CompilingSearch, slow_to_compile
from checkmate.memory.simulate import simulate

ROOM = 90  # of the 100 bytes that the plain order holds: near enough for the order alone


def graph() -> Graph:
    builder = GraphBuilder("two")
    first = builder.value("first", 60)
    builder.op("make", [], [first], cost=1.0)
    builder.op("use", [first], [builder.value("second", 40, keep=True)], cost=1.0)
    return builder.build()


@pytest.mark.parametrize("holding", [(), ("all",), ("some", "all")])
def test_the_order_alone_is_tried_where_a_way_holds_it(holding: tuple[str, ...]) -> None:
    step = graph()
    plain = Schedule.plain(step)
    assert simulate(step, plain).peak_bytes == 100
    compiled: list[str] = []
    solved: list[int] = []

    def compile_it(schedule: Schedule, way: str) -> tuple[str, int]:
        compiled.append(way)
        return way, ROOM

    def solve(asked: int) -> Schedule:
        solved.append(asked)
        return plain

    compiler = Compiler(("some", "all"), 1, lambda way: way in holding, compile_it, solve, lambda: None)
    best = CompilingSearch(step, ROOM, 1.0, compiler).run()
    assert best is not None and best.temporary == ROOM
    assert compiled == [holding[0] if holding else "some"]
    assert bool(solved) is not bool(holding)


def test_of_what_fits_the_one_that_was_compiled_best_is_taken() -> None:
    step = graph()
    plain, again = Schedule.plain(step), Schedule.of(step, [0, 0, 1])
    given = [again, plain]
    compiler = Compiler(
        ("some",),
        1,
        lambda way: False,
        lambda schedule, way: (len(schedule.steps), ROOM // 2),
        lambda asked: given.pop(0) if given else None,
        lambda: None,
        lambda schedule, made: -float(made),
    )
    search = CompilingSearch(step, ROOM, 1.0, compiler)
    best = search.run()
    assert best is not None and len(search.tried) == 2 and best.schedule is again
    assert best.cost > search.tried[1].cost and best.price < search.tried[1].price


@pytest.mark.parametrize(("solved", "cheaper"), [(3.0, True), (2.0, False)])
def test_whole_segments_are_compiled_where_they_are_cheaper(solved: float, cheaper: bool) -> None:
    step = graph()
    given = [Schedule.of(step, [0] * int(solved - 1) + [1])]
    whole = Schedule.of(step, [0, 1])
    compiled: list[Schedule] = []

    def compile_it(schedule: Schedule, way: str) -> tuple[str, int]:
        compiled.append(schedule)
        return way, ROOM

    compiler = Compiler(
        ("some",),
        1,
        lambda way: False,
        compile_it,
        lambda asked: given.pop() if given else None,
        lambda: None,
        whole=lambda asked: [whole],
    )
    best = CompilingSearch(step, ROOM, 1.0, compiler).run()
    assert best is not None and best.cost == 2.0
    assert (whole in compiled) is cheaper and (best.schedule is whole) is cheaper


def test_whole_segments_that_would_not_fit_are_left_out() -> None:
    builder = GraphBuilder("chain")
    values = [builder.value(f"v{i}", 30, keep=i == 2) for i in range(3)]
    builder.op("make", [], [values[0]], cost=1.0)
    builder.op("more", [values[0]], [values[1]], cost=1.0)
    builder.op("use", [values[0], values[1]], [values[2]], cost=1.0)
    step = builder.build()
    # The first takes half as much again as it requests, so the second, which requests as much, would too.
    offered = [Schedule.of(step, [0] * count + [1, 2]) for count in (2, 3, 4, 5)]
    requested = [simulate(step, each).peak_bytes for each in offered]
    assert requested == [90] * 4
    compiled: list[Schedule] = []

    def compile_it(schedule: Schedule, way: str) -> tuple[str, int]:
        compiled.append(schedule)
        return way, 135

    compiler = Compiler(
        ("some",),
        1,
        lambda way: False,
        compile_it,
        lambda asked: None,
        lambda: None,
        whole=lambda asked: offered,
    )
    best = CompilingSearch(step, ROOM, 1.0, compiler).run()
    assert compiled == offered[:1] and best is not None and best.temporary == 135


@pytest.mark.parametrize("usual", [1, 2, 3])
def test_no_search_compiles_more_often_than_it_says(usual: int) -> None:
    """Test with a compiler that always takes a byte too much."""
    step = graph()
    compiled: list[str] = []
    longer = (Schedule.of(step, [0] * count + [1]) for count in range(2, 100))

    def compile_it(schedule: Schedule, way: str) -> tuple[str, int]:
        compiled.append(way)
        return way, ROOM + 1

    compiler = Compiler(
        ("some", "all"),
        usual,
        lambda way: True,
        compile_it,
        lambda asked: next(longer),
        lambda: next(longer),
        whole=lambda asked: [next(longer) for _ in range(9)],
    )
    best = CompilingSearch(step, ROOM, 1.0, compiler).run()
    assert best is not None and best.temporary > ROOM
    assert len(compiled) <= compiler.most


def test_the_way_that_took_less_before_comes_first() -> None:
    step = graph()
    compiled: list[str] = []
    longer = (Schedule.of(step, [0] * count + [1]) for count in range(2, 100))
    taken = {"large": ROOM + 2, "small": ROOM + 1}

    def compile_it(schedule: Schedule, way: str) -> tuple[str, int]:
        compiled.append(way)
        return way, taken[way]

    solve = lambda asked: next(longer)  # noqa: E731
    compiler = Compiler(tuple(taken), 2, lambda way: False, compile_it, solve, lambda: None)
    CompilingSearch(step, ROOM, 1.0, compiler).run()
    assert compiled[:4] == ["large", "small", "small", "large"]


@pytest.mark.parametrize(("near", "says_least", "ways"), [(1.3, False, 1), (2.0, False, 2), (1.3, True, 2)])
def test_what_is_far_over_the_room_is_tried_in_one_way(near: float, says_least: bool, ways: int) -> None:
    step = graph()
    compiled: list[str] = []
    schedule = Schedule.of(step, [0, 0, 1])

    def compile_it(schedule: Schedule, way: str) -> tuple[str, int]:
        compiled.append(way)
        return way, int(1.5 * ROOM)

    compiler = Compiler(
        ("one", "other"),
        2,
        lambda way: False,
        compile_it,
        lambda asked: schedule,
        lambda: None,
        near=near,
        says_least=says_least,
    )
    CompilingSearch(step, ROOM, 1.0, compiler).run()
    assert len(compiled) == ways


def test_what_compiles_slowly_is_told_of_before() -> None:
    assert slow_to_compile(9.9, 24) is None
    told = slow_to_compile(41.2, 24)
    assert told is not None and "41 s" in told and "24 times" in told
