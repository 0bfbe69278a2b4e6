"""Test the policy's code on a module: what PyTorch's allocator gives out, and the gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import checkmate
from tests.torch.meter import Metered, meter
from tests.torch.nets import net

NETS = Path(__file__).with_name("nets.py")


def trained(code: str) -> tuple[Metered, list[torch.Tensor]]:
    """Run a second step of the net with ``code`` applied; return what it held, its gradients and buffers."""
    model, inputs, loss = net()
    exec(code, {"model": model})

    def step() -> None:
        loss(model(*inputs)).backward()

    step()
    model.zero_grad(set_to_none=True)
    metered = meter(step)
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    return metered, [*gradients, *model.buffers()]


@pytest.mark.heavy
def test_the_code_keeps_the_budget_the_gradients_and_the_averages() -> None:
    found = checkmate.policy(
        f"{NETS}:net",
        "75%",
        costs="analytic",
        allow_code=True,
        quiet=True,
        options=checkmate.SolveOptions(time_limit_s=2),
    )
    assert found.fits and all(name.startswith("layers.") for name in found.segments)
    assert "BatchNorm" in repr(net()[0])
    (plain, expected), (policy, same) = trained(""), trained(found.code)
    everything, fixed = checkmate.keep_everything_peak(found.graph), found.graph.fixed_bytes
    assert plain.peak == pytest.approx(everything - fixed, rel=0.02)
    assert policy.peak == pytest.approx(found.peak_bytes - fixed, rel=0.02)
    assert all(torch.equal(one, other) for one, other in zip(expected, same, strict=True))


def changed_in_place() -> tuple[Any, ...]:
    """Return a module that is given a list, which grows later, and that changes its own values in place."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.relu = nn.Linear(8, 8), nn.ReLU(inplace=True)

        def forward(self, rows: list[torch.Tensor]) -> torch.Tensor:
            return self.linear(self.relu(self.linear(torch.stack(rows).sum(0))).exp())

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = [x]
            for layer in self.layers:
                rows.append(layer(rows))
            return torch.stack(rows).sum()

    torch.manual_seed(0)
    return Network(), torch.randn(64, 8)


def test_a_growing_list_and_changes_in_place_are_no_harm() -> None:
    function = f"{__file__}:changed_in_place"
    found = checkmate.policy(
        function,
        "70%",
        costs="analytic",
        allow_code=True,
        quiet=True,
        options=checkmate.SolveOptions(time_limit_s=2),
    )
    assert found.segments
    assert not {"layers"} & {segment.partition(",")[0] for segment in found.segments}  # nobody calls it
    gradients = []
    for code in ("", found.code):
        model, x = changed_in_place()
        exec(code, {"model": model})
        model(x).backward()
        gradients.append([each.grad for each in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
