"""Test the policy's code on a module: what PyTorch's allocator gives out, and the gradients."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import checkmate
from tests.torch.meter import Metered, meter
from tests.torch.models import MODELS
from tests.torch.nets import net as net


def as_given(name: str) -> tuple[Any, ...]:
    torch.manual_seed(0)
    model = MODELS[name]
    return model.make()["model"], model.inputs(0), lambda loss: loss


experts, convnext, vit, densenet = (
    partial(as_given, name) for name in ("experts", "convnext", "vit", "densenet")
)


def trained(made: tuple[Any, ...], code: str) -> tuple[Metered, list[torch.Tensor]]:
    """Run a second step with ``code`` applied; return what it held, its gradients and its buffers."""
    model, inputs, loss = made
    exec(code, {"model": model})

    def step() -> None:
        loss(model(*inputs)).backward()

    step()
    model.zero_grad(set_to_none=True)
    metered = meter(step)
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    return metered, [*gradients, *model.buffers()]


def policy_of(function: str, budget: str) -> checkmate.Policy:
    options = checkmate.SolveOptions(time_limit_s=4)
    return checkmate.policy(function, budget, costs="analytic", allow_code=True, quiet=True, options=options)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "budget", "most"),
    [
        ("net", "75%", inf),
        ("experts", "85%", 1.3),
        ("convnext", "75%", 1.3),
        ("densenet", "65%", 1.3),
        ("vit", "45%", 1.3),
    ],
)
def test_the_code_keeps_the_budget_the_gradients_and_the_averages(
    name: str, budget: str, most: float
) -> None:
    """``most``: the overhead of the policy, as a multiple of the best schedule's."""
    make = globals()[name]
    found = policy_of(f"{__file__}:{name}", budget)
    assert found.fits and found.segments and found.best.cost is not None
    assert found.overhead <= most * (found.best.cost / found.best.base_cost - 1)
    (plain, expected), (policy, same) = trained(make(), ""), trained(make(), found.code)
    everything, fixed = checkmate.keep_everything_peak(found.graph), found.graph.fixed_bytes
    assert plain.peak == pytest.approx(everything - fixed, rel=0.02)
    assert policy.peak == pytest.approx(found.peak_bytes - fixed, rel=0.01)
    assert policy.peak <= found.budget_bytes - fixed
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
    found = policy_of(f"{__file__}:changed_in_place", "70%")
    assert found.segments
    assert not {"layers"} & {segment.partition(",")[0] for segment in found.segments}  # nobody calls it
    gradients = []
    for code in ("", found.code):
        model, x = changed_in_place()
        exec(code, {"model": model})
        model(x).backward()
        gradients.append([each.grad for each in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
