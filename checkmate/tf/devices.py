"""The one place that knows the device: its kernels, its memory meter, and what the meter counts.

Which kernels run decides which ops keep scratch memory; which allocator runs decides what a meter can show. Both depend on the
machine *and* on the environment, so a graph, a cached cost and a report carry them (``DeviceSettings.facts``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from checkmate.errors import MeterMissingError
from checkmate.tf import private
from checkmate.tf.kernels import Kernels

_ONEDNN_THRESHOLD = 256 << 10  # oneDNN's own allocator passes smaller requests to one that no meter sees


@dataclass(frozen=True)
class DeviceSettings:
    """What a process runs its steps on.

    ``kind``: ``cpu`` or ``gpu``. ``metered_from``: the smallest request in bytes that the memory meter counts; None: this
    process has no meter.
    """

    kind: str
    kernels: Kernels
    metered_from: int | None

    @property
    def meter(self) -> str:
        """TensorFlow's name of the device whose allocator counts."""
        return f"{self.kind.upper()}:0"

    def facts(self) -> dict[str, Any]:
        """Return the settings as a graph's metadata holds them."""
        return {"kernels": self.kernels.value, "metered_from": self.metered_from}


def kernels_here(kind: str) -> Kernels:
    """Return the kernel library that this process runs steps with on a ``kind`` of device."""
    if kind == "gpu":
        return Kernels.CUDA
    return Kernels.ONEDNN if private.onednn_enabled() else Kernels.EIGEN


def settings_here(kind: str) -> DeviceSettings:
    """Return the settings of this process. Starts TensorFlow's runtime."""
    kernels = kernels_here(kind)
    found = DeviceSettings(kind, kernels, 0)
    if not has_meter(found.meter):
        return DeviceSettings(kind, kernels, None)
    own = os.environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true")
    if kernels is Kernels.ONEDNN and not own:
        return DeviceSettings(kind, kernels, _ONEDNN_THRESHOLD)
    return found


def has_meter(meter: str) -> bool:
    """Return whether this process's allocator of ``meter`` counts bytes."""
    try:
        tf.config.experimental.get_memory_info(meter)
    except ValueError:
        return False
    return True


def warms_up(kind: str) -> bool:
    """Return whether a step's first run must not be metered: on a GPU, cuDNN tries its kernels out in it.

    For that it may take gigabytes of scratch that no later step needs. On a CPU the first run's peak is wanted.
    """
    return kind == "gpu"


def make_exact(kind: str, seed: int) -> None:
    """Let this process compute the same bits whenever it runs the same ops, from now on.

    On a CPU the environment has chosen Eigen's kernels, and graph rewriting goes off. On a GPU also TF32 goes off, ops run
    deterministic kernels or fail (``is_not_deterministic``), and random ops, which then need one, get ``seed``.
    """
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    if kind == "gpu":
        tf.random.set_seed(seed)
        tf.config.experimental.enable_tensor_float_32_execution(False)
        private.forbid_nondeterminism(True)


def is_not_deterministic(error: BaseException | None) -> bool:
    """Return whether ``error`` is TensorFlow's for an op that has no deterministic kernel."""
    return isinstance(error, tf.errors.UnimplementedError) and "determinis" in str(error).lower()


def allow_nondeterminism() -> None:
    """Take back that ops without a deterministic kernel fail."""
    private.forbid_nondeterminism(False)


def reset_peak(meter: str) -> None:
    """Let the peak start from what is held now.

    Raises:
        MeterMissingError: the device's allocator counts nothing in this process.
    """
    try:
        tf.config.experimental.reset_memory_stats(meter)
    except ValueError as error:
        raise MeterMissingError(meter) from error


def peak_bytes(meter: str) -> int:
    """Return the most bytes that the allocator's chunks held since ``reset_peak``.

    Raises:
        MeterMissingError: as ``reset_peak``.
    """
    return _memory(meter, "peak")


def held_bytes(meter: str) -> int:
    """Return the bytes in the allocator's chunks now.

    Raises:
        MeterMissingError: as ``reset_peak``.
    """
    return _memory(meter, "current")


def _memory(meter: str, name: str) -> int:
    try:
        return int(tf.config.experimental.get_memory_info(meter)[name])
    except ValueError as error:
        raise MeterMissingError(meter) from error
