"""Where compiled kernels are kept, and whether they are there; asking imports nothing heavy."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import platformdirs

_READY = "ready"  # an empty file: all kernels are in the folder


@cache
def cache_folder() -> Path:
    """The folder of this version of the kernels, in the user's cache folder; it may not exist yet.

    Its name depends on the content of all kernel sources: numba does not notice that a *called* kernel in another file has
    changed, a new folder does. And on where they are and how old: what was compiled from another copy numba does not use.
    """
    home = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256(f"{version('numba')} {home}".encode())
    kernels = [
        home / "compile" / "jit.py",
        home / "compile" / "parts.py",
        *home.glob("sequence/*.py"),
        home / "chain" / "kernel.py",
        home / "chain" / "modes.py",
        home / "chain" / "kernel_types.py",
    ]
    for source in sorted(kernels):
        digest.update(f"{source.stat().st_mtime_ns} ".encode() + source.read_bytes())
    return Path(platformdirs.user_cache_dir("checkmate-explorer")) / "kernels" / digest.hexdigest()[:16]


def is_compiled() -> bool:
    """Whether the kernels were compiled on this machine before, so that loading them takes a moment only."""
    return (cache_folder() / _READY).exists()


def make_folder() -> bool:
    """Make the folder; False where it cannot be written to.

    Every process compiles for itself then.
    """
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(cache_folder(), os.W_OK)


def note_compiled() -> None:
    """Remember that they are, where that can be written down."""
    if make_folder():
        with suppress(OSError):
            (cache_folder() / _READY).touch()
