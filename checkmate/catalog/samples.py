"""List the bundled sample models by name.

``checkmate.models.sample_networks`` builds them in code, so that naming them needs no TensorFlow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
