"""Name the processor; on Linux, Python's ``platform`` does not know it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Processor:
    """Describe the processor.

    ``avx``: whether it has AVX; None except for x86 on Linux.
    """

    name: str
    avx: bool | None


@cache
def this_processor() -> Processor:
    """Return this machine's processor."""
    name, avx = platform.processor() or platform.machine(), None
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return Processor(name, avx)
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        elif key.strip() == "flags":
            return Processor(name, "avx" in value.split())
    return Processor(name, avx)


def processor_name() -> str:
    """Return the name of this machine's processor."""
    return this_processor().name
