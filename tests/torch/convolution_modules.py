"""Networks of convolutions to train: a ResNet, a DenseNet, a U-Net, a ConvNeXt, a VAE and a GAN's two."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


def convolution(inputs: int, outputs: int, size: int = 3, stride: int = 1) -> nn.Module:
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.first_norm = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.second, self.second_norm = convolution(outputs, outputs), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs or stride != 1:
            fitting = convolution(inputs, outputs, 1, stride)
            self.shortcut = nn.Sequential(fitting, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        y += self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    """Returns logits; the training loop computes the loss."""

    def __init__(self, widths: tuple[int, ...], depth: int, classes: int) -> None:
        super().__init__()
        start = widths[0]
        self.stem = nn.Sequential(convolution(3, start), nn.BatchNorm2d(start), nn.ReLU(inplace=True))
        blocks = [Residual(start, start, 1)]
        for inputs, outputs in pairwise((start, *widths)):
            if inputs != outputs:
                blocks.append(Residual(inputs, outputs, 2))
            blocks += (Residual(outputs, outputs, 1) for _ in range(depth - 1))
        self.blocks = nn.Sequential(*blocks)
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(widths[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.pool(self.blocks(self.stem(images))).flatten(1))


class DenseLayer(nn.Module):
    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.narrow_norm, self.narrow = nn.BatchNorm2d(inputs), convolution(inputs, 4 * growth, 1)
        self.norm, self.convolution = nn.BatchNorm2d(4 * growth), convolution(4 * growth, growth)

    def forward(self, features: list[Tensor]) -> Tensor:
        x = self.narrow(functional.relu(self.narrow_norm(torch.cat(features, 1))))
        return self.convolution(functional.relu(self.norm(x)))


class DenseBlock(nn.Module):
    """Each layer reads what came in and what all layers before it made."""

    def __init__(self, inputs: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DenseLayer(inputs + i * growth, growth) for i in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, 1)


class DenseNet(nn.Module):
    def __init__(self, start: int, growth: int, blocks: int, layers: int, classes: int) -> None:
        super().__init__()
        parts, width = [convolution(3, start)], start
        for i in range(blocks):
            if i:
                narrower = width // 2
                parts += [nn.BatchNorm2d(width), nn.ReLU(), convolution(width, narrower, 1), nn.AvgPool2d(2)]
                width = narrower
            parts.append(DenseBlock(width, growth, layers))
            width += layers * growth
        self.features = nn.Sequential(*parts, nn.BatchNorm2d(width), nn.ReLU())
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.head(self.features(images).mean((2, 3))), labels)


def twice(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        convolution(inputs, outputs),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        convolution(outputs, outputs),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """Returns the logits of each pixel; the training loop computes the loss."""

    def __init__(self, widths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(twice(*each) for each in pairwise((3, *widths)))
        up = list(pairwise(reversed(widths)))
        self.wider = nn.ModuleList(nn.ConvTranspose2d(low, high, 2, 2) for low, high in up)
        self.up = nn.ModuleList(twice(2 * high, high) for _, high in up)
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, images: Tensor) -> Tensor:
        x, skipped = images, []
        for i, part in enumerate(self.down):
            x = part(functional.max_pool2d(x, 2) if i else x)
            skipped.append(x)
        skipped.pop()
        for wider, part in zip(self.wider, self.up, strict=True):
            x = part(torch.cat([skipped.pop(), wider(x)], 1))
        return self.head(x)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int, dropped: float) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-2))
        self.dropped = dropped

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = (self.scale * self.narrow(functional.gelu(self.wide(y)))).permute(0, 3, 1, 2)
        return x + self._in_some_samples(y)

    def _in_some_samples(self, y: Tensor) -> Tensor:
        """Stochastic depth: the block is left out of some samples, and counts the more in the others."""
        if not self.training or not self.dropped:
            return y
        kept = 1 - self.dropped
        return y * y.new_empty(len(y), 1, 1, 1).bernoulli_(kept).div_(kept)


class ConvNeXt(nn.Module):
    def __init__(self, widths: tuple[int, ...], depth: int, classes: int) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Conv2d(3, widths[0], 2, 2)]
        for i, width in enumerate(widths):
            if i:
                parts += [nn.GroupNorm(1, widths[i - 1]), nn.Conv2d(widths[i - 1], width, 2, 2)]
            rates = (0.1 * (i * depth + j) for j in range(depth))
            parts += (ConvNeXtBlock(width, rate) for rate in rates)
        self.features = nn.Sequential(*parts)
        self.norm, self.head = nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.head(self.norm(self.features(images).mean((2, 3)))), labels)


class VAE(nn.Module):
    """Of images whose sides are ``size`` pixels."""

    def __init__(self, widths: tuple[int, ...], size: int, hidden: int) -> None:
        super().__init__()
        down: list[nn.Module] = []
        for inputs, outputs in pairwise((3, *widths)):
            down += [nn.Conv2d(inputs, outputs, 4, 2, 1), nn.GroupNorm(4, outputs), nn.SiLU()]
        up: list[nn.Module] = []
        for inputs, outputs in pairwise(reversed(widths)):
            up += [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1), nn.GroupNorm(4, outputs), nn.SiLU()]
        side = size // 2 ** len(widths)
        self.encoder = nn.Sequential(*down, nn.Flatten())
        self.mean = nn.Linear(widths[-1] * side**2, hidden)
        self.log_variance = nn.Linear(widths[-1] * side**2, hidden)
        self.start = nn.Linear(hidden, widths[-1] * side**2)
        unflattened = nn.Unflatten(1, (widths[-1], side, side))
        self.decoder = nn.Sequential(unflattened, *up, nn.ConvTranspose2d(widths[0], 3, 4, 2, 1))

    def forward(self, images: Tensor) -> Tensor:
        x = self.encoder(images)
        mean, log_variance = self.mean(x), self.log_variance(x)
        drawn = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        logits = self.decoder(self.start(drawn))
        wrong = functional.binary_cross_entropy_with_logits(logits, images, reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return (wrong + divergence) / len(images)


class Generator(nn.Module):
    def __init__(self, hidden: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        parts = [nn.ConvTranspose2d(hidden, widths[0], 4, 1, 0, bias=False)]
        for inputs, outputs in pairwise(widths):
            parts += [nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)]
            parts.append(nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False))
        self.layers = nn.Sequential(*parts, nn.Tanh())

    def forward(self, noise: Tensor) -> Tensor:
        return self.layers(noise[:, :, None, None])


class Discriminator(nn.Module):
    """Returns one logit for each image; the training loop computes the losses."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            parts.append(nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False))
            if parts[1:]:
                parts.append(nn.BatchNorm2d(outputs))
            parts.append(nn.LeakyReLU(0.2, inplace=True))
        self.layers = nn.Sequential(*parts, nn.Conv2d(widths[-1], 1, 4))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).flatten()
