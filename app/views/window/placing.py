"""Where the window is on the screen, and how it comes back there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QSettings, QSize, Qt

if TYPE_CHECKING:
    from app.views.window.main_window import MainWindow

_SHARE = 0.9  # of a small screen, for a window that is no longer maximized


def place(window: MainWindow, wanted: QSize, settings: QSettings | None, *, fits: bool) -> None:
    """Take size and place from ``settings``, or the size ``wanted``.

    Where it ``fits`` the screen, a window that would be larger with its frame is maximized.
    """
    kept = None if settings is None else settings.value("window/geometry")
    if isinstance(kept, QByteArray) and window.restoreGeometry(kept):
        return
    room = window.screen().availableGeometry()
    window.resize(wanted)
    if fits and (room.width() <= wanted.width() or room.height() <= wanted.height()):
        window.resize(wanted.boundedTo(room.size() * _SHARE))
        window.setWindowState(Qt.WindowState.WindowMaximized)


def keep_placed(window: MainWindow, settings: QSettings) -> None:
    """Write the window's size and place, and where its panels are."""
    settings.setValue("window/geometry", window.saveGeometry())
    if window.panel_area is not None:
        window.panel_area.keep(settings)
