"""Test the policy's code on a module: what PyTorch's allocator gives out, and the gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

import checkmate
from tests.torch.meter import Metered, meter
from tests.torch.nets import net

NETS = Path(__file__).with_name("nets.py")


def trained(code: str) -> tuple[Metered, list[torch.Tensor]]:
    """Run a second step of the net with ``code`` applied; return what it held, and its gradients."""
    model, inputs, loss = net()
    exec(code, {"model": model})

    def step() -> None:
        loss(model(*inputs)).backward()

    step()
    model.zero_grad(set_to_none=True)
    return meter(step), [each.grad for each in model.parameters() if each.grad is not None]


@pytest.mark.heavy
def test_the_code_keeps_the_budget_and_the_gradients() -> None:
    found = checkmate.policy(
        f"{NETS}:net",
        "75%",
        costs="analytic",
        allow_code=True,
        quiet=True,
        options=checkmate.SolveOptions(time_limit_s=2),
    )
    assert found.fits and all(name.startswith("layers.") for name in found.segments)
    (plain, gradients), (policy, same) = trained(""), trained(found.code)
    everything, fixed = checkmate.keep_everything_peak(found.graph), found.graph.fixed_bytes
    assert plain.peak == pytest.approx(everything - fixed, rel=0.02)
    assert policy.peak == pytest.approx(found.peak_bytes - fixed, rel=0.02)
    assert all(torch.equal(one, other) for one, other in zip(gradients, same, strict=True))
