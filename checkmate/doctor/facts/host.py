"""Describe this computer, its system and its Python."""

from __future__ import annotations

import platform
import sys

import psutil

from checkmate.doctor.facts.values import Host
from checkmate.machine.load import usable_cores
from checkmate.machine.processor import this_processor


def host_here() -> Host:
    """Return the facts of this machine, now."""
    memory = psutil.virtual_memory()
    processor = this_processor()
    return Host(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        executable=sys.executable,
        system=_system(),
        processor=processor.name,
        avx=processor.avx,
        cores=usable_cores(),
        memory_bytes=int(memory.total),
        free_bytes=int(memory.available),
    )


def _system() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    return f"{name or f'{platform.system()} {platform.release()}'}, {platform.machine()}"
