"""Test what a budget lets the allocator show, and what that costs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from checkmate.backends.tf import executor_step
from checkmate.backends.tf.executor_step import ExecutorStep
from checkmate.backends.tf.plain import Plain
from checkmate.backends.tf.tf_step import TracedStep
from checkmate.ir import Graph
from checkmate.planning import exporting, known_minimum, solve
from checkmate.planning.exporting import StepPlanning
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.planning.solving import Minimum
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions
from checkmate.units import parse_budget


def step(
    graph: Graph,
    plain: Plain,
    monkeypatch: pytest.MonkeyPatch,
    supplied: Any = None,
    *,
    taken_out: bool = False,
) -> StepPlanning:
    """Return the planning of a step whose plain step was measured as ``plain``."""
    monkeypatch.setattr(executor_step, "measure_plain", lambda *_, **__: plain)
    folded: Any = SimpleNamespace(graph=graph, traced=SimpleNamespace(taken_out=taken_out))
    traced = TracedStep(ModelRequest("any"), folded, supplied)
    return StepPlanning(ExecutorStep(traced, silent, never), ScheduleSolver("greedy", SolveOptions()))


def measured(peak_bytes: int) -> Plain:
    shown: Any = SimpleNamespace(first_peak_bytes=peak_bytes, requested_peak_bytes=peak_bytes // 2)
    return Plain(500, (), 4, measured=shown)


@pytest.mark.parametrize(("budget", "allowed", "looks"), [("60%", 600, 0), ("2KiB", 2048, 0), ("min", 40, 1)])
def test_the_least_memory_is_looked_for_only_where_it_is_the_budget(
    budget: str, allowed: int, looks: int, chain: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Graph] = []

    def least(graph: Graph, **options: Any) -> Minimum:
        asked.append(graph)
        return known_minimum(graph, **options)

    monkeypatch.setattr(exporting, "known_minimum", least)
    found = step(chain, measured(1000), monkeypatch).allowed(parse_budget(budget))
    assert len(asked) == looks
    assert found.bytes > allowed if looks else found.bytes == allowed
    assert found.notes == ()


@pytest.mark.parametrize(("written", "allowed", "notes"), [(700, 420, 1), (1300, 600, 0)])
def test_a_share_is_of_the_step_as_written_where_that_takes_less(
    written: int, allowed: int, notes: int, chain: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = measured(written).measured
    monkeypatch.setattr(executor_step, "measure_fresh", lambda *_, as_written, **__: as_written and shown)
    planning = step(chain, measured(1000), monkeypatch, taken_out=True)
    found = planning.allowed(parse_budget("60%"))
    assert found.bytes == allowed and len(found.notes) == notes
    assert planning.allowed(parse_budget("2KiB")).notes == ()


def test_a_share_is_of_the_predicted_peak_where_the_plain_step_does_not_fit(
    chain: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = step(chain, Plain(500, (), 0), monkeypatch).allowed(parse_budget("60%"))
    assert found.bytes == 300 and "60 % of the plain step's predicted peak" in found.notes[0]


@pytest.mark.parametrize(("seen", "rate", "word"), [(True, 2, "shows"), (False, 10, "should show")])
def test_a_schedule_s_own_budget_counts_at_the_plain_step_s_rate(
    seen: bool, rate: int, word: str, chain: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    supplied = solve(chain, 60, solver="greedy")
    plain = measured(1000) if seen else Plain(10 * 90, (), 0)  # of a plain order that requests 90 bytes
    found = step(chain, plain, monkeypatch, supplied).allowed(None)
    assert found.bytes == rate * 60
    assert (
        f"60 B counts requested bytes; the plain step's allocator {word} {rate:.3f} bytes" in found.notes[0]
    )
