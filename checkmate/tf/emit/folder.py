"""Write an export's folder beside its place, then move it there whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkmate.errors import ExportError


@contextmanager
def staging(directory: Path) -> Iterator[Path]:
    """Yield a new folder beside ``directory``.

    It is removed at the end unless it was moved into place.

    Raises:
        ExportError: the parent cannot be written to, or ``directory`` is a file.
    """
    if directory.exists() and not directory.is_dir():
        raise ExportError(f"{directory} is a file, not a folder", hint="choose another output folder")
    parent = directory.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        if directory.exists() and not os.access(directory, os.W_OK):
            raise PermissionError(13, "Permission denied")
        staged = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=parent))
    except OSError as error:
        raise ExportError(
            f"cannot write to {parent}: {error.strerror or error}", hint="choose another output folder"
        ) from error
    try:
        yield staged
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def put_in_place(staged: Path, directory: Path) -> None:
    """Move ``staged`` to ``directory``; an earlier export is removed last.

    Raises:
        ExportError: ``directory`` has other contents than an earlier export.
    """
    os.chmod(staged, 0o755)
    if not directory.exists():
        os.rename(staged, directory)
        return
    if any(directory.iterdir()) and not (directory / "schedule.json").exists():
        raise ExportError(
            f"{directory} is not empty and holds no earlier export", hint="choose another output folder"
        )
    old = Path(tempfile.mkdtemp(prefix=f".{directory.name}-old-", dir=directory.absolute().parent))
    os.rename(directory, old / "old")
    os.rename(staged, directory)
    shutil.rmtree(old, ignore_errors=True)
