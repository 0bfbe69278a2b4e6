"""How much memory a device has free now."""

from __future__ import annotations

import subprocess

_ASK_S = 10.0


def free_bytes(kind: str) -> int | None:
    """Bytes that are free on the CPU's machine (``cpu``) or on its first GPU (``gpu``, by nvidia-smi); None where that is not known."""
    if kind == "cpu":
        import psutil

        return int(psutil.virtual_memory().available)
    command = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return parsed_mebibytes(said)


def parsed_mebibytes(said: str) -> int | None:
    """The first line's number of MiB in bytes; None where it is none."""
    first = said.strip().splitlines()[:1]
    return int(first[0].strip()) * 2**20 if first and first[0].strip().isdigit() else None
