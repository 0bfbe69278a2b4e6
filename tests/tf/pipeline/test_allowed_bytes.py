"""Test what a budget allows the allocator to show, and what it costs to know."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from checkmate.ir import Graph
from checkmate.pipeline import measured
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
