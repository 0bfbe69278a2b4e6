"""Test what must be true of every answer, on random graphs and with every kind of solver."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.invariants.__main__ import _write, held_before
from tests.invariants.hold import hold_many
from tests.tried import Record

EACH = 40


def test_a_record_goes_on_from_another(tmp_path: Path) -> None:
    held = hold_many(7, 1)
    held.broken.append("seed 7: a fault")
    _write(tmp_path / "first.json", Record.begin("test"), held, "1 graph")
    again = held_before(tmp_path / "first.json")
    assert again == held
    again.add(held)
    assert sum(again.tried.values()) == 2 * sum(held.tried.values())


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
