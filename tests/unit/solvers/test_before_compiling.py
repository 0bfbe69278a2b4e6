"""Test the first schedule on a machine that has not compiled the search."""

from __future__ import annotations

import pytest

from checkmate.ir.schedule import Schedule
from checkmate.memory.check import check
from checkmate.pipeline import keep_everything_peak, quick
from checkmate.pipeline.quick import schedule_before_compiling
from checkmate.solvers.problem import SolveOptions
from tests.graphs_strategies import training_chain

OPTIONS = SolveOptions(time_limit_s=60)


@pytest.fixture
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "is_compiled", lambda: False)


@pytest.mark.usefixtures("nothing_is_compiled")
def test_a_schedule_within_the_budget_comes_without_compiled_code() -> None:
    graph = training_chain(12)
    budget = int(0.6 * keep_everything_peak(graph))
    found = schedule_before_compiling(graph, budget, options=OPTIONS)
    assert found is not None and found.recomputations > 0
    assert check(graph, found.steps.tolist(), budget_bytes=budget).ok


@pytest.mark.usefixtures("nothing_is_compiled")
def test_where_greedy_finds_none_there_is_none() -> None:
    graph = training_chain(12)
    assert schedule_before_compiling(graph, 1, options=OPTIONS) is None


@pytest.mark.usefixtures("nothing_is_compiled")
@pytest.mark.parametrize("wish", ["no gradient twice", "a start"])
def test_what_greedy_would_not_heed_is_left_to_the_search(wish: str) -> None:
    graph = training_chain(12)
    wishes = {
        "no gradient twice": SolveOptions(recompute_gradients=False),
        "a start": SolveOptions(start=Schedule.plain(graph)),
    }
    budget = int(0.6 * keep_everything_peak(graph))
    assert schedule_before_compiling(graph, budget, options=wishes[wish]) is None


def test_a_compiled_search_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "is_compiled", lambda: True)
    graph = training_chain(12)
    budget = int(0.6 * keep_everything_peak(graph))
    assert schedule_before_compiling(graph, budget, options=OPTIONS) is None
