"""Describe the device: its kernels, and what its memory meter counts.

The kernels decide which ops need scratch memory, and the allocator what a memory meter can show. Both depend
on the machine and on the environment, so a graph, a cached cost and a report carry them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.errors import MeterMissingError

_ONEDNN_THRESHOLD = 256 << 10  # bytes; oneDNN's allocator passes smaller requests to one without a meter


class Kernels(Enum):
    """A library of kernels: each uses memory in its own way. ``CUDA``: cuDNN, cuBLAS, TensorFlow's own."""

    ONEDNN = "onednn"
    EIGEN = "eigen"
    CUDA = "cuda"


@dataclass(frozen=True)
class DeviceSettings:
    """What a process runs its steps on.

    ``kind``: ``cpu`` or ``gpu``. ``metered_from``: the smallest request in bytes that the memory meter
    counts; None: this process has no meter.
    """

    kind: str
    kernels: Kernels
    metered_from: int | None

    @property
    def meter(self) -> str:
        """TensorFlow's name of the device whose allocator counts."""
        return f"{self.kind.upper()}:0"

    def facts(self) -> dict[str, Any]:
        return {"kernels": self.kernels.value, "metered_from": self.metered_from}


def kernels_here(kind: str) -> Kernels:
    """Return the kernels that this process runs steps with on a ``cpu`` or ``gpu``."""
    if kind == "gpu":
        return Kernels.CUDA
    return Kernels.ONEDNN if private.onednn_enabled() else Kernels.EIGEN


def settings_here(kind: str) -> DeviceSettings:
    """Return the settings of this process; start TensorFlow's runtime."""
    kernels = kernels_here(kind)
    own_allocator = os.environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true")
    metered_from: int | None = _ONEDNN_THRESHOLD if kernels is Kernels.ONEDNN and not own_allocator else 0
    if not has_meter(f"{kind.upper()}:0"):
        metered_from = None
    return DeviceSettings(kind, kernels, metered_from)


def warms_up(kind: str) -> bool:
    """Return whether a step's first run must not be metered.

    On a GPU cuDNN tries its kernels out in the first run, which may take gigabytes of scratch memory that no
    later step needs. On a CPU the first run's peak is wanted.
    """
    return kind == "gpu"


def as_emitted(kind: str) -> AbstractContextManager[None]:
    """Have this thread run scheduled steps as they were emitted.

    On a CPU TensorFlow's graph rewriting is left out: it may not move the ops anyway, and took most of a
    first run (2.7 of 4.3 s for a ViT). A GPU needs its change of layouts.
    """
    return nullcontext() if kind == "gpu" else private.without_rewriting()


def emitted(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """Return the scheduled step ``function``, run ``as_emitted``."""

    def call(*arguments: Any) -> Any:
        with as_emitted(kind):
            return function(*arguments)

    return call


def make_exact(kind: str, seed: int) -> None:
    """Make this process compute the same bits each time it runs the same ops.

    The environment has already chosen Eigen's kernels, or cuDNN's that repeat themselves. Graph rewriting is
    switched off here; on a GPU TF32 too, and steps run under ``deterministic``, where random ops need a seed.
    """
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    if kind == "gpu":
        tf.random.set_seed(seed)
        tf.config.experimental.enable_tensor_float_32_execution(False)


@contextmanager
def deterministic(kind: str) -> Iterator[None]:
    """Have ops run deterministic kernels on a GPU, or fail (``is_not_deterministic``).

    Nothing may be traced meanwhile: TensorFlow then traces some losses to other ops.
    """
    if kind != "gpu":
        yield
        return
    before = private.is_deterministic()  # a user's own code may have chosen it
    private.forbid_nondeterminism(True)
    try:
        yield
    finally:
        private.forbid_nondeterminism(before)


def is_not_deterministic(error: BaseException | None) -> bool:
    """Return whether ``error`` says that an op has no deterministic kernel."""
    return isinstance(error, tf.errors.UnimplementedError) and "determinis" in str(error).lower()


def has_meter(meter: str) -> bool:
    """Return whether the allocator of ``meter`` counts bytes in this process."""
    try:
        held_bytes(meter)
    except MeterMissingError:
        return False
    return True


def reset_peak(meter: str) -> None:
    """Start a new peak from the bytes that are held now.

    Raises:
        MeterMissingError: the device's allocator counts nothing in this process.
    """
    _asked(tf.config.experimental.reset_memory_stats, meter)


def peak_bytes(meter: str) -> int:
    """Return the most bytes that the allocator's chunks held since ``reset_peak``, which see for errors."""
    return int(_asked(tf.config.experimental.get_memory_info, meter)["peak"])


def held_bytes(meter: str) -> int:
    """Return the bytes in the allocator's chunks now; errors as for ``reset_peak``."""
    return int(_asked(tf.config.experimental.get_memory_info, meter)["current"])


def _asked(question: Callable[[str], Any], meter: str) -> Any:
    try:
        return question(meter)
    except ValueError as error:
        raise MeterMissingError(meter) from error
