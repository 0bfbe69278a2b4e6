"""Which GPU a process uses, and how much memory a device has free for it.

nvidia-smi is asked, so that no library is started. TensorFlow numbers the GPUs that ``CUDA_VISIBLE_DEVICES``
shows, nvidia-smi all of them. Where the two numberings cannot be matched for sure, the answer is None.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_ASK_S = 10.0
_FIELDS = ("index", "uuid", "name", "memory.total", "memory.free")
_DEVICE = re.compile(r"gpu(?::(\d+))?")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"


def ask_nvidia_smi(*arguments: str, limit_s: float) -> tuple[str, str]:
    """Return what nvidia-smi prints, and why it fails. One of the two is empty."""
    try:
        done = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return "", f"no answer within {limit_s:.0f} s"
    except OSError as error:
        return "", str(error)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        return "", said[0].strip() if said else f"exit code {done.returncode}"
    return done.stdout, ""


def ask_for_table(fields: Sequence[str], *, limit_s: float) -> tuple[str, str]:
    """Return a line per GPU with the ``fields`` between commas, and why nvidia-smi fails."""
    return ask_nvidia_smi(f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", limit_s=limit_s)


def table_rows(table: str, fields: Sequence[str]) -> list[dict[str, str]]:
    """Return the lines of a table by field; other lines are skipped."""
    found = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(fields):
            found.append(dict(zip(fields, cells, strict=True)))
    return found


def mebibytes(cell: str) -> int | None:
    """Return a memory cell, which is in MiB, in bytes; None where it is not reported."""
    return int(cell) * 2**20 if cell.isdigit() else None


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi lists it. Bytes are None where the driver does not report them."""

    index: int
    uuid: str
    name: str
    total_bytes: int | None
    free_bytes: int | None


def gpu_number(device: str | None) -> int:
    """Return the number among TensorFlow's GPUs: 1 for ``gpu:1``, 0 where ``device`` has none."""
    found = _DEVICE.fullmatch(device or "")
    return int(found[1]) if found is not None and found[1] else 0


def is_device(device: str) -> bool:
    return device == "cpu" or _DEVICE.fullmatch(device) is not None


def gpu_in_use(number: int, name: str = "") -> Gpu | None:
    said, problem = ask_for_table(_FIELDS, limit_s=_ASK_S)
    return None if problem else chosen(listed(said), number, name, os.environ)


def listed(said: str) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            index=int(row["index"]),
            uuid=row["uuid"],
            name=row["name"],
            total_bytes=mebibytes(row["memory.total"]),
            free_bytes=mebibytes(row["memory.free"]),
        )
        for row in table_rows(said, _FIELDS)
        if row["index"].isdigit()
    )


def chosen(gpus: Sequence[Gpu], number: int, name: str, environment: Mapping[str, str]) -> Gpu | None:
    """Return the one of ``gpus`` that CUDA gives ``number`` in a process with this ``environment``.

    CUDA puts the fastest GPU first unless ``CUDA_DEVICE_ORDER`` is ``PCI_BUS_ID``, so among unlike GPUs only
    the ``name`` says which it is.
    """
    numbered = environment.get(_ORDER) == "PCI_BUS_ID" or len({gpu.name for gpu in gpus}) <= 1
    visible = _visible(gpus, environment.get(_VISIBLE), numbered)
    found = visible[number] if number < len(visible) else None
    if found is not None and (not name or found.name == name):
        return found
    alike = [gpu for gpu in gpus if name and gpu.name == name]
    return alike[0] if len(alike) == 1 else None


def only(number: int, environment: Mapping[str, str]) -> str:
    """Return a ``CUDA_VISIBLE_DEVICES`` that shows one GPU alone, by its number under ``environment``."""
    given = environment.get(_VISIBLE)
    entries = [entry.strip() for entry in given.split(",")] if given else []
    return entries[number] if number < len(entries) else str(number)


def _visible(gpus: Sequence[Gpu], given: str | None, numbered: bool) -> list[Gpu | None]:
    """Return the visible GPUs in CUDA's order; None where it is not known which one it is."""
    if given is None:
        return [gpu if numbered else None for gpu in gpus]
    found: list[Gpu | None] = []
    for entry in (part.strip() for part in given.split(",")):
        if entry.startswith("MIG-"):
            found.append(None)  # a part of a GPU; nvidia-smi has no line for it
            continue
        by_uuid = entry.startswith("GPU-")
        if by_uuid:
            alike = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
        else:
            alike = [gpu for gpu in gpus if entry.isdigit() and gpu.index == int(entry)]
        if len(alike) != 1:
            break  # an invalid entry ends CUDA's list
        found.append(alike[0] if by_uuid or numbered else None)
    return found


_UNLIMITED = 1 << 60  # a control group without a limit reports about this, or more
_GROUPS = Path("/sys/fs/cgroup")


def free_bytes(kind: str, number: int = 0) -> int | None:
    """Return the bytes free for this process on ``cpu`` or ``gpu``, or None if not known.

    On a CPU, the limits of the process and of its control group (a container's) count too.
    """
    if kind == "cpu":
        import psutil

        return max(0, min(int(psutil.virtual_memory().available), *_within_limits()))
    found = gpu_in_use(number)
    return None if found is None else found.free_bytes


def _within_limits() -> Iterator[int]:
    """Yield the bytes that each limit leaves; at least one number."""
    yield _UNLIMITED
    if sys.platform == "win32":
        return
    import resource

    status = _text(Path("/proc/self/status"))
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        soft = resource.getrlimit(limit)[0]
        used = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
        if soft != resource.RLIM_INFINITY and used is not None:
            yield soft - int(used[1]) * 1024
    yield from group_limits(_text(Path("/proc/self/cgroup")), _GROUPS)


def group_limits(groups: str, root: Path) -> Iterator[int]:
    """Yield the bytes that each limited control group has left; ``groups``: as in ``/proc/self/cgroup``.

    Memory that holds file contents does not count as used: the system frees it on demand.
    """
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names == "memory":  # version 1
            top, limit, used = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cached = "total_inactive_file"
        elif number == "0" and not names:
            top, limit, used, cached = root, "memory.max", "memory.current", "inactive_file"
        else:
            continue
        folder = top / path.strip("/")
        # In a container the path may be the host's, and the container's own group is mounted at the top.
        for each in (folder, *(above for above in folder.parents if above.is_relative_to(top))):
            most, now = _text(each / limit).strip(), _text(each / used).strip()
            files = re.search(rf"^{cached} (\d+)$", _text(each / "memory.stat"), re.MULTILINE)
            if most.isdigit() and now.isdigit() and int(most) < _UNLIMITED:
                yield int(most) - int(now) + (int(files[1]) if files else 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
