"""The bundled sample models, by name; built in code by ``checkmate.tf.samples``, so that naming them needs no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """One sample: ``input_shape`` without the batch; ``--input-shape`` replaces it where ``resizable``."""

    name: str
    description: str
    input_shape: tuple[int, ...]
    batch_size: int
    resizable: bool = True


SAMPLES: tuple[Sample, ...] = (
    Sample("unet", "U-Net: convolutional encoder and decoder with skip connections, BatchNorm", (128, 128, 3), 8),
    Sample("resnet", "small residual network, three stages of four blocks", (96, 96, 3), 16),
    Sample("mobilenet", "depthwise separable convolutions, BatchNorm, ReLU6", (128, 128, 3), 16),
    Sample("transformer", "Transformer encoder with dropout, six blocks", (128,), 8),
    Sample("lstm", "two LSTM layers over a sequence", (128, 64), 32, resizable=False),
)


def find_sample(name: str) -> Sample | None:
    """The sample called ``name``, if there is one."""
    return next((sample for sample in SAMPLES if sample.name == name), None)
