"""Check whether the window can open: ``python -m app.look`` for the doctor, ``… screen`` for the display
alone.

The check may crash, so it has a process of its own, and writes what it finds to standard output
(``checkmate.processes.stages``).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from checkmate.processes.own import end_with_parent
from checkmate.processes.stages import Teller

_LDD_S = 5.0


def main() -> int:
    end_with_parent()
    tell = Teller()
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        draw_offscreen()
    if not tell.stage("qt", _qt):
        tell.end()
    tell.stage("plugin", missing_libraries)
    if sys.argv[1:] == ["screen"]:
        tell.stage("screen", _screen)
        tell.end()
    if tell.stage("widgets", _widgets):
        tell.stage("plotting", _plotting)
        tell.stage("screen", _screen)
    tell.stage("state", _state)
    tell.end()
    return 0


def draw_offscreen() -> None:
    """Let Qt draw without a screen, unless ``QT_QPA_PLATFORM`` is set. Call it before Qt starts."""
    if sys.platform == "linux" and not os.environ.get("QT_QPA_PLATFORM"):
        os.environ["QT_QPA_PLATFORM"] = "offscreen"


def _qt() -> str:
    import PySide6
    from PySide6 import QtCore  # noqa: F401  a broken Qt fails here

    return PySide6.__version__


def missing_libraries() -> list[str]:
    """The system libraries that the plug-in for X11 lacks."""
    from PySide6.QtCore import QLibraryInfo

    folder = Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath))
    plugin = folder / "platforms" / "libqxcb.so"
    if not plugin.exists():
        return []
    try:
        said = subprocess.run(["ldd", str(plugin)], capture_output=True, text=True, timeout=_LDD_S).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    lacking = [line.split()[0] for line in said.splitlines() if "not found" in line]
    return list(dict.fromkeys(lacking))  # ldd names a library once for each that wants it


def _widgets() -> bool:
    from PySide6 import QtGui, QtWidgets

    return bool(QtGui.QGuiApplication) and bool(QtWidgets.QApplication)


def _plotting() -> str:
    import pyqtgraph

    return str(pyqtgraph.__version__)


def _screen() -> dict[str, Any]:
    from PySide6.QtGui import QGuiApplication

    application = QGuiApplication(sys.argv[:1])
    screen = application.primaryScreen()
    size = [screen.size().width(), screen.size().height()] if screen is not None else []
    return {"platform": application.platformName(), "size": size}


def _state() -> str:
    from app.models.recovery import sessions_folder

    return os.fspath(sessions_folder())


if __name__ == "__main__":
    sys.exit(main())
