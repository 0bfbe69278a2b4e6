"""Say why JAX runs on the processor although there is a GPU.

TensorFlow answers for cuBLAS in its whole process; where it found none of its own, with an error. If it is
imported before JAX looks for a card, JAX reads that as a version that is too old, and goes on without the
card. Keras imports TensorFlow for ``keras.utils.set_random_seed``, on any backend.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import jax

_CARDS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # NVIDIA's driver, and the same in WSL
_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")


def lost_gpu() -> str | None:
    """Return a sentence if JAX could use a GPU that is there, and does not."""
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
