"""Make TensorFlow seem to see GPUs, to test code for GPUs without one."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from checkmate.backends.tf import devices
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.progress import never, silent
from checkmate.request import ModelRequest

_MODELS = Path(__file__).with_name("small_models.py")


class FakeGpu:
    """Hold the GPUs that TensorFlow sees. These are the ones that are shown (None: nobody chose), and whether
    a runtime holds them."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, taken: bool = False, names: tuple[str, ...] = ("Fake 16",)
    ) -> None:
        self.taken = taken
        self.shown: list[str] | None = None
        gpus = [
            tf.config.PhysicalDevice(f"/physical_device:GPU:{number}", "GPU") for number in range(len(names))
        ]
        details = {gpu.name: {"device_name": name} for gpu, name in zip(gpus, names, strict=True)}
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: gpus)
        monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: gpus if taken else [])
        monkeypatch.setattr(tf.config, "set_visible_devices", self.show)
        monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: details[device.name])
        monkeypatch.setattr(devices, "gpu_in_use", lambda number, name="": None)
        devices._gpu_bytes.cache_clear()

    @property
    def hidden(self) -> bool:
        return self.shown == []

    def show(self, chosen: list[tf.config.PhysicalDevice], kind: str) -> None:
        assert kind == "GPU"
        if self.taken:
            raise RuntimeError("Visible devices cannot be modified after being initialized")
        self.shown = [device.name for device in chosen]


def folded_for_gpu(monkeypatch: pytest.MonkeyPatch, model: str, batch_size: int = 8) -> FoldedStep:
    """Return the step of a small model as it is folded for a GPU. Another model is named as
    ``file.py:name``."""
    FakeGpu(monkeypatch)
    spec = model if ":" in model or "." in model else f"{_MODELS}:{model}"
    request = ModelRequest(spec, batch_size, device="gpu", allow_code=True)
    return trace_request(request, report=silent, cancelled=never)
