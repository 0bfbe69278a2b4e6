"""Test that the allocator's replica hands out TensorFlow's chunks."""

from __future__ import annotations

import pytest

from checkmate.backends.tf.tasks import run_task
from checkmate.memory.bfc import Bfc, Request
from checkmate.progress import never, silent
from tests.zoo.names import zoo_request

MIB = 1 << 20


def test_regions_double_in_size_and_grow_to_large_requests() -> None:
    allocator = Bfc()
    assert (
        allocator.allocate(0, 4_000_000) == 4 * MIB
    )  # the first region grows to the requested size; 4 MiB < 2 × 4,000,000
    assert allocator.allocate(1, 4_000_000) == 4 * MIB
    assert allocator.allocate(2, 1) == 256  # of a region of 8 MiB
    assert allocator.in_use == allocator.peak == 8 * MIB + 256


def test_a_chunk_is_split_only_if_it_is_twice_as_large() -> None:
    allocator = Bfc()
    assert allocator.allocate(0, 2 * MIB) == 2 * MIB
    allocator.release(0)
    assert allocator.allocate(1, MIB + 256) == 2 * MIB
    allocator.release(1)
    assert allocator.allocate(2, MIB) == MIB


def test_free_neighbours_merge() -> None:
    allocator = Bfc()
    for handle in range(4):
        allocator.allocate(handle, MIB // 2)
    for handle in (0, 2, 1, 3):
        allocator.release(handle)
    assert allocator.allocate(4, 2 * MIB) == 2 * MIB
    assert allocator.in_use == allocator.peak == 2 * MIB


def test_the_smallest_chunk_that_fits_is_taken() -> None:
    allocator = Bfc()
    sizes = [MIB // 2, MIB // 8, MIB // 4, MIB // 8, MIB]
    for handle, size in enumerate(sizes):
        allocator.allocate(handle, size)
    allocator.release(0)
    allocator.release(2)
    assert allocator.allocate(5, MIB // 4) == MIB // 4
    assert allocator.allocate(6, MIB // 4) == MIB // 4  # half of the remaining half


def test_empty_requests_and_unknown_handles_are_ignored() -> None:
    allocator = Bfc()
    assert allocator.allocate(0, 0) == 0
    allocator.release(0)
    allocator.release(17)
    assert allocator.play([Request(1, 300), Request(1, 0)]) == 512
    assert allocator.in_use == 0


@pytest.mark.heavy
def test_history_of_a_fresh_process_ends_at_the_meters_value() -> None:
    request = zoo_request("two_io", device="cpu")
    task = {"do": "measure", "request": request.to_json(), "steps": None, "runs": 1, "history": True}
    found = run_task(task, message="", report=silent, cancelled=never)
    allocator = Bfc()
    allocator.play(Request(handle, size) for handle, size in found["history"])
    assert 0 < allocator.in_use <= found["first_peak_bytes"]
    assert sum(bool(size) for _, size in found["history"]) >= 1


def test_the_bytes_that_a_card_lacks_are_missing() -> None:
    card = Bfc(capacity=1 << 20)
    assert card.play([Request(handle, 300 << 10) for handle in range(3)]) == 1 << 20 and card.missing == 0
    card.play([Request(3, 300 << 10)])  # goes on, to find how much is missing in all
    assert card.missing == 300 << 10
    assert Bfc(capacity=1 << 20).play([Request(1, 3 << 20)]) == 3 << 20
