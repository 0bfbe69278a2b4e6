"""Write the entry of the desktop's applications menu, with its icon, for this user only.

A wheel cannot bring one: no desktop looks where it installs. Places and format follow the freedesktop.org
specifications of desktop entries and icon themes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs

from checkmate.catalog.bundled import contents, resource
from checkmate.errors import ExportError, UsageError
from checkmate.formats.files import write_bytes

APPLICATION_ID = "checkmate-explorer"  # tells a desktop that entry, icon and window are one program
_THEME = Path("icons", "hicolor")
_QUOTED = " \t\n\"'\\><~|&;$*?#()`"  # characters that make an argument of Exec need quotes
_ESCAPED = '"`$\\'


def data_folder() -> Path:
    """Raise UsageError where this system has no desktop entries."""
    if not sys.platform.startswith("linux"):
        raise UsageError("desktop entries are for Linux", hint="start the window with: checkmate explore")
    return Path(platformdirs.user_data_dir())


def install_entry(data: Path) -> list[Path]:
    """Write the entry and its icons below ``data``, over those of another installation; return the files."""
    files = _files(data)
    for path, body in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ExportError(
                f"cannot make {path.parent}: {error.strerror or error}",
                hint="set XDG_DATA_HOME to another data folder",
            ) from error
        write_bytes(path, body)
    _tell_of_icons(data)
    return list(files)


def remove_entry(data: Path) -> list[Path]:
    """Remove what ``install_entry`` wrote below ``data``; return the files that were there."""
    found = [path for path in _files(data) if path.exists()]
    for path in found:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ExportError(f"cannot remove {path}: {error.strerror or error}") from error
    if found:
        _tell_of_icons(data)
    return found


def entry_text() -> str:
    # -P: do not import a folder called checkmate from the current folder.
    command = [sys.executable, "-P", "-m", "checkmate", "explore"]
    line = "Exec=" + " ".join([*map(_quoted, command), "%f"])
    given = resource("desktop", f"{APPLICATION_ID}.desktop").read_text(encoding="utf-8")
    return "".join(f"{line if old.startswith('Exec=') else old}\n" for old in given.splitlines())


def _files(data: Path) -> dict[Path, bytes]:
    """Return each file's content; the entry comes last, so that its icon is there when a desktop sees it."""
    drawing = resource("icons", f"{APPLICATION_ID}.svg").read_bytes()
    found = {data / _THEME / "scalable" / "apps" / f"{APPLICATION_ID}.svg": drawing}
    for picture in contents("icons", ".png"):
        size = picture.name.removesuffix(".png").rpartition("-")[2]
        found[data / _THEME / f"{size}x{size}" / "apps" / f"{APPLICATION_ID}.png"] = picture.read_bytes()
    found[data / "applications" / f"{APPLICATION_ID}.desktop"] = entry_text().encode("utf-8")
    return found


def _quoted(argument: str) -> str:
    if any(character in _QUOTED for character in argument):
        argument = '"' + "".join(f"\\{c}" if c in _ESCAPED else c for c in argument) + '"'
    return argument.replace("\\", "\\\\").replace("%", "%%")


def _tell_of_icons(data: Path) -> None:
    # A folder newer than a desktop's cache of it is read again.
    theme = data / _THEME
    if theme.is_dir():
        os.utime(theme)
