"""Look into the HDF5 data of a model file, in a process of its own.

HDF5's library may run for ever, or crash, on a damaged file: the process has a limit of the processor's time
and of memory. A file that says that it holds far more than it does, or that reads other files, is refused."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import zipfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from checkmate.catalog.file_kind import HDF5, MOST_TIMES, MOST_UNPACKED
from checkmate.errors import ModelReadError, UnsafeModelError
from checkmate.processes.children import module_command

_CPU_S, _MEMORY = 10, 4 * 2**30
_UNREADABLE = (OSError, ValueError, RuntimeError, LookupError, TypeError, NotImplementedError, EOFError)


@dataclass
class Declared:
    """What the HDF5 data declares: bytes of all datasets, its own size, another file that it reads."""

    bytes: int = 0
    held: int = 0
    elsewhere: str = ""


def require_own_data(path: Path, kind: str) -> None:
    """Raise unless the model file itself holds what it declares. What HDF5 cannot read is left to Keras,
    which says why."""
    command = module_command("checkmate.models.declared", str(path), kind)
    ended = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    if ended.returncode < 0:
        raise ModelReadError(
            f"{path} is damaged: HDF5's library {_how(-ended.returncode)} when it reads it",
            hint="save or copy the model again",
        )
    try:
        found = Declared(**json.loads(ended.stdout))
    except (ValueError, TypeError):
        return  # the process could not look; this one says why
    if found.elsewhere:
        raise UnsafeModelError(
            f"{path} reads its data from another file ({found.elsewhere})",
            hint="save the model with model.save('model.keras'), which holds all of its data",
        )
    if found.bytes > max(MOST_UNPACKED, MOST_TIMES * found.held):
        raise ModelReadError(
            f"{path} says that it holds {found.bytes:,} bytes of weights, and has {found.held:,}",
            hint="the file is damaged, or made to take up memory; save or copy the model again",
        )


def _how(number: int) -> str:
    return "does not end" if number in (signal.SIGXCPU, signal.SIGKILL) else "crashes"


def _look(path: Path, kind: str) -> Declared:
    found = Declared()
    if kind == HDF5:
        found.held = path.stat().st_size
        _look_into(path, found)
        return found
    with zipfile.ZipFile(path) as archive:
        for part in archive.infolist():
            if part.filename.endswith(HDF5):
                found.held += part.file_size
                with archive.open(part) as file:
                    _look_into(file, found)
    return found


def _look_into(file: Any, found: Declared) -> None:
    import h5py

    with h5py.File(file, "r") as opened:
        waiting, seen = [opened], set[int]()
        while waiting and not found.elsewhere:
            here = waiting.pop()
            for name in here.attrs:
                here.attrs[name]
            for name in here if isinstance(here, h5py.Group) else ():
                link = here.get(name, getlink=True)
                if isinstance(link, h5py.ExternalLink):
                    found.elsewhere = str(link.filename)
                    return
                entry = here.get(name)
                if entry is not None and hash(entry.id) not in seen:
                    seen.add(hash(entry.id))
                    waiting.append(entry)
            if isinstance(here, h5py.Dataset):
                found.bytes += int(here.size or 0) * here.dtype.itemsize
                if here.external or here.is_virtual:
                    found.elsewhere = "external storage"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        said = _look(Path(sys.argv[1]), sys.argv[2])
    except (*_UNREADABLE, MemoryError, zipfile.BadZipFile, zlib.error):
        sys.exit(2)
    sys.stdout.write(json.dumps(asdict(said)))
