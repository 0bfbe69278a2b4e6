"""A large schedule on its way to the screen: what is drawn of it is worked out over several turns of the event loop."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from app.models.what_if import Found

_AT_ONCE = 1000  # steps; what is drawn of more would be felt


class Coming(QObject):
    """Has ``show`` called with whatever ``best`` then is, at once where that is small or there is nothing to work out."""

    def __init__(self, best: Callable[[], Found | None], show: Callable[[Found | None], None], parent: QObject) -> None:
        super().__init__(parent)
        self._best, self._show = best, show
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._on_turn)

    def start(self) -> None:
        """Something better may be there."""
        best = self._best()
        if best is None or len(best.schedule.steps) <= _AT_ONCE:
            self._timer.stop()
            self._show(best)
        else:
            self._timer.start()

    def finish(self) -> None:
        """Show now what still waits."""
        if self._timer.isActive():
            self._timer.stop()
            self._show(self._best())

    def forget(self) -> None:
        """Something else is shown."""
        self._timer.stop()

    def _on_turn(self) -> None:
        best = self._best()
        if best is None or best.prepare():
            self.finish()
