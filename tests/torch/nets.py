"""Modules that commands load: each function returns a module, its inputs, and perhaps a loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + nn.functional.gelu(self.linear(self.norm(x)))


class Net(nn.Module):
    """It reads its last input first, and one of the three not at all."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.order = list(reversed(range(width)))
        self.layers = nn.Sequential(*(Block(width) for _ in range(6)), nn.Linear(width, 4))

    def forward(self, unread: torch.Tensor, scale: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x[:, self.order]) * scale  # the order is a constant in the graph


def net(batch_size: int = 32, width: int = 64) -> tuple[Any, ...]:
    torch.manual_seed(0)
    rows = 256 * batch_size
    labels, inputs = torch.arange(rows) % 4, (torch.ones(3), torch.rand(rows, 1), torch.randn(rows, width))
    return Net(width), inputs, lambda x: nn.functional.cross_entropy(x, labels)


def wider() -> tuple[Any, ...]:
    return net(8, 96)


def alone() -> nn.Module:
    return nn.Linear(2, 2)


def nothing() -> None:
    return None


def frozen() -> tuple[Any, ...]:
    return nn.Linear(2, 2).requires_grad_(False), torch.ones(1, 2)


def recurrent() -> tuple[Any, ...]:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lstm(x)[0].sum()

    return Last(), torch.ones(3, 1, 2)


def broken() -> tuple[Any, ...]:
    return nn.Linear(2, 2), torch.ones(1, 3)
