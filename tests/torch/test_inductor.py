"""Test schedules whose halves Inductor compiles."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch._inductor import config

import checkmate
import checkmate.torch
from checkmate.errors import UsageError
from tests.torch.attention_modules import GPT
from tests.torch.meter import meter
from tests.torch.models import next_tokens

BESIDE = 1024  # bytes: what autograd and the loss take
compiles = pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def trained(model: nn.Module, called: nn.Module) -> tuple[list[float], list[torch.Tensor]]:
    losses = []
    for seed in range(2):
        model.zero_grad()
        torch.manual_seed(seed)
        loss = called(*next_tokens(seed, 8, 32, 64))
        loss.backward()
        losses.append(loss.item())
    return losses, [each.grad for each in model.parameters()]


def small_gpt() -> GPT:
    torch.manual_seed(0)
    return GPT(64, 32, 32, 2, 2)


@compiles
@pytest.mark.heavy
def test_a_compiled_schedule_trains_as_inductor_does_within_its_budget() -> None:
    model, options = small_gpt(), checkmate.SolveOptions(time_limit_s=1)
    found = checkmate.torch.backend("65%", compiler="inductor", options=options, cache=False, quiet=True)
    called = torch.compile(model, backend=found, dynamic=False)
    losses, gradients = trained(model, called)
    (plan,) = found.plans
    assert plan.schedule.recomputations and plan.peak_bytes <= plan.budget_bytes
    model.zero_grad()
    inputs = next_tokens(0, 8, 32, 64)
    shown = meter(lambda: called(*inputs).backward()).peak
    assert shown <= plan.peak_bytes - plan.region.graph.fixed_bytes + BESIDE
    with config.patch(fallback_random=True):  # it draws as PyTorch's own kernels do, like ours
        wanted, exact = trained(model, torch.compile(model, dynamic=False))
    torch.testing.assert_close(losses, wanted)
    torch.testing.assert_close(gradients, exact)


@compiles
@pytest.mark.heavy
def test_symbolic_sizes_train_as_inductor_trains_them() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
    found = checkmate.torch.backend(compiler="inductor", cache=False)
    compiled = torch.compile(model, backend=found, dynamic=True)
    for rows in (4, 5):
        gradients = []
        for called in (model, compiled):
            model.zero_grad()
            called(torch.ones(rows, 8)).square().sum().backward()
            gradients.append([each.grad for each in model.parameters()])
        torch.testing.assert_close(*gradients)
    assert not found.plans


def test_no_other_compiler_is_known() -> None:
    with pytest.raises(UsageError, match="no compiler is called 'xla'"):
        checkmate.torch.backend(compiler="xla")
