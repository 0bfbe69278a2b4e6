"""The processor; on Linux, Python's ``platform`` does not know it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# What TensorFlow looks for before it gives an op in half precision to oneDNN.
_HALF = frozenset({"avx512_fp16", "amx_fp16", "avx_ne_convert"})


@dataclass(frozen=True)
class Processor:
    """The processor. ``avx``: None except for x86 on Linux; ``half``: oneDNN computes in float16 on it."""

    name: str
    avx: bool | None
    half: bool = False


@cache
def this_processor() -> Processor:
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
            flags = frozenset(value.split())
            return Processor(name, "avx" in flags, not _HALF.isdisjoint(flags))
    return Processor(name, avx)


def processor_name() -> str:
    return this_processor().name
