"""Test sizes, budgets and durations as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.presenters.axes import nice_ticks
from checkmate.errors import BudgetBelowMinimumError
from checkmate.units import (
    Budget,
    byte_unit,
    format_bytes,
    format_bytes_apart,
    format_bytes_up,
    format_overhead,
    format_seconds,
    parse_budget,
    parse_bytes,
    round_values,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("6.5GiB", 6979321856),
        ("6979321856", 6979321856),
        ("6.5G", 6979321856),
        ("16GB", 16 * 10**9),
        ("800M", 800 * 2**20),
        ("1 kib", 1024),
        (" 12 kB ", 12000),
        ("9007199254740993", 9007199254740993),
        ("1e3", 1000),
        ("0", 0),
        (".5k", 512),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["6.5 potatoes", "", "GiB", "-1", "nan", "inf", "1,5G", "1.2.3"])
def test_texts_that_are_not_sizes(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"cannot read .* as a size; write it like 6\.5GiB, 16GB, 800M or 6979321856"
    ):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["1e300", "99999999999T"])
def test_more_than_any_memory(text: str) -> None:
    with pytest.raises(ValueError, match="is larger than any memory"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.6", "0.6 is neither a size nor a share; write 60% for a share of the plain peak, or 0.6GiB"),
        (" 6.5 ", "6.5 is neither a size nor a share; write 6.5GiB"),
    ],
)
def test_a_fraction_without_a_unit_is_no_budget(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_budget(text)


def test_budgets() -> None:
    assert parse_budget("60%") == Budget(share=0.6)
    assert parse_budget(" 62.5 % ") == Budget(share=0.625)
    assert parse_budget("min") == parse_budget("MIN") == Budget()
    assert parse_budget("6.5GiB") == Budget(bytes_=6979321856)


def test_a_budget_in_potatoes() -> None:
    with pytest.raises(ValueError, match="potatoes") as caught:
        parse_budget("6.5 potatoes")
    assert str(caught.value) == (
        "cannot read '6.5 potatoes' as a budget; write it like 6.5GiB, 16GB, 60% (of the plain peak) or min"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-3GiB", "a budget of -3GiB is not positive; write it like 6.5GiB"),
        ("-60%", "a budget of -60% is not positive"),
        ("0", "a budget of 0 leaves no memory at all"),
        ("0%", "a budget of 0% leaves no memory at all"),
        ("110%", "a budget of 110% is more than keeping everything takes; write 100% or less"),
    ],
)
def test_sizes_and_shares_that_are_no_budget(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_budget(text)
    assert parse_budget("100%") == Budget(share=1.0)


def test_resolving_a_budget() -> None:
    ends = {"keep_everything_peak": 1000, "minimum": 300}
    assert parse_budget("60%").resolve(**ends) == 600
    assert parse_budget("70%").resolve(keep_everything_peak=90, minimum=0) == 63
    assert parse_budget("min").resolve(**ends) == 300
    assert parse_budget("5000").resolve(**ends) == 5000


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (17, "17 B"),
        (999, "999 B"),
        (1000, "0.98 KiB"),
        (6979321856, "6.50 GiB"),
        (994050048, "948 MiB"),
    ],
)
def test_wording_of_sizes(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.314, "1.31 s"),
        (0.0024, "2.4 ms"),
        (85e-6, "85 µs"),
        (200.0, "3 min 20 s"),
        (0.0, "0 µs"),
        (119.9, "120 s"),
        (0.99996, "1 s"),
        (999.9e-6, "1 ms"),
    ],
)
def test_wording_of_durations(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_wording_of_overhead() -> None:
    assert format_overhead(1.077, 1.0) == "+7.70 %"
    assert format_overhead(1.0, 1.0) == "+0.00 %"
    assert format_overhead(1 - 1e-9, 1.0) == "+0.00 %"  # a sum in another order
    assert format_overhead(0.9, 1.0) == "-10.00 %"  # an impossible cost: to be seen, not hidden
    assert format_overhead(0.0, 0.0) == "+0 %"


@given(st.integers(0, 10**15))
def test_a_size_rounded_up_is_enough_and_little_more(count: int) -> None:
    asked = parse_bytes(format_bytes_up(count))
    assert count <= asked <= 1.011 * count + 1


@given(st.integers(0, 10**12), st.integers(-(10**6), 10**6))
def test_two_sizes_are_told_apart(one: int, more: int) -> None:
    other = max(0, one + more)
    first, second = format_bytes_apart(one, other)
    assert (first == second) == (one == other)


def test_a_budget_just_below_the_minimum_says_so() -> None:
    error = BudgetBelowMinimumError(budget=26_843_000, needed=26_843_545, op="mul")
    assert "26,843,000 B is below the 26,843,545 B" in str(error) and "at least 25.6 MiB" in error.hint
    assert parse_bytes(error.hint.split("at least ")[1].split(",")[0]) >= 26_843_545


@pytest.mark.parametrize(
    ("peak", "unit"), [(0, "B"), (2047, "B"), (2048, "KiB"), (3 * 2**20, "MiB"), (2**44, "TiB")]
)
def test_the_largest_unit_of_which_there_are_two(peak: int, unit: str) -> None:
    assert byte_unit(peak)[0] == unit


def test_where_no_round_value_fits_a_scale_still_has_one_tick() -> None:
    assert round_values(3.3, 3.3, 5) == [] and nice_ticks(3.3, 3.3, 5) == [3.3]
