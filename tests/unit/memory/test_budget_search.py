"""Test what the search for a solver's budget tries next.

It is told what was solved and what the meter showed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from checkmate.memory.budget_search import BudgetSearch, Candidate

ALLOWED = 1000


def solved(peak: int, cost: float = 2.0) -> Any:
    return SimpleNamespace(peak_bytes=peak, cost=cost)


def test_one_solve_and_one_measurement_after_another() -> None:
    """Test the search as training runs it. The meter shows 1.1 bytes for each predicted one."""
    search = BudgetSearch(ALLOWED, 900, base_cost=1.0, solves=1)
    shown: list[int] = []
    while not shown or shown[-1] > ALLOWED:
        found = search.found(solved(search.target), int(1.05 * search.target))
        assert search.settled and search.candidate is found
        shown.append(int(1.1 * found.expected))
        search.measured(found, shown[-1])
        assert not search.settled
    assert len(shown) == 2 and shown[-1] > 0.95 * ALLOWED


def test_a_round_ends_where_the_limit_is_nearly_used() -> None:
    search = BudgetSearch(ALLOWED, 900, base_cost=1.0)
    search.found(solved(900), 950)
    assert not search.settled and search.target > 900
    search.found(solved(930, cost=1.5), 980)
    assert search.settled and search.candidate is not None and search.candidate.cost == 1.5


def test_nothing_is_cheaper_than_computing_everything_once() -> None:
    search = BudgetSearch(ALLOWED, 900, base_cost=2.0)
    search.found(solved(500, cost=2.0), 500)
    assert search.settled


@pytest.mark.parametrize("target", [700, ALLOWED - 1])
def test_the_limit_itself_is_tried_once_if_nothing_was_found(target: int) -> None:
    search = BudgetSearch(ALLOWED, target, base_cost=1.0)
    search.found_nothing()
    assert search.target == ALLOWED and not search.settled
    search.found_nothing()
    assert search.settled and search.candidate is None


@pytest.mark.parametrize("solves", [1, 3, 6])
def test_a_round_has_no_more_solves_than_it_may(solves: int) -> None:
    search, done = BudgetSearch(ALLOWED, 900, base_cost=1.0, solves=solves), 0
    while not search.settled:
        search.found(solved(search.target), 10 * ALLOWED - done)
        done += 1
    assert done == solves
    assert search.candidate is not None and search.candidate.expected == 10 * ALLOWED - done + 1


def test_a_target_is_never_at_or_below_one_without_a_schedule() -> None:
    search = BudgetSearch(ALLOWED, 900, base_cost=1.0)
    search.found(solved(900), 1500)  # over by more than half of it
    floor = search.target
    search.found_nothing()
    assert floor < search.target < 900


def test_a_given_schedule_may_be_over_by_the_error_of_a_prediction() -> None:
    search = BudgetSearch(ALLOWED, 900, base_cost=1.0)
    assert search.is_worth_measuring(Candidate(900, solved(900), 1020))
    assert not search.is_worth_measuring(Candidate(900, solved(900), 1021))
