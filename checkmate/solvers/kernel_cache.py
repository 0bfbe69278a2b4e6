"""Where compiled kernels are kept, and whether they are there; asking imports nothing heavy."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

import platformdirs

_READY = "ready"  # an empty file: everything that ``warm_up`` compiles is in the folder


@cache
def cache_folder() -> Path:
    """The folder of this version of the kernels, in the user's cache folder; it may not exist yet.

    Its name depends on the content of all kernel sources: numba does not notice that a *called* kernel in another file has
    changed, a new folder does. And on where they are and how old: what was compiled from another copy numba does not use.
    """
    home = Path(__file__).resolve().parent
    digest = hashlib.sha256(f"{version('numba')} {home}".encode())
    kernels = [home / "jit.py", *home.glob("sequence_*.py"), *home.glob("chain_kernel*.py")]
    for source in sorted(kernels):
        digest.update(f"{source.stat().st_mtime_ns} ".encode() + source.read_bytes())
    return Path(platformdirs.user_cache_dir("checkmate-explorer")) / "kernels" / digest.hexdigest()[:16]


def is_compiled() -> bool:
    """Whether the kernels were compiled on this machine before, so that loading them takes a moment only."""
    return (cache_folder() / _READY).exists()


def note_compiled() -> None:
    """Remember that they are; a folder that cannot be written to means that every process compiles for itself."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        (cache_folder() / _READY).touch()
    except OSError:
        return
