"""The device that JAX runs on, as a graph names it."""

from __future__ import annotations

import jax
import psutil

from checkmate.ir.graph import Device
from checkmate.machine.processor import processor_name


def device_here() -> Device:
    """Return JAX's first device."""
    device = jax.local_devices()[0]
    if device.platform == "cpu":
        return Device(processor_name(), "cpu", int(psutil.virtual_memory().total))
    held = device.memory_stats() or {}
    return Device(str(device.device_kind), device.platform, int(held.get("bytes_limit", 0)))
