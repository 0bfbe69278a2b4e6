"""Look at the folders that the program writes to.

Where they are, how full they are, and whether they can be written to.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from checkmate.doctor.facts.values import Folder
from checkmate.machine.stores.cost_store import default_path
from checkmate.machine.stores.plan_folder import default_folder


def folders_here(sessions: str | None) -> tuple[Folder, ...]:
    """Return the caches, the saved explorations and the temporary files.

    The folder of saved explorations is left out where it is not known.
    """
    found = [
        folder_at("cost-cache", "Cost cache", default_path().parent),
        folder_at("plan-cache", "Plan cache", default_folder()),
        _kernels(),
    ]
    if sessions is not None:
        found.append(folder_at("sessions", "Explorations", Path(sessions)))
    return (*found, _temporary())


def _temporary() -> Folder:
    try:
        return folder_at("temporary", "Temp folder", Path(tempfile.gettempdir()), counted=False)
    except OSError as error:  # Python found no place that can be written to
        return Folder("temporary", "Temp folder", "", 0, 0, error.strerror or str(error))


def _kernels() -> Folder:
    from checkmate.solvers.compile.cache import cache_folder, is_compiled

    try:
        note = "compiled" if is_compiled() else "the first search compiles them, once"
    except ImportError:  # llvmlite: the solvers' line says so
        note = ""
    return folder_at("kernel-cache", "Kernel cache", cache_folder(), note=note)


def folder_at(name: str, title: str, path: Path, *, note: str = "", counted: bool = True) -> Folder:
    """Return the facts about ``path``, which may not exist yet.

    A file is written beside it for a moment. ``counted``: add up the sizes of the files in it.
    """
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if os.path.exists(folder))
    problem = "" if there.is_dir() else f"{there} is a file, not a folder"
    if not problem:
        try:
            with tempfile.TemporaryFile(dir=there) as file:
                file.write(b"x")
        except OSError as error:
            problem = error.strerror or str(error)
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        free = 0
    return Folder(name, title, str(path), _bytes_in(path) if counted else 0, free, problem, note)


def _bytes_in(path: Path) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
