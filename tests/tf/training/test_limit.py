"""Test how the limit of a training rises whose budget is a share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from checkmate.training import limit as limits
from checkmate.training.limit import Limit, Phases, RisingLimit
from checkmate.units import Budget


@pytest.fixture
def rising(monkeypatch: pytest.MonkeyPatch) -> RisingLimit:
    """Return the limit of a training within 60 %; a step is what it requests."""
    monkeypatch.setattr(limits, "_everything", lambda step: step)
    request: Any = SimpleNamespace(budget=Budget(share=0.6))
    return RisingLimit(request, Phases())


def told(rising: RisingLimit, requests: int, limit: Limit) -> bool:
    step: Any = requests
    assert rising.tells(step)
    would_be = rising.would_be(limit, None)
    rose = rising.told(step, limit)
    assert rising.now == would_be and not rising.tells(step)
    return rose


def test_a_larger_step_raises_it(rising: RisingLimit) -> None:
    assert told(rising, 100, Limit(60, "first", others=10))
    assert told(rising, 200, Limit(130, "second", others=20))
    assert rising.now == Limit(130, "second", others=20)


def test_it_does_not_rise_because_others_hold_more(rising: RisingLimit) -> None:
    told(rising, 100, Limit(60, "first", others=10))
    assert not told(rising, 101, Limit(90, "second", others=40))
    assert rising.now == Limit(60, "first", others=10)
    assert told(rising, 102, Limit(56, "third", others=0))


@pytest.mark.parametrize(("peak", "found"), [(75, 75), (76, 150), (150, 150), (151, 75)])
def test_a_later_phase_may_take_what_an_earlier_one_took(peak: int, found: int) -> None:
    """Check that what others hold is told from what the steps take.

    The earlier phase had 90 bytes for its step, and the later one has 15 beside 60 bytes of others.
    """
    phases = Phases()
    phases.note(Limit(100, "the first", others=10))
    own = Limit(75, "its own", others=60)
    plain: Any = SimpleNamespace(measured=True, peak_bytes=peak)
    assert phases.widened(own, None) == own
    widened = phases.widened(own, plain)
    assert (widened.bytes, widened.others) == (found, 60)


@pytest.mark.parametrize(("peak", "found"), [(60, 60), (61, 100), (100, 100), (101, 60)])
def test_limits_in_bytes_are_of_all_that_is_held(peak: int, found: int) -> None:
    phases, plain = Phases(), SimpleNamespace(measured=True, peak_bytes=peak)
    phases.note(Limit(100))
    assert phases.widened(Limit(60), plain).bytes == found  # type: ignore[arg-type]
