"""Twelve small training steps, of the kinds that people train."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, AdamW, Optimizer

from tests.torch.attention_modules import BERT, GPT, PADDING, MixtureOfExperts, Translator, ViT
from tests.torch.convolution_modules import (
    VAE,
    ConvNeXt,
    DenseNet,
    Discriminator,
    Generator,
    ResNet,
    UNet,
)

Modules = dict[str, nn.Module]
Inputs = tuple[Tensor, ...]
Losses = Iterator[tuple[str, Tensor]]


def called(modules: Modules, inputs: Inputs) -> Losses:
    """The step of a module that computes its loss itself."""
    yield "model", modules["model"](*inputs)


@dataclass(frozen=True)
class Model:
    """``step`` yields a module's name and a loss; whoever asks for the next one has gone backward from that
    loss and updated that module. Each module has an optimizer of its own.
    """

    name: str
    make: Callable[[], Modules]
    inputs: Callable[[int], Inputs]  # of a seed
    optimizer: Callable[[Iterator[nn.Parameter]], Optimizer]
    step: Callable[[Modules, Inputs], Losses] = called


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tokens(seed: int, *shape: int, vocabulary: int) -> Tensor:
    """None of them is padding."""
    return torch.randint(PADDING + 1, vocabulary, shape, generator=seeded(seed))


def padded(sequences: Tensor) -> Tensor:
    """Sequences of other lengths: the first whole, the last of half the length."""
    count, length = sequences.shape
    lengths = torch.linspace(length, length // 2, count).long()
    return sequences.where(torch.arange(length) < lengths[:, None], PADDING)


def next_tokens(seed: int, batch: int, length: int, vocabulary: int) -> Inputs:
    drawn = tokens(seed, batch, length + 1, vocabulary=vocabulary)
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


def masked_tokens(seed: int, batch: int, length: int, vocabulary: int) -> Inputs:
    """Sequences in which every seventh token is masked by the last id, and what stood there."""
    whole = padded(tokens(seed, batch, length, vocabulary=vocabulary - 1))
    masked = (torch.arange(length) % 7 == 3) & (whole != PADDING)
    return whole.where(~masked, vocabulary - 1), whole.where(masked, -100)


def sentence_pairs(seed: int, batch: int, length: int, vocabulary: int) -> Inputs:
    source, target = tokens(seed, 2, batch, length, vocabulary=vocabulary)
    return padded(source), padded(target)


def images(seed: int, batch: int, size: int) -> Tensor:
    return torch.randn(batch, 3, size, size, generator=seeded(seed))


def labelled_images(seed: int, batch: int, size: int) -> Inputs:
    return images(seed, batch, size), torch.randint(10, (batch,), generator=seeded(seed))


def labelled_pixels(seed: int, batch: int, size: int) -> Inputs:
    return images(seed, batch, size), torch.randint(4, (batch, size, size), generator=seeded(seed))


def images_and_noise(seed: int, batch: int, size: int, hidden: int) -> Inputs:
    return images(seed, batch, size).tanh(), torch.randn(batch, hidden, generator=seeded(seed + 1))


def classified(modules: Modules, inputs: Inputs) -> Losses:
    """The step of a module that returns logits."""
    x, labels = inputs
    yield "model", functional.cross_entropy(modules["model"](x), labels)


def adversarial(modules: Modules, inputs: Inputs) -> Losses:
    real, noise = inputs
    discriminator, made = modules["discriminator"], modules["generator"](noise)
    of_real, of_made = discriminator(real), discriminator(made.detach())
    yield "discriminator", functional.softplus(-of_real).mean() + functional.softplus(of_made).mean()
    # Going backward from this adds to the discriminator's gradients too; its next update forgets them.
    yield "generator", functional.softplus(-discriminator(made)).mean()


class LanguageModel(nn.Module):
    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, dropout=0.2, batch_first=True)
        self.dropout, self.head = nn.Dropout(0.2), nn.Linear(width, vocabulary)

    def forward(self, given: Tensor, wanted: Tensor) -> Tensor:
        x, _ = self.lstm(self.dropout(self.token(given)))
        return functional.cross_entropy(self.head(self.dropout(x)).flatten(0, 1), wanted.flatten())


def one(module: Callable[[], nn.Module]) -> Modules:
    return {"model": module()}


def gan() -> Modules:
    return {
        "generator": Generator(32, (64, 48, 32, 24, 3)),
        "discriminator": Discriminator((3, 24, 32, 48, 64)),
    }


_ALL = (
    Model(
        "gpt",
        partial(one, lambda: GPT(512, 96, 128, 4, 4)),
        partial(next_tokens, batch=8, length=96, vocabulary=512),
        partial(AdamW, lr=1e-3),
    ),
    Model(
        "bert",
        partial(one, lambda: BERT(512, 64, 128, 4, 4)),
        partial(masked_tokens, batch=8, length=64, vocabulary=512),
        partial(AdamW, lr=1e-3),
    ),
    Model(
        "vit",
        partial(one, lambda: ViT(32, 4, 128, 4, 4, 10)),
        partial(labelled_images, batch=16, size=32),
        partial(AdamW, lr=1e-3),
    ),
    Model(
        "resnet",
        partial(one, lambda: ResNet((24, 48, 96), 2, 10)),
        partial(labelled_images, batch=24, size=32),
        partial(SGD, lr=0.1, momentum=0.9, weight_decay=1e-4),
        classified,
    ),
    Model(
        "densenet",
        partial(one, lambda: DenseNet(24, 12, 3, 4, 10)),
        partial(labelled_images, batch=8, size=32),
        partial(SGD, lr=0.1, momentum=0.9, nesterov=True),
    ),
    Model(
        "unet",
        partial(one, lambda: UNet((16, 32, 64), 4)),
        partial(labelled_pixels, batch=8, size=64),
        partial(Adam, lr=1e-3),
        classified,
    ),
    Model(
        "convnext",
        partial(one, lambda: ConvNeXt((48, 96), 2, 10)),
        partial(labelled_images, batch=20, size=32),
        partial(AdamW, lr=1e-3),
    ),
    Model(
        "lstm",
        partial(one, lambda: LanguageModel(512, 128)),
        partial(next_tokens, batch=24, length=64, vocabulary=512),
        partial(SGD, lr=1.0),
    ),
    Model(
        "experts",
        partial(one, lambda: MixtureOfExperts(512, 96, 4, 3, 4)),
        partial(next_tokens, batch=16, length=64, vocabulary=512),
        partial(Adam, lr=1e-3),
    ),
    Model(
        "vae",
        partial(one, lambda: VAE((32, 64, 64), 64, 16)),
        lambda seed: (images(seed, batch=24, size=64).sigmoid(),),
        partial(Adam, lr=1e-3),
    ),
    Model(
        "gan",
        gan,
        partial(images_and_noise, batch=36, size=64, hidden=32),
        partial(Adam, lr=2e-4),
        adversarial,
    ),
    Model(
        "translator",
        partial(one, lambda: Translator(512, 48, 128, 4, 2)),
        partial(sentence_pairs, batch=12, length=48, vocabulary=512),
        partial(Adam, lr=1e-3),
    ),
)
MODELS: dict[str, Model] = {model.name: model for model in _ALL}
