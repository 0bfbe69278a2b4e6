"""Test what the benchmark against PyTorch's own ways counts, and that its ways train the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional

from tests.benchmarks import torch as benchmark
from tests.benchmarks.torch_flops import eager_flops_of, flops_of
from tests.benchmarks.torch_ways import checkpointed, halved, torch_partition

WIDTH, BATCH, DEPTH = 32, 64, 6
PRODUCT = 2 * BATCH * WIDTH**2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.dense(x)).tanh()


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def chain() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(DEPTH)))


def trained(module: nn.Module, called: nn.Module) -> list[torch.Tensor]:
    module.zero_grad()
    x = torch.linspace(-1, 1, BATCH * WIDTH).reshape(BATCH, WIDTH)
    called(x).sum().backward()
    return [each.grad for each in module.parameters()]


def test_two_counters_of_an_eager_step_agree() -> None:
    torch.manual_seed(0)
    narrow = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2)
    wide, dense = nn.ConvTranspose2d(8, 4, 2, 2, bias=False), nn.Linear(4, 16)
    x = torch.randn(2, 4, 8, 8)

    def step() -> None:
        y = wide(narrow(x)).flatten(2).transpose(1, 2)  # 2 × 64 × 4
        y = dense(y).unflatten(-1, (2, 8)).transpose(1, 2)
        functional.scaled_dot_product_attention(y, y, y).sum().backward()

    assert flops_of(step) == eager_flops_of(step)
    with torch.no_grad():
        attention = torch.randn(2, 2, 64, 8)
        forward = partial(functional.scaled_dot_product_attention, attention, attention, attention)
        assert flops_of(forward) == 2 * 2 * (2 * 2 * 64 * 64 * 8)


def test_what_is_recomputed_counts() -> None:
    plain, again = chain(), checkpointed(chain())
    products = 3 * DEPTH - 1  # the inputs have no gradient
    assert eager_flops_of(lambda: trained(plain, plain)) == products * PRODUCT
    assert eager_flops_of(lambda: trained(again, again)) == (products + DEPTH) * PRODUCT


def test_halves_of_pytorch_recompute_batch_norm() -> None:
    """Without copies of its statistics autograd refuses them."""
    plain, module = chain(), chain()
    run = halved(partial(torch_partition, 0.1))(module)
    assert all(map(torch.equal, trained(module, run), trained(plain, plain)))
    more = flops_of(lambda: trained(module, run)) - eager_flops_of(lambda: trained(plain, plain))
    assert 0 < more <= DEPTH * PRODUCT


def test_a_budget_names_the_peers_that_it_stands_beside() -> None:
    assert benchmark.targets([1000, 990, 800, 799, 500, 1200], 1000) == [1000, 799, 500]
    rows = [
        {"way": "eager", "peak_bytes": 1000},
        *({"way": way, "peak_bytes": 400, "within": 500} for way in ("ours", "ours, flops")),
        {"way": "ours", "peak_bytes": 800, "within": 800},
    ]
    assert benchmark.within(rows, 700) == rows[1:3]
    assert benchmark.within(rows, 800) == [rows[3], None]
    assert benchmark.within(rows, 499) == [None, None]
