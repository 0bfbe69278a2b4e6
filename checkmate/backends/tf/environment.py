"""Set up the environment of measuring processes, without TensorFlow.

Each of them gets one memory meter, on every CPU. TensorFlow's default CPU allocator has a meter only with
oneDNN, and then does not count tensors under 256 KiB; the one that ``TF_CPU_ALLOCATOR_USE_BFC`` chooses
counts all."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import psutil

from checkmate.machine.device_memory import gpu_number, only

METERED: Mapping[str, str] = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_GPU_ALLOCATOR": ""}
"""Allocators whose requests are metered and traced; ``cuda_malloc_async`` makes no allocator events."""

EXACT: Mapping[str, str] = {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CUDNN_DETERMINISTIC": "1"}
"""Eigen's kernels, and on a GPU those of cuDNN that give the same bits each time."""

_ALLOCATOR, _WANTED = "TF_GPU_ALLOCATOR", "CHECKMATE_GPU_ALLOCATOR_WANTED"
_LIMIT = "TF_CPU_BFC_MEM_LIMIT_IN_MB"  # 64 GiB unless it is set


def measuring_environment() -> dict[str, str]:
    total = psutil.virtual_memory().total
    wanted = wanted_gpu_allocator(os.environ)
    said = {_WANTED: wanted} if wanted else {}
    return {**METERED, **said, _LIMIT: os.environ.get(_LIMIT, str(total // 2**20))}


def wanted_gpu_allocator(environment: Mapping[str, str]) -> str:
    """Return the GPU allocator that the user chose; empty: none. Measuring processes do without it."""
    return environment.get(_ALLOCATOR, "") or environment.get(_WANTED, "")


def allocator_note(environment: Mapping[str, str]) -> str:
    """Return the note on a GPU allocator that was asked for but not measured; empty: none was."""
    wanted = wanted_gpu_allocator(environment)
    if not wanted:
        return ""
    return (
        f"measured with TensorFlow's usual GPU allocator, not with TF_GPU_ALLOCATOR={wanted}: "
        "that allocator shows no requests; the peaks hold for a step that runs without it"
    )


def only_device(device: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables that show any process only the requested device, as in ``ModelRequest.device``."""
    if device == "cpu":
        return {"CUDA_VISIBLE_DEVICES": "-1"}
    return {} if device in (None, "gpu") else {"CUDA_VISIBLE_DEVICES": only(gpu_number(device), environment)}


def limit_bytes() -> int | None:
    """Return the most bytes that the metered CPU allocator may hold here; None: no limit is set."""
    said = os.environ.get(_LIMIT, "")
    return int(said) * 2**20 if said.isdigit() else None


def prepare_own_process() -> None:
    """Choose the metered allocator, and quicken the import, of a process of the program's own; before
    TensorFlow is imported."""
    import_quickly()
    os.environ.update(measuring_environment())


def import_quickly() -> None:
    """Let a later import of TensorFlow or Keras take a third less processor time. TensorFlow makes some
    500,000 objects then, which Python's garbage collector looks at again and again; they stay hidden from it.
    Where JAX is installed TensorFlow imports it too, for a converter that is not used."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds TensorFlow and Keras; hides JAX while one of them is imported."""

    def __init__(self) -> None:
        self._importing = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if self._importing:
            # Keras on JAX needs it, and is refused later, in a sentence.
            if name == "jax" and "keras.src.backend.jax" not in sys.modules:
                raise ModuleNotFoundError("no function of JAX is converted here", name=name)
            return None
        spec = PathFinder.find_spec(name, path) if name in ("tensorflow", "keras") else None
        if spec is not None and spec.loader is not None:
            # Each search makes a new loader, so no other import sees this.
            vars(spec.loader)["exec_module"] = self._without_collector(spec.loader.exec_module)
        return spec

    def _without_collector(self, execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def run(module: ModuleType) -> None:
            collects, self._importing = gc.isenabled(), True
            gc.disable()
            try:
                execute(module)
            finally:
                self._importing = False
                gc.freeze()
                if collects:
                    gc.enable()

        return run
