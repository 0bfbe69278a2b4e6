"""Test the second core's turns.

The prover keeps the core while its bound rises or is near the cost, and always gets it back.
"""

from __future__ import annotations

import math

from checkmate.solvers.portfolio.turns import SecondCore

FAR, COST = 100.0, 110.0  # a bound that lacks more than a hundredth of the cost


def turns(bounds: list[float | None], cost: float = COST) -> list[bool]:
    """Return who has the core after each time (True: the search).

    The question is asked ten times a second, with one bound each.
    """
    core = SecondCore(begun=0.0)
    held = []
    for nth, bound in enumerate(bounds):
        before = core.searches
        assert core.changes(bound, cost, now=0.1 * nth) == (core.searches != before)
        held.append(core.searches)
    return held


def test_a_prover_that_has_no_bound_yet_is_left_alone() -> None:
    assert not any(turns([None] * 200))
    assert not any(turns([FAR] * 200, cost=math.inf))


def test_a_rising_bound_keeps_the_core_and_a_standing_one_gives_it_away() -> None:
    assert not any(turns([FAR + 0.05 * nth for nth in range(150)]))
    assert any(turns([FAR + 0.0001 * nth for nth in range(50)]))


def test_a_bound_that_is_near_keeps_the_core() -> None:
    assert not any(turns([COST * 0.995] * 200))


def test_the_prover_gets_it_back_after_twice_its_own_turn() -> None:
    held = turns([FAR] * 200)
    first = held.index(True)
    back = held.index(False, first)
    assert 15 <= first <= 17  # one and a half seconds of quiet
    assert abs((back - first) - 2 * first) <= 1
    again = held.index(True, back)
    assert 59 <= again - back <= 62  # four times as long: a program takes its time


def test_a_turn_that_raised_the_bound_comes_back_after_its_own_length() -> None:
    held = turns([FAR] + [FAR + 1.0] * 100)
    first = held.index(True)
    back = held.index(False, first)
    assert 16 <= first <= 18
    assert abs((back - first) - first) <= 1
