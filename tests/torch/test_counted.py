"""Test the operations that are counted where an op cannot be timed."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import scaled_dot_product_attention

from checkmate.backends.torch.graph import counted


def test_attention_counts_its_two_products_on_a_cpu() -> None:
    x = torch.randn(2, 3, 16, 8, requires_grad=True)

    def step(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(scaled_dot_product_attention(x, x, x).sum(), x)[0]

    nodes = make_fx(step, tracing_mode="fake")(x).graph.nodes
    found = {str(node.target): counted(node) for node in nodes if "attention" in str(node.target)}
    product = 2 * 2 * 3 * 16 * 16 * 8
    assert found == {
        "aten._scaled_dot_product_flash_attention_for_cpu.default": 2 * product,
        "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": 5 * product,
    }
