"""Transformers to train: a GPT, a BERT, a ViT, a mixture of experts and a translator."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

PADDING = 0  # the id of the token that fills a sequence up


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, *, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=dropout, is_causal=self.causal
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a feed-forward part, each normalized first and added to what came in."""

    def __init__(self, attention: nn.Module, feed_forward: nn.Module, width: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(width), attention
        self.norm, self.feed_forward = nn.LayerNorm(width), feed_forward
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.feed_forward(self.norm(x)))


def feed_forward(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, length: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.dropout = nn.Dropout(0.1)
        self.blocks = nn.ModuleList(
            Block(SelfAttention(width, heads, dropout=0.1, causal=True), feed_forward(width), width, 0.1)
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.token(tokens) + self.position(places))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class BERT(nn.Module):
    """An encoder that says which tokens were masked; ``targets`` are -100 elsewhere."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.position = nn.Embedding(length, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, functional.gelu, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.norm(self.token(tokens) + self.position(places)))
        x = self.encoder(x, src_key_padding_mask=tokens == PADDING)
        logits = self.head(self.transform(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


class ViT(nn.Module):
    def __init__(self, size: int, patch: int, width: int, heads: int, depth: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.summary = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, width))
        blocks = (Block(SelfAttention(width, heads), feed_forward(width), width, 0.0) for _ in range(depth))
        self.blocks = nn.Sequential(*blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.summary.expand(len(x), -1, -1), x], dim=1) + self.position
        return functional.cross_entropy(self.head(self.norm(self.blocks(x))[:, 0]), labels)


class Experts(nn.Module):
    """A feed-forward part of which two experts, chosen for each token, do the work.

    Every expert sees every token, and those not chosen count nothing: all shapes are known beforehand.
    """

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
            for _ in range(experts)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the experts made of it, and a loss that is least where each has as much to do."""
        scores = self.gate(x)
        best, chosen = scores.topk(2, dim=-1)
        weights = torch.zeros_like(scores).scatter(-1, chosen, best.softmax(-1))
        mixed = sum(weights[..., i, None] * expert(x) for i, expert in enumerate(self.experts))
        share = (weights > 0).to(x.dtype).mean((0, 1))
        return mixed, len(self.experts) * (share * scores.softmax(-1).mean((0, 1))).sum()


class MixtureOfExperts(nn.Module):
    def __init__(self, vocabulary: int, width: int, heads: int, depth: int, experts: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.attention = nn.ModuleList(SelfAttention(width, heads, causal=True) for _ in range(depth))
        self.experts = nn.ModuleList(Experts(width, experts) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth + 1))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x, balance = self.token(tokens), torch.zeros((), device=tokens.device)
        for i, (attention, experts) in enumerate(zip(self.attention, self.experts, strict=True)):
            x = x + attention(self.norms[2 * i](x))
            mixed, unevenness = experts(self.norms[2 * i + 1](x))
            x, balance = x + mixed, balance + unevenness
        logits = self.head(self.norms[-1](x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten()) + 0.01 * balance


class Translator(nn.Module):
    """The source's embedding, the target's and the output are one weight."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.source = nn.Embedding(vocabulary, width)
        self.target = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.source.weight, std=width**-0.5)
        self.target.weight = self.head.weight = self.source.weight
        self.transformer = nn.Transformer(width, heads, depth, depth, 4 * width, 0.1, batch_first=True)
        self.transformer.encoder.enable_nested_tensor = False
        self.dropout, self.scale = nn.Dropout(0.1), math.sqrt(width)
        self.register_buffer("position", _sinusoids(length, width))
        self.register_buffer("later", torch.ones(length, length, dtype=torch.bool).triu(1))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        given, wanted = target[:, :-1], target[:, 1:]
        length, padding = given.shape[1], source == PADDING
        x = self.transformer(
            self.dropout(self.source(source) * self.scale + self.position[: source.shape[1]]),
            self.dropout(self.target(given) * self.scale + self.position[:length]),
            tgt_mask=self.later[:length, :length],
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_key_padding_mask=given == PADDING,
            tgt_is_causal=True,
        )
        logits = self.head(x).flatten(0, 1)
        return functional.cross_entropy(logits, wanted.flatten(), ignore_index=PADDING, label_smoothing=0.1)


def _sinusoids(length: int, width: int) -> Tensor:
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
