"""The models that benchmarks and tests measure: functions of ``networks.py`` beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkmate.request import ModelRequest

# At this batch a step takes seconds on a CPU.
ZOO = {
    "vgg16": 4, "resnet50": 8, "resnet50v2": 8, "mobilenetv2": 16, "densenet121": 8,
    "efficientnetb0": 8, "inceptionv3": 8, "xception": 4, "convnexttiny": 4, "unet_vgg": 1,
    "unet_small": 4, "fcn8": 4, "segnet": 4, "encoder": 8, "encoder_small": 8, "gpt": 8, "vit": 8,
    "lstm": 32, "gru": 32, "two_io": 8, "subclassed": 16, "regularized": 16, "mixed_float16": 16,
    "mixed_bfloat16": 16, "adamw_clipped": 16, "accumulated": 16,
}  # fmt: skip


def zoo_request(name: str, batch_size: int | None = None, **more: Any) -> ModelRequest:
    code = f"{Path(__file__).with_name('networks.py')}:{name}"
    return ModelRequest(code, batch_size or ZOO[name], allow_code=True, **more)
