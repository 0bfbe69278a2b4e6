"""Test when a solve for a step that is measured has settled."""

from __future__ import annotations

import math

import pytest

from checkmate.ir import Graph
from checkmate.planning import progress_listener
from checkmate.planning.progress_listener import UntilSettled
from checkmate.progress import never, silent


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress_listener.time, "monotonic", lambda: now[0])
    return now


def test_a_proof_that_little_is_left(chain: Graph) -> None:
    base = chain.base_cost
    solve = UntilSettled(chain, silent, never, math.inf)
    solve.bound(1.05 * base, ())
    assert not solve.cancelled()
    solve.incumbent([], 1.0512 * base)
    assert not solve.cancelled()
    solve.incumbent([], 1.0509 * base)
    assert solve.cancelled()


def test_no_gain_that_matters(chain: Graph, clock: list[float]) -> None:
    base = chain.base_cost
    solve = UntilSettled(chain, silent, never, 5.0)
    clock[0] = 100.0
    assert not solve.cancelled(), "it has nothing yet"
    solve.incumbent([], 1.2 * base)
    clock[0] = 104.0
    assert not solve.cancelled()
    solve.incumbent([], 1.1 * base)
    clock[0] = 108.0
    solve.incumbent([], 1.0995 * base)  # too little to go on for
    assert not solve.cancelled()
    solve.preparing("compiling")
    clock[0] = 112.0
    assert not solve.cancelled(), "compiling is not searching"
    clock[0] = 113.1
    assert solve.cancelled()


def test_the_user_s_wish(chain: Graph) -> None:
    assert UntilSettled(chain, silent, lambda: True, math.inf).cancelled()
