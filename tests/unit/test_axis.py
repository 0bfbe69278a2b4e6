"""Round values and the unit of bytes for an axis."""

from __future__ import annotations

import pytest

from app.presenters.axes import nice_ticks
from checkmate.units import byte_unit, round_values


@pytest.mark.parametrize(
    ("peak", "unit"), [(0, "B"), (2047, "B"), (2048, "KiB"), (3 * 2**20, "MiB"), (2**44, "TiB")]
)
def test_the_largest_unit_of_which_there_are_two(peak: int, unit: str) -> None:
    assert byte_unit(peak)[0] == unit


def test_where_no_round_value_fits_a_scale_still_has_one_tick() -> None:
    assert round_values(3.3, 3.3, 5) == [] and nice_ticks(3.3, 3.3, 5) == [3.3]
