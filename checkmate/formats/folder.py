"""Write an export's folder beside its place, then move it there whole."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkmate.errors import ExportError

_EXPORTED = ("schedule.json", "export.json")  # one of them is in every export
_HERE, _EXCHANGE = -100, 2  # as linux/fcntl.h and linux/fs.h name them: AT_FDCWD, RENAME_EXCHANGE


@contextmanager
def staging(directory: Path) -> Iterator[Path]:
    """Yield a new folder beside ``directory``, removed at the end unless it was moved into place.

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
    except OSError as error:
        raise ExportError(
            f"cannot write {directory}: {error.strerror or error}",
            hint="choose another output folder, or free some space",
        ) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def put_in_place(staged: Path, directory: Path) -> None:
    """Move ``staged`` to ``directory``; an earlier export is removed last.

    Where the system can exchange two folders at once, there is a whole export at any moment.

    Raises:
        ExportError: ``directory`` has other contents than an earlier export. OSError: it cannot be moved; the
        earlier export is where it was.
    """
    os.chmod(staged, 0o755)
    if not directory.exists():
        os.rename(staged, directory)
        return
    if any(directory.iterdir()) and not any((directory / name).exists() for name in _EXPORTED):
        raise ExportError(
            f"{directory} is not empty and holds no earlier export", hint="choose another output folder"
        )
    if _exchanged(staged, directory):
        return  # whoever staged it removes what is there now
    old = Path(tempfile.mkdtemp(prefix=f".{directory.name}-old-", dir=directory.absolute().parent))
    os.rename(directory, old / "old")
    try:
        os.rename(staged, directory)
    except OSError:
        os.rename(old / "old", directory)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders at once; return whether the system could."""
    try:
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    return bool(exchange(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0)
