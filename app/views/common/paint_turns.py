"""Views that change together are painted one after the other.

Each painting is short, but all of them at once would hold up the window.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QWidget


class PaintTurns(QObject):
    """Holds back the painting of ``views``; each paints in turn.

    Each view gets a turn of the event loop. A view that is held back keeps its old picture on screen. The
    next in turn is the one that has waited longest, so that all are painted however often they change.
    """

    def __init__(self, views: Sequence[QWidget], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._views = tuple(views)
        self._waiting: list[QWidget] = []
        self._turn: QWidget | None = None
        self._rests = False
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._next)

    @property
    def waiting(self) -> int:
        """Return how many views are still to be painted."""
        return len(self._waiting)

    def begin(self) -> None:
        """Begin anew, because all views have changed."""
        for view in self._views:
            if view not in self._waiting and view is not self._turn:  # whose painting may still be to come
                view.setUpdatesEnabled(False)
                self._waiting.append(view)
        if not self._timer.isActive():
            # What else has changed, such as a page that comes on screen, is painted before the first of them.
            self._rests = True
            self._timer.start()

    def finish(self) -> None:
        """Paint all views at once, for example for a picture of the window."""
        self._rests = False
        while self._waiting:
            self._next()

    def _next(self) -> None:
        if self._rests:
            self._rests = False
            return
        self._turn = self._waiting.pop(0) if self._waiting else None
        if self._turn is not None:
            self._turn.setUpdatesEnabled(True)  # which asks for its painting before the next turn
        else:
            self._timer.stop()
