"""Tiny modules that hold what is hard to schedule."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Views(nn.Module):
    """Split, unbind, chunk, transposes, expand, a tied weight, an arange, indexing and where."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(20, 8), nn.Embedding(6, 8)
        self.parts, self.scale = nn.Linear(8, 24), nn.Parameter(torch.ones(1, 1, 8))
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        a, b, c = self.parts(x).chunk(3, -1)
        d, e = torch.tanh(a).split([3, 5], -1)
        rows = torch.sigmoid(b.transpose(1, 2)).unbind(2)
        x = torch.cat([e * 2, d], -1) + torch.stack(rows, 1) * self.scale.expand(*c.shape)
        x = torch.where(x > 0, x, c.exp())[:, torch.arange(4, -1, -2)]
        return self.head(x).flatten(0, 1)


class Noise(nn.Module):
    """Two dropouts, whose draws have an order, and batch norm with running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 40), nn.Linear(40, 40)
        self.norm, self.first, self.second = nn.BatchNorm1d(40), nn.Dropout(0.3), nn.Dropout(0.5)
        self.count = nn.Buffer(torch.ones(40))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(torch.tanh(self.a(x)))
        x = self.norm(x) * self.count.exp()
        self.count.add_(1)
        return self.second(self.b(x).sin()).exp()


class Outputs(nn.Module):
    """An output that is a view of an input, one that is an input, several of one op, unused ones, and ops in
    place.
    """

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        y = self.norm(self.a(x)).tanh() + 0
        y[:, 1].mul_(2)
        y = y.relu_() + 1
        best, where = y.topk(3, -1)
        kept, order = y.max(-1).values, y.sort(-1).indices
        several = y.exp().unbind(0)
        masked = y.sin().masked_fill_(ids[:, None] > order, 0.5)
        picked = masked.gather(1, where)
        return best * picked.cos(), kept, several[1], y.t(), x.view(-1), x, ids, where


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        parts = self.parts(x).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, 8))
        return functional.cross_entropy(x.flatten(0, 1), torch.arange(batch * length) % 8)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.a(x)), inplace=True)
        x = functional.max_pool2d(x + self.b(x), 2)
        return self.head(x.mean((2, 3)))


class DrawForBackward(torch.autograd.Function):
    """It draws in the forward pass what only the backward pass reads, and draws again there."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(torch.rand_like(x))
        return x * 2

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        (drawn,) = ctx.saved_tensors
        return torch.rand_like(drawn) + gradient * drawn


class OddDraws(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.dropout = nn.Linear(5, 50), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = DrawForBackward.apply(self.a(x).tanh())
        x = self.dropout(x).exp() + torch.bernoulli(x.detach().sigmoid())
        return DrawForBackward.apply(x)


def small_modules() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """Modules with inputs for them."""
    drawn = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    return {
        "views": (Views(), (torch.randint(20, (4, 6), generator=drawn),)),
        "noise": (Noise(), (torch.randn(70, 6, generator=drawn),)),
        "outputs": (Outputs(), (torch.randn(5, 6, generator=drawn), torch.randint(5, (5,), generator=drawn))),
        "attention": (Attention(), (torch.randn(2, 5, 8, generator=drawn),)),
        "convolutions": (Convolutions(), (torch.randn(3, 2, 6, 6, generator=drawn),)),
        "odd draws": (OddDraws(), (torch.randn(60, 5, generator=drawn),)),
    }
