"""Where kernels are kept, and whether they are there.

Their translation lies beside the sources, and machine code in the user's cache. Both count only for the
sources that they were made from, machine code also for its processor and compiler.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from checkmate.machine.cost_store import user_cache

_SOLVERS = Path(__file__).resolve().parents[1]
KEPT = _SOLVERS / "compile" / "kernels.bc.xz"
# Every file that the translation depends on: kernels, the constants that they read, and what translates them.
SOURCES = (
    "addresses/allocator_kernels.py",
    "chain/kernel.py",
    "compile/jit.py",
    "compile/translate.py",
    "sequence/anneal.py",
    "sequence/drops.py",
    "sequence/edit.py",
    "sequence/kernel_arrays.py",
)
_DIGEST = hashlib.sha256


@cache
def source_key() -> str:
    digest = _DIGEST()
    for name in SOURCES:
        digest.update(_DIGEST((_SOLVERS / name).read_bytes()).digest())
    return digest.hexdigest()


def cache_folder() -> Path:
    """The user's folder of machine code; it may not exist yet."""
    return user_cache("kernels")


@cache
def machine_code_file() -> Path:
    import llvmlite
    from llvmlite import binding

    made_by = (_SOLVERS / "compile" / "machine_code.py").read_text(encoding="utf-8")
    host = f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    name = _DIGEST(f"{source_key()} {llvmlite.__version__} {host} {made_by}".encode()).hexdigest()[:16]
    return cache_folder() / f"{name}.o"


def is_compiled() -> bool:
    """Whether the kernels were compiled on this machine before."""
    return machine_code_file().exists()


def read_whole(path: Path) -> bytes | None:
    """What ``write_whole`` wrote; None if it is not there or not whole."""
    try:
        written = path.read_bytes()
    except OSError:
        return None
    size = _DIGEST().digest_size
    return written[size:] if _DIGEST(written[size:]).digest() == written[:size] else None


def write_whole(path: Path, content: bytes) -> None:
    """Keep ``content`` if the folder can be written to. Other readers see all of it or nothing."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(_DIGEST(content).digest() + content)
        os.replace(file.name, path)
