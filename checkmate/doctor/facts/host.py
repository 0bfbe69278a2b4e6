"""Describe this computer, its system and its Python."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import psutil

from checkmate.doctor.facts.values import Host


def host_here() -> Host:
    """Return the facts of this machine, now."""
    memory = psutil.virtual_memory()
    name, avx = _processor()
    return Host(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        executable=sys.executable,
        system=_system(),
        processor=name,
        avx=avx,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=int(memory.total),
        free_bytes=int(memory.available),
    )


def _system() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    return f"{name or f'{platform.system()} {platform.release()}'}, {platform.machine()}"


def _processor() -> tuple[str, bool | None]:
    """Return the processor's name, and whether it has AVX.

    AVX is None except for x86 on Linux.
    """
    name, avx = platform.processor() or platform.machine(), None
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return name, avx
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        elif key.strip() == "flags":
            return name, "avx" in value.split()
    return name, avx
