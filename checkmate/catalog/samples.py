"""The sample models by name, and what the start page shows of the bundled graphs.

``python -m resources.make_samples`` made the table of the graphs: neither TensorFlow nor numpy is needed
here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from checkmate.catalog.bundled import resource


@dataclass(frozen=True)
class Sample:
    """``input_shape``: without the batch. ``batch_size``: what a laptop trains in about a second and half a
    gigabyte."""

    name: str
    description: str
    input_shape: tuple[int, ...]
    batch_size: int


SAMPLES: tuple[Sample, ...] = (
    Sample(
        "unet", "U-Net: convolutional encoder and decoder with skip connections, BatchNorm", (128, 128, 3), 8
    ),
    Sample("resnet", "Small residual network, three stages of four blocks", (96, 96, 3), 16),
    Sample("mobilenet", "Depthwise separable convolutions, BatchNorm, ReLU6", (128, 128, 3), 16),
    Sample("transformer", "Transformer encoder with dropout, six blocks", (128,), 8),
    Sample("lstm", "Convolutions and two LSTM layers, a label for every time step", (256, 64), 16),
)


def find_sample(name: str) -> Sample | None:
    return next((sample for sample in SAMPLES if sample.name == name), None)


_TABLE = ("tables", "samples.json")
_LISTS = ("plain_bytes", "kept_bytes", "steps")


@dataclass(frozen=True)
class ShownSample:
    """A bundled graph: what it shows, and two of its memory curves, in live bytes per step. ``kept_bytes``
    are those of a schedule within ``share`` of the peak of ``plain_bytes``, whose cost is ``extra_cost`` more
    (a fraction). ``proved``: no schedule within that memory costs less."""

    graph: str
    title: str
    shows: str
    share: float
    batch_size: int
    ops: int
    cost_origin: str
    extra_cost: float
    proved: bool
    plain_bytes: tuple[int, ...]
    kept_bytes: tuple[int, ...]
    steps: tuple[int, ...]


def shown_samples() -> tuple[ShownSample, ...]:
    rows: list[dict[str, Any]] = json.loads(resource(*_TABLE).read_text(encoding="utf-8"))["samples"]
    return tuple(ShownSample(**{**row, **{name: tuple(row[name]) for name in _LISTS}}) for row in rows)
