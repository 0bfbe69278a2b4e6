"""Test what a module with ``torch.utils.checkpoint`` in it holds, and that a lost one is found."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from checkmate.planning.memory_growth import growth
from checkmate.planning.step_memory import StepMemory, step_memory
from checkmate.request import ModelRequest
from tests.torch.meter import meter


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(torch.tanh(torch.sin(self.wide(x))))


class Network(nn.Module):
    def __init__(self, lost: int | None) -> None:
        super().__init__()
        self.blocks, self.lost = nn.ModuleList(Block() for _ in range(4)), lost

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, block in enumerate(self.blocks):
            x = block(x) if number == self.lost else checkpoint(block, x, use_reentrant=False)
        return x.square().mean()


def made(lost: int | None) -> tuple[Any, ...]:
    return Network(lost), torch.randn(512, 64)


all_again, one_lost = partial(made, None), partial(made, 2)


def held(function: str) -> StepMemory:
    return step_memory(ModelRequest(f"{__file__}:{function}", allow_code=True, name="network"), quiet=True)


def test_a_lost_checkpoint_is_named_by_its_module() -> None:
    before, now = held("all_again"), held("one_lost")
    for memory, make in ((before, all_again), (now, one_lost)):
        model, x = make()

        def step(model: nn.Module = model, x: torch.Tensor = x) -> None:
            model(x).backward()

        step()
        model.zero_grad(set_to_none=True)
        seen = meter(step).peak + sum(memory.fixed.values())
        assert memory.peak_bytes == pytest.approx(seen, rel=0.03)
    found = growth(before, now)
    assert found.now.peak_bytes > 1.2 * found.before.peak_bytes
    lost = [each.name for each in found.grown if "no longer computed again" in each.why]
    assert lost == [each.name for each in found.grown[: len(lost)]]  # first
    assert {name.partition(".")[2][0] for name in lost} == {"2"}
    assert growth(before, held("all_again")).grown == ()
