from __future__ import annotations

import psutil

from checkmate.largest.measured import MeasuredSize, TriedSize, too_large
from checkmate.machine.device_memory import free_bytes


def test_free_memory_is_less_than_all_memory() -> None:
    free = free_bytes("cpu")
    assert free is not None and 0 < free <= psutil.virtual_memory().total


def test_a_budget_above_the_free_memory_is_not_tried() -> None:
    total = psutil.virtual_memory().total
    assert "this machine has" in too_large("cpu", total) and "a safe run needs" in too_large("cpu", total)
    free = free_bytes("cpu") or 0
    if free > 3 * 2**30:
        assert too_large("cpu", 2**20) == ""
    assert too_large("cpu", free), "a margin is left"


def test_the_largest_that_fits_counts_whatever_was_tried_first() -> None:
    over = TriedSize(40, why="over")
    found = MeasuredSize(
        (over, TriedSize(20, peak_bytes=1), TriedSize(30, peak_bytes=2), TriedSize(35, why="over"))
    )
    assert found.fitting is not None and found.fitting.size == 30
    assert MeasuredSize((over,)).fitting is None and MeasuredSize(note="why").fitting is None
