"""Where compiled kernels are kept, and whether they are there.

Asking imports nothing heavy.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import platformdirs

_READY = "ready"  # an empty file which says that the folder has all kernels


@cache
def cache_folder() -> Path:
    """Return the folder of this version of the kernels in the user's cache.

    It may not exist yet. Its name depends on the content of all kernel sources: numba does not notice that a
    *called* kernel in another file has changed, but a new folder makes it compile again. The name also
    depends on the place and age of the sources, since numba does not use what was compiled from another copy.
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
        *home.glob("addresses/*.py"),
    ]
    for source in sorted(kernels):
        digest.update(f"{source.stat().st_mtime_ns} ".encode() + source.read_bytes())
    return Path(platformdirs.user_cache_dir("checkmate-explorer")) / "kernels" / digest.hexdigest()[:16]


def is_compiled() -> bool:
    """Return whether the kernels were compiled on this machine before.

    Loading them then takes only a moment.
    """
    return (cache_folder() / _READY).exists()


def make_folder() -> bool:
    """Make the folder; return False if it cannot be written to.

    Every process compiles for itself then.
    """
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(cache_folder(), os.W_OK)


def note_compiled() -> None:
    """Record that the kernels are compiled, if the folder can be written to."""
    if make_folder():
        with suppress(OSError):
            (cache_folder() / _READY).touch()
