"""Test what must be true of every answer, on random graphs and with every kind of solver.

``pytest -m long tests/invariants`` tries ten thousand.
"""

from __future__ import annotations

import pytest

from tests.invariants.hold import hold_many

EACH = 40


@pytest.mark.heavy
@pytest.mark.parametrize("part", range(5))
def test_two_hundred_graphs(part: int) -> None:
    held = hold_many(part * EACH, EACH)
    assert held.broken == [] and sum(held.tried.values()) > 10 * EACH


@pytest.mark.long
@pytest.mark.parametrize("part", range(100))
def test_ten_thousand_graphs(part: int) -> None:
    held = hold_many(100 * part, 100)
    assert held.broken == []
