"""The device that JAX runs on: why it is no GPU, its name, what it gets through in a second."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import psutil

from checkmate.backends.jax.program import PRODUCTS
from checkmate.catalog.cards import Card, card_models
from checkmate.ir import Device
from checkmate.machine.processor import processor_name

_CARDS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # NVIDIA's driver, and the same in WSL
_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")
# The share of a card's peak that products reach. On an H200 the products that ``nothing_saveable`` computes
# again, and ``dots_with_no_batch_dims_saveable`` does not, took 4.2 ms (GPT) and 5.9 ms (ViT): 3.3 and 3.8 at
# the peak.
OF_PRODUCTS = 0.7
OF_BANDWIDTH = 0.75  # that is reached: assumed, as in ``checkmate.largest.roofline``
_UNKNOWN = "A100 40 GB"  # what a GPU is taken for that is not in the table: a card from its middle


# TensorFlow answers for cuBLAS in its whole process; where it found none of its own, with an error. If it is
# imported before JAX looks for a card, JAX reads that as a version that is too old, and goes on without the
# card. Keras imports TensorFlow for ``keras.utils.set_random_seed``, on any backend.
def lost_gpu() -> str | None:
    """A sentence if JAX could use a GPU that is there, and does not."""
    wanted = jax.config.jax_platforms or ""
    chosen = wanted.startswith("cpu") or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    there = any(path.exists() for path in _CARDS) and any(find_spec(name) for name in _PLUGINS)
    if chosen or not there or jax.default_backend() != "cpu":
        return None
    if "tensorflow" in sys.modules:
        return (
            "JAX runs on the CPU, though there is a GPU: TensorFlow was imported before JAX looked for it; "
            "call jax.devices() first, before keras.utils.set_random_seed, which imports TensorFlow"
        )
    return "JAX runs on the CPU, though there is a GPU; what JAX printed above says why"


def device_here() -> Device:
    device = jax.local_devices()[0]
    if device.platform == "cpu":
        return Device(processor_name(), "cpu", int(psutil.virtual_memory().total))
    held = device.memory_stats() or {}
    return Device(str(device.device_kind), device.platform, int(held.get("bytes_limit", 0)))


@dataclass(frozen=True)
class Speed:
    """Operations and bytes that a device gets through in a second.

    ``half`` and ``matrix``: operations of products and convolutions, of floats of 16 bits and of others;
    ``vector``: all other operations. ``together``: an op takes the longer of two times, its operations and
    its bytes; else it takes both.
    """

    half: float
    matrix: float
    vector: float
    bytes: float
    together: bool = False

    def operation_seconds(self, name: str, operand: Any) -> float:
        if name not in PRODUCTS:
            return 1 / self.vector
        short = str(getattr(operand, "dtype", "")) in ("float16", "bfloat16")
        return 1 / (self.half if short else self.matrix)

    def seconds(self, operations: float, moved: int) -> float:
        moving = moved / self.bytes
        return max(operations, moving) if self.together else operations + moving


_SPEEDS = {"cpu": Speed(1e11, 1e11, 1e11, 2e10), "tpu": Speed(1e14, 1e14, 1e14, 1e12)}


def speed_of(platform: str, kind: str) -> Speed:
    """Return the speed of a device: ``gpu`` and ``NVIDIA H200``, for example."""
    if platform in _SPEEDS:
        return _SPEEDS[platform]
    card = card_of(kind)
    bandwidth = OF_BANDWIDTH * card.bandwidth
    return Speed(OF_PRODUCTS * card.half, OF_PRODUCTS * card.matrix, card.vector, bandwidth, together=True)


def card_of(kind: str) -> Card:
    """Return the card whose words are all in a driver's ``kind``, or one from the middle of the table.

    ``NVIDIA A100-SXM4-80GB`` is an ``A100 80 GB``.
    """
    cards = {card.name: card for card in card_models()}
    words = _words(kind)
    named = [name for name in cards if _words(name) <= words]
    return cards[max(named, key=len, default=_UNKNOWN)]


def _words(name: str) -> set[str]:
    return set(re.findall(r"\d+(?=gb\b)|[a-z0-9]+", name.lower()))
