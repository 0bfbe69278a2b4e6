"""Find out which GPU a process uses and how much memory it has.

The answers come from nvidia-smi, so that no library is started. TensorFlow numbers the GPUs that
``CUDA_VISIBLE_DEVICES`` lets it see; nvidia-smi numbers all of them. Where the two numberings cannot be
matched for sure, the answer is None.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checkmate.machine import nvidia_smi

_ASK_S = 10.0
_FIELDS = ("index", "uuid", "name", "memory.total", "memory.free")
_DEVICE = re.compile(r"gpu(?::(\d+))?")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"


@dataclass(frozen=True)
class Gpu:
    """Describe one GPU as nvidia-smi lists it. Bytes are None where the driver does not report them."""

    index: int
    uuid: str
    name: str
    total_bytes: int | None
    free_bytes: int | None


def gpu_number(device: str | None) -> int:
    """Return the number of ``device`` among TensorFlow's GPUs.

    ``gpu:1`` gives 1; a device without a number gives 0.
    """
    found = _DEVICE.fullmatch(device or "")
    return int(found[1]) if found is not None and found[1] else 0


def is_device(device: str) -> bool:
    """Return whether ``device`` is ``cpu``, ``gpu`` or ``gpu:NUMBER``."""
    return device == "cpu" or _DEVICE.fullmatch(device) is not None


def gpu_in_use(number: int, name: str = "") -> Gpu | None:
    """Ask nvidia-smi about the GPU that TensorFlow numbers ``number``.

    ``name`` is TensorFlow's name for it. Return None where the answer is not certain.
    """
    said, problem = nvidia_smi.query(_FIELDS, limit_s=_ASK_S)
    if problem:
        return None
    return chosen(listed(said), number, name, os.environ)


def listed(said: str) -> tuple[Gpu, ...]:
    """Return the GPUs in the text that nvidia-smi printed. Other lines are skipped."""
    return tuple(
        Gpu(
            index=int(row["index"]),
            uuid=row["uuid"],
            name=row["name"],
            total_bytes=nvidia_smi.memory_bytes(row["memory.total"]),
            free_bytes=nvidia_smi.memory_bytes(row["memory.free"]),
        )
        for row in nvidia_smi.rows(said, _FIELDS)
        if row["index"].isdigit()
    )


def chosen(gpus: Sequence[Gpu], number: int, name: str, environment: Mapping[str, str]) -> Gpu | None:
    """Return the one of ``gpus`` that CUDA gives ``number``.

    ``environment`` is that of the process. Return None where the answer is not certain. CUDA puts the fastest
    GPU first unless ``CUDA_DEVICE_ORDER`` is ``PCI_BUS_ID``, so among unlike GPUs an index says nothing. The
    ``name`` does, where only one GPU has it.
    """
    numbered = environment.get(_ORDER) == "PCI_BUS_ID" or len({gpu.name for gpu in gpus}) <= 1
    visible = _visible(gpus, environment.get(_VISIBLE), numbered)
    found = visible[number] if number < len(visible) else None
    if found is not None and (not name or found.name == name):
        return found
    alike = [gpu for gpu in gpus if name and gpu.name == name]
    return alike[0] if len(alike) == 1 else None


def only(number: int, environment: Mapping[str, str]) -> str:
    """Return a ``CUDA_VISIBLE_DEVICES`` that shows one GPU alone.

    ``number`` is the GPU's number in a process with this ``environment``.
    """
    given = environment.get(_VISIBLE)
    entries = [entry.strip() for entry in given.split(",")] if given else []
    return entries[number] if number < len(entries) else str(number)


def _visible(gpus: Sequence[Gpu], given: str | None, numbered: bool) -> list[Gpu | None]:
    """Return the visible GPUs in CUDA's order.

    An element is None where it is not known which GPU it is. An invalid entry ends CUDA's list.
    """
    if given is None:
        return [gpu if numbered else None for gpu in gpus]
    found: list[Gpu | None] = []
    for entry in (part.strip() for part in given.split(",")):
        if entry.isdigit():
            at = next((gpu for gpu in gpus if gpu.index == int(entry)), None)
            if at is None:
                break
            found.append(at if numbered else None)
        elif entry.startswith("GPU-"):
            alike = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
            if len(alike) != 1:
                break
            found.append(alike[0])
        elif entry.startswith("MIG-"):
            found.append(None)  # a part of a GPU; nvidia-smi has no line for it
        else:
            break
    return found
