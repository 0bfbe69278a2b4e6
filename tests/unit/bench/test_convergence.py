"""Test the recorder of what a solver reports, with figures by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest

from checkmate.bench.common.convergence import Convergence, Recorder, convergence_of

# 120 after half a second, 101 after 2 s, 100 after 4 s: within 1 % of 100 is at most 101.
TOLD = [(0.5, 120.0), (1.0, 110.0), (2.0, 101.0), (4.0, 100.0)]


def ticking(*times: float) -> Callable[[], float]:
    """Return a clock that shows these times, one at each look."""
    remaining: Iterator[float] = iter(times)
    return lambda: next(remaining)


def test_seconds_to_first_to_one_percent_and_to_final() -> None:
    convergence = convergence_of(TOLD, [], final_cost=100.0, seconds=9.0)
    assert convergence.costs == tuple(TOLD)
    assert (
        convergence.seconds_to_first,
        convergence.seconds_to_within(0.01),
        convergence.seconds_to_final,
    ) == (
        0.5,
        2.0,
        4.0,
    )
    assert convergence.seconds_to_within(0.2) == 0.5
    assert convergence.final_cost == 100.0


@pytest.mark.parametrize(
    ("seconds", "cost"), [(0.3, None), (0.5, 120.0), (0.99, 120.0), (1.0, 110.0), (3.0, 101.0), (10.0, 100.0)]
)
def test_the_cost_after_so_many_seconds(seconds: float, cost: float | None) -> None:
    assert convergence_of(TOLD, [], final_cost=100.0, seconds=9.0).cost_after(seconds) == cost


def test_news_without_improvement_do_not_count() -> None:
    told = [(1.0, 110.0), (2.0, 110.0), (3.0, 115.0), (4.0, 100.0)]
    assert convergence_of(told, [], final_cost=100.0, seconds=5.0).costs == ((1.0, 110.0), (4.0, 100.0))


def test_a_silent_solver_has_its_cost_at_the_end() -> None:
    convergence = convergence_of([], [], final_cost=70.0, seconds=0.25)
    assert convergence.costs == ((0.25, 70.0),)
    assert convergence.seconds_to_first == convergence.seconds_to_final == 0.25


def test_an_unreported_last_improvement_counts_at_the_end() -> None:
    assert convergence_of([(1.0, 110.0)], [], final_cost=100.0, seconds=6.0).costs == (
        (1.0, 110.0),
        (6.0, 100.0),
    )


def test_a_reported_cost_that_is_not_returned_does_not_count() -> None:
    convergence = convergence_of([(1.0, 110.0), (2.0, 90.0)], [], final_cost=110.0, seconds=6.0)
    assert convergence.costs == ((1.0, 110.0),)


def test_rounding_of_the_last_digit_is_no_improvement() -> None:
    convergence = convergence_of([(1.0, 100.0 + 1e-10)], [], final_cost=100.0, seconds=6.0)
    assert convergence.seconds_to_final == 1.0 and len(convergence.costs) == 1


def test_without_a_schedule() -> None:
    convergence = convergence_of([], [(0.1, 60.0), (0.3, 50.0), (0.4, 65.0)], final_cost=None, seconds=6.0)
    assert convergence == Convergence((), ((0.1, 60.0), (0.4, 65.0)))
    assert (
        convergence.final_cost
        is convergence.seconds_to_first
        is convergence.seconds_to_final
        is convergence.cost_after(9.0)
        is None
    )


def test_the_recorder_looks_at_its_clock() -> None:
    heard: list[float] = []
    recorder = Recorder(clock=ticking(100.0, 100.5, 102.0, 103.0, 109.0), told=heard.append)
    recorder.incumbent([0, 1], 120.0)
    recorder.bound(80.0, ())
    recorder.incumbent([1, 0], 100.0)
    recorder.bound(math.inf, ())  # says that there is no schedule; does not look at the clock
    convergence = recorder.convergence(final_cost=100.0, seconds=recorder.seconds)
    assert convergence == Convergence(((0.5, 120.0), (3.0, 100.0)), ((2.0, 80.0),))
    assert heard == [120.0, 100.0]
    assert [incumbent.steps.tolist() for incumbent in recorder.incumbents] == [[0, 1], [1, 0]]


def test_the_recorder_passes_on_the_request_to_stop() -> None:
    assert not Recorder().cancelled()
    assert Recorder(cancelled=lambda: True).cancelled()
