"""Test how far what two steps came to is apart."""

from __future__ import annotations

import numpy as np
import pytest

from checkmate.backends.outcomes import Outcome, compared, difference, relative_error

INFINITE = float("inf")


def outcome(**values: np.ndarray) -> Outcome:
    return Outcome(None, tuple(values), list(values.values()))


def test_a_gradient_that_is_zero_but_for_rounding_is_no_alarm() -> None:
    """Compare a bias before a normalization, and a kernel. The gradient of the bias is rounding alone."""
    kernel, bias = np.full(100, 3.0, np.float32), np.array([1e-7, -2e-7], np.float32)
    plain = outcome(kernel=kernel, bias=bias)
    name, error = difference(outcome(kernel=kernel, bias=-bias), plain).largest
    assert name == "bias" and 0 < error < 1e-7
    found = difference(outcome(kernel=kernel * 1.1, bias=bias), plain)
    assert found.largest == ("kernel", pytest.approx(0.1, rel=1e-4)) and found.where == "kernel"
    assert difference(outcome(), outcome()).largest == ("", 0.0)


def test_each_kind_of_difference_is_found() -> None:
    weights, count = np.float32([1, -2]), np.int32(3)
    plain = outcome(weights=weights, count=count)
    assert difference(plain, plain).bitwise and difference(plain, plain).count == 2
    found = difference(outcome(weights=np.float32([1, -2.2]), count=count), plain)
    assert not found.bitwise and found.whole_equal and found.where == "weights"
    assert found.worst == found.overall == pytest.approx(0.2 / 5**0.5, rel=1e-5)
    assert not difference(outcome(weights=weights, count=np.int32(4)), plain).whole_equal
    broken = difference(outcome(weights=np.float32([1, np.nan]), count=count), plain)
    assert broken.worst == broken.overall == INFINITE


def test_what_is_not_finite_in_both_is_the_same() -> None:
    strange = np.float32([np.nan, np.inf, -0.0])
    assert difference(outcome(x=strange), outcome(x=strange.copy())).bitwise
    assert relative_error(strange, strange, 1.0) == 0.0
    assert relative_error(np.float32([np.inf]), np.float32([-np.inf]), 1.0) == INFINITE


def test_complex_numbers_are_compared_whole() -> None:
    found = difference(outcome(x=np.complex64([1 + 1j])), outcome(x=np.complex64([1])))
    assert found.overall == pytest.approx(1.0)


def test_a_step_is_compared_with_two_runs_of_the_plain_one() -> None:
    plain = Outcome(0.5, ["w"], [np.float32([1.0])], [np.float32([2.0])], 2)
    again = Outcome(0.5, ["w"], [np.float32([1.5])], [np.float32([2.0])], 2)
    moved = Outcome(0.25, ["w"], [np.float32([2.0])], [np.float32([3.0])], 2)
    found = compared(plain, again, moved)
    assert found["plain_rerun_relative_error"] == 0.5 and found["worst"] == {
        "name": "w",
        "relative_error": 1.0,
    }
    assert not found["bitwise"] and not found["state_bitwise"] and found["steps"] == 2
    assert found["loss"] == {"plain": 0.5, "optimized": 0.25}
