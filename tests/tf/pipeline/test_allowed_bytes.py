"""Test what a budget lets the allocator show, and what that costs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from checkmate.ir import Graph
from checkmate.planning import measured
from checkmate.planning.measured_step import MeasuredStep
from checkmate.planning.verification.plain import Plain
from checkmate.units import parse_budget


class Solver:
    """Know the least memory, and count how often it was looked for."""

    asked = 0

    def minimum_bytes(self, graph: Graph) -> int:
        self.asked += 1
        return 40


@pytest.mark.parametrize(("budget", "allowed"), [("60%", 600), ("2KiB", 2048)])
def test_the_least_memory_is_not_looked_for(budget: str, allowed: int, chain: Graph) -> None:
    step, solver = SimpleNamespace(graph=chain, plain=SimpleNamespace(peak_bytes=1000)), Solver()
    assert measured._allowed_bytes(step, parse_budget(budget), solver) == allowed
    assert solver.asked == 0


def test_the_least_memory_is_the_budget(chain: Graph) -> None:
    step, solver = SimpleNamespace(graph=chain, plain=SimpleNamespace(peak_bytes=1000)), Solver()
    assert measured._allowed_bytes(step, parse_budget("min"), solver) > 40
    assert solver.asked == 1


def test_a_share_is_of_the_measured_peak_for_verify_and_export_too(chain: Graph) -> None:
    measured_plain = Plain(500, (), 4, measured=SimpleNamespace(first_peak_bytes=1000))
    step = SimpleNamespace(graph=chain, plain=measured_plain)
    assert MeasuredStep.metered_budget(step, parse_budget("60%"), SimpleNamespace()) == (600, ())
    assert MeasuredStep.metered_budget(step, parse_budget("2KiB"), SimpleNamespace()) == (2048, ())
    step.plain = Plain(500, (), 0)  # it does not fit
    allowed, notes = MeasuredStep.metered_budget(step, parse_budget("60%"), SimpleNamespace())
    assert allowed == 300 and "60 % of the plain step's predicted peak" in notes[0]
