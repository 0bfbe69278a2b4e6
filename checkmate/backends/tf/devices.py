"""Describe the device: its kernels, and what its memory meter counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

import psutil
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.errors import CheckmateError, MeterMissingError, UsageError
from checkmate.ir import Device
from checkmate.machine.device_memory import gpu_in_use, gpu_number, is_device
from checkmate.machine.processor import processor_name
from checkmate.request import ModelRequest

_ONEDNN_THRESHOLD = 256 << 10  # bytes; oneDNN's allocator passes smaller requests to one without a meter


class Kernels(Enum):
    """A library of kernels: each uses memory in its own way. ``CUDA``: cuDNN, cuBLAS, TensorFlow's own."""

    ONEDNN = "onednn"
    EIGEN = "eigen"
    CUDA = "cuda"


@dataclass(frozen=True)
class DeviceSettings:
    """``kind``: ``cpu`` or ``gpu``. ``metered_from``: the smallest request in bytes that the memory meter
    counts; None: this process has no meter."""

    kind: str
    kernels: Kernels
    metered_from: int | None

    @property
    def meter(self) -> str:
        return f"{self.kind.upper()}:0"

    def facts(self) -> dict[str, Any]:
        return {"kernels": self.kernels.value, "metered_from": self.metered_from}


def kernels_here(kind: str) -> Kernels:
    if kind == "gpu":
        return Kernels.CUDA
    return Kernels.ONEDNN if private.onednn_enabled() else Kernels.EIGEN


def settings_here(kind: str) -> DeviceSettings:
    """Return the settings of this process; this starts TensorFlow's runtime."""
    kernels = kernels_here(kind)
    own_allocator = os.environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true")
    metered_from: int | None = _ONEDNN_THRESHOLD if kernels is Kernels.ONEDNN and not own_allocator else 0
    if not has_meter(f"{kind.upper()}:0"):
        metered_from = None
    return DeviceSettings(kind, kernels, metered_from)


def warms_up(kind: str) -> bool:
    """Return whether the first run must not be metered: cuDNN tries its kernels out then, with gigabytes of
    scratch."""
    return kind == "gpu"


def as_emitted(kind: str) -> AbstractContextManager[None]:
    """Have this thread run scheduled steps as emitted. On a CPU TensorFlow's rewriting of graphs then only
    computes constants: the rest may not move the ops anyway, and takes most of a first run. On a GPU all of
    it runs, as steps need its change of layouts."""
    return nullcontext() if kind == "gpu" else private.folding_constants()


def emitted(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with as_emitted(kind):
            return function(*arguments)

    return call


def make_exact(kind: str, seed: int) -> None:
    """Make this process compute the same bits each time; its environment chose the kernels (``EXACT``)."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    if kind == "gpu":
        tf.random.set_seed(seed)
        tf.config.experimental.enable_tensor_float_32_execution(False)


@contextmanager
def deterministic(kind: str) -> Iterator[None]:
    """Have ops run deterministic kernels on a GPU, or fail (``is_not_deterministic``). Nothing may be traced
    meanwhile: TensorFlow then traces some losses to other ops."""
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
    return isinstance(error, tf.errors.UnimplementedError) and "determinis" in str(error).lower()


def has_meter(meter: str) -> bool:
    try:
        held_bytes(meter)
    except MeterMissingError:
        return False
    return True


def reset_peak(meter: str) -> None:
    """Start a new peak from the bytes that are held now; raise a ``MeterMissingError`` where nothing is
    counted."""
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


def choose_device(request: ModelRequest, *, here: bool = False) -> Device:
    """Describe the device that ``request`` asks for, and hide the other GPUs from this process. TensorFlow
    gives the one process that measures nearly all memory of a GPU, and never takes any back. ``here``: this
    process runs steps on the device, as GPU:0. Otherwise every GPU is hidden."""
    gpus = tf.config.list_physical_devices("GPU")
    wanted = request.device or ("gpu" if gpus else "cpu")
    if not is_device(wanted):
        raise UsageError(f"unknown device {wanted!r}", hint="use cpu, gpu or gpu:1")
    if wanted != "cpu":
        number = gpu_number(wanted)
        _require_gpu(len(gpus), number)
        name = _gpu_name(gpus[number])
        _show_only([gpus[number]] if here else [])
        return Device(name, "gpu", _gpu_bytes(number, name))
    if gpus:
        _show_only([])
    return Device(processor_name(), "cpu", int(psutil.virtual_memory().total))


def _gpu_name(gpu: Any, unknown: str = "GPU") -> str:
    return str(tf.config.experimental.get_device_details(gpu).get("device_name", unknown))


def _require_gpu(count: int, number: int) -> None:
    if not count:
        raise UsageError(
            "TensorFlow sees no GPU on this machine",
            hint='install tensorflow[and-cuda] and check nvidia-smi, or use device="cpu"',
        )
    if number >= count:
        seen = f"{count} GPU{'' if count == 1 else 's'}"
        raise UsageError(
            f"TensorFlow sees {seen}, so there is no gpu:{number}",
            hint=f"use gpu:{count - 1} or less; CUDA_VISIBLE_DEVICES says which ones TensorFlow may see",
        )


@cache
def _gpu_bytes(number: int, name: str) -> int:
    found = gpu_in_use(number, name)
    return 0 if found is None else found.total_bytes or 0


def _show_only(gpus: Sequence[Any]) -> None:
    try:
        tf.config.set_visible_devices(list(gpus), "GPU")
    except RuntimeError as error:
        if len(tf.config.list_logical_devices("GPU")) > len(gpus):
            raise CheckmateError(
                "TensorFlow has already started with the GPU in this process, and holds its memory",
                hint="call this before TensorFlow is used, or use the command line",
            ) from error


def visible_devices() -> list[dict[str, object]]:
    found = enumerate(tf.config.list_physical_devices("GPU"))
    gpus = [(f"gpu:{number}" if number else "gpu", _gpu_name(gpu, gpu.name), "") for number, gpu in found]
    rows = [("cpu", processor_name(), ""), *(gpus or [("gpu", "", "TensorFlow sees no GPU")])]
    return [{"name": name, "description": told, "available": not why, "why": why} for name, told, why in rows]
