"""Test the meter on allocations of known sizes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor
from torch.nn import functional

from tests.torch.meter import meter

MIB = 2**20


def of_mebibytes(count: int) -> Tensor:
    return torch.empty(count * MIB, dtype=torch.uint8)


def test_what_is_freed_counts_no_more() -> None:
    def one_after_another() -> Tensor:
        for size in (3, 5, 4):
            kept = of_mebibytes(size)
            del kept
        return of_mebibytes(2)

    found = meter(one_after_another)
    assert (found.peak, found.left, found.result.nbytes) == (5 * MIB, 2 * MIB, 2 * MIB)


def test_what_is_held_at_once_adds_up() -> None:
    def at_once() -> Tensor:
        first, second = of_mebibytes(3), of_mebibytes(5)
        del first
        third = of_mebibytes(1)
        del second
        return third

    found = meter(at_once)
    assert (found.peak, found.left) == (8 * MIB, MIB)


def test_what_a_backward_pass_needs_is_kept() -> None:
    x = torch.randn(MIB // 4, requires_grad=True)

    def chain() -> Tensor:
        y = x
        for _ in range(8):
            y = y.exp()  # keeps its result
        return y

    with torch.no_grad():
        assert meter(chain).peak == 2 * MIB
    found = meter(chain)
    assert (found.peak, found.left) == (8 * MIB, 8 * MIB)


def test_the_peak_inside_a_matrix_product_counts() -> None:
    a, b = torch.randn(64, 1, 32, 32), torch.randn(16, 32, 32)
    found = meter(lambda: a @ b)  # writes out both, each as often as the other asks for
    assert (found.peak, found.left) == (3 * found.result.nbytes, found.result.nbytes)


def test_the_peak_inside_a_convolution_counts() -> None:
    x, kernel = torch.randn(8, 16, 32, 32).double(), torch.randn(16, 16, 3, 3).double()
    found = meter(
        lambda: functional.conv2d(x, kernel, padding=1)
    )  # without oneDNN, by way of a matrix of all windows
    assert found.peak >= 9 * x.nbytes + found.result.nbytes
    assert found.left == found.result.nbytes


def test_a_block_of_an_earlier_run_does_not_count() -> None:
    """An address that an earlier run requested, freed since and given out anew, is nothing of this run's."""
    address = meter(lambda: of_mebibytes(64)).result.data_ptr()
    held = [of_mebibytes(64)]
    if held[0].data_ptr() != address:
        pytest.skip("the C library gave out another address")

    def free_it() -> Tensor:
        held.clear()
        return of_mebibytes(1)

    found = meter(free_it)
    assert (found.peak, found.left) == (MIB, MIB)
