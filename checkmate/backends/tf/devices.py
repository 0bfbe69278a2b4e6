"""Describe the device: its kernels and what its memory meter counts.

The kernels decide which ops need scratch memory. The allocator decides what a memory meter can show. Both
depend on the machine *and* on the environment, so a graph, a cached cost and a report carry them
(``DeviceSettings.facts``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.kernels import Kernels
from checkmate.errors import MeterMissingError

_ONEDNN_THRESHOLD = 256 << 10  # bytes; oneDNN's allocator passes smaller requests to one without a meter


@dataclass(frozen=True)
class DeviceSettings:
    """Hold what a process runs its steps on.

    ``kind``: ``cpu`` or ``gpu``. ``metered_from``: the smallest request in bytes that the memory meter
    counts; None: this process has no meter.
    """

    kind: str
    kernels: Kernels
    metered_from: int | None

    @property
    def meter(self) -> str:
        """Return TensorFlow's name of the device whose allocator counts."""
        return f"{self.kind.upper()}:0"

    def facts(self) -> dict[str, Any]:
        """Return the settings as a graph's metadata holds them."""
        return {"kernels": self.kernels.value, "metered_from": self.metered_from}


def kernels_here(kind: str) -> Kernels:
    """Return the kernels that this process runs steps with. ``kind``: of the device, ``cpu`` or ``gpu``."""
    if kind == "gpu":
        return Kernels.CUDA
    return Kernels.ONEDNN if private.onednn_enabled() else Kernels.EIGEN


def settings_here(kind: str) -> DeviceSettings:
    """Return the settings of this process; start TensorFlow's runtime."""
    kernels = kernels_here(kind)
    found = DeviceSettings(kind, kernels, 0)
    if not has_meter(found.meter):
        return DeviceSettings(kind, kernels, None)
    own = os.environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true")
    if kernels is Kernels.ONEDNN and not own:
        return DeviceSettings(kind, kernels, _ONEDNN_THRESHOLD)
    return found


def has_meter(meter: str) -> bool:
    """Return whether the allocator of ``meter`` counts bytes in this process."""
    try:
        tf.config.experimental.get_memory_info(meter)
    except ValueError:
        return False
    return True


def warms_up(kind: str) -> bool:
    """Return whether a step's first run must not be metered.

    So it is on a GPU: in the first run cuDNN tries its kernels out. That may take gigabytes of scratch memory
    that no later step needs. On a CPU the first run's peak is wanted.
    """
    return kind == "gpu"


def as_emitted(kind: str) -> AbstractContextManager[None]:
    """Have this thread run scheduled steps as they were emitted.

    On a CPU TensorFlow's rewriting of their graphs is left out: it may not move their ops anyway, and took
    most of a first run (2.7 of 4.3 s for a ViT). A GPU needs its change of layouts.
    """
    return nullcontext() if kind == "gpu" else private.without_rewriting()


def emitted(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """Return ``function``, a scheduled step, that runs as it was emitted."""

    def call(*arguments: Any) -> Any:
        with as_emitted(kind):
            return function(*arguments)

    return call


def make_exact(kind: str, seed: int) -> None:
    """Make this process compute the same bits each time it runs the same ops.

    The environment has already chosen Eigen's kernels, or cuDNN's that repeat themselves; graph rewriting is
    switched off here. On a GPU TF32 is switched off too, and steps run under ``deterministic``. Random ops
    then need a seed: they get ``seed``.
    """
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    if kind == "gpu":
        tf.random.set_seed(seed)
        tf.config.experimental.enable_tensor_float_32_execution(False)


@contextmanager
def deterministic(kind: str) -> Iterator[None]:
    """Have ops run deterministic kernels on a GPU, or fail.

    For their error see ``is_not_deterministic``. Nothing may be traced meanwhile: TensorFlow traces some
    losses to other ops then, so schedules would be of another step.
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


def reset_peak(meter: str) -> None:
    """Start a new peak from the bytes that are held now.

    Raises:
        MeterMissingError: the device's allocator counts nothing in this process.
    """
    try:
        tf.config.experimental.reset_memory_stats(meter)
    except ValueError as error:
        raise MeterMissingError(meter) from error


def peak_bytes(meter: str) -> int:
    """Return the most bytes the allocator's chunks held since ``reset_peak``.

    Raises:
        MeterMissingError: as for ``reset_peak``.
    """
    return _memory(meter, "peak")


def held_bytes(meter: str) -> int:
    """Return the bytes in the allocator's chunks now.

    Raises:
        MeterMissingError: as for ``reset_peak``.
    """
    return _memory(meter, "current")


def _memory(meter: str, name: str) -> int:
    """Return one figure of TensorFlow's memory statistics for ``meter``."""
    try:
        return int(tf.config.experimental.get_memory_info(meter)[name])
    except ValueError as error:
        raise MeterMissingError(meter) from error
