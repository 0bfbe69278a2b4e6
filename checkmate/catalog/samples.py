"""The sample models by name, and what the start page shows of the bundled graphs.

``checkmate.models.sample_networks`` builds the models in code, and ``python -m resources.make_samples`` made
the table of the graphs, so that neither TensorFlow nor numpy is needed here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from checkmate.catalog.bundled import resource


@dataclass(frozen=True)
class Sample:
    """Describe one sample model.

    ``input_shape``: without the batch; ``--input-shape`` may replace it. ``batch_size``: what a laptop trains
    in about a second per step and half a gigabyte.
    """

    name: str
    description: str
    input_shape: tuple[int, ...]
    batch_size: int

    def to_json(self) -> dict[str, Any]:
        """Return the sample as a row of ``checkmate list models --json``."""
        return {
            "name": self.name,
            "description": self.description,
            "kind": "model",
            "input_shape": list(self.input_shape),
            "batch_size": self.batch_size,
        }


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
    """Return the sample called ``name``, if there is one."""
    return next((sample for sample in SAMPLES if sample.name == name), None)


_TABLE = ("tables", "samples.json")
_LISTS = ("plain_bytes", "kept_bytes", "steps")


@dataclass(frozen=True)
class ShownSample:
    """A bundled graph: what it shows, and two of its memory curves.

    ``graph`` is its name, as commands accept it; ``shows`` says in a sentence or two what is to be seen.
    ``plain_bytes`` are the live bytes of each step that keeps everything; ``kept_bytes`` those of a schedule
    within ``share`` of that peak, whose cost is ``extra_cost`` more than computing everything once (a
    fraction). ``proved``: no schedule within that memory costs less. ``cost_origin``: how costs are known.
    """

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
    """Return the bundled graphs in the order of the start page."""
    rows: list[dict[str, Any]] = json.loads(resource(*_TABLE).read_text(encoding="utf-8"))["samples"]
    return tuple(ShownSample(**{**row, **{name: tuple(row[name]) for name in _LISTS}}) for row in rows)
