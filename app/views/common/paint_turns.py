"""Views that change together are painted one after the other. Each painting is short, but all of them at once
would hold up the window. What has not been painted yet keeps its old picture."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt, QTimer
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QRegion
from PySide6.QtWidgets import QWidget


class PaintTurns(QObject):
    """Lets ``views`` paint in turn; each keeps its old picture until then. Each view gets a turn of the event
    loop. The next in turn is the one that has waited longest, so that all are painted however often they
    change."""

    def __init__(self, views: Sequence[QWidget], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._covers = tuple(_Cover(view) for view in views)
        self._waiting: list[_Cover] = []
        self._turn: _Cover | None = None
        self._undrawn: list[_Cover] = []
        self._page: _Cover | None = None
        self._rests = False
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self._next)

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._undrawn)

    def begin(self) -> None:
        for cover in self._covers:
            # The view whose turn it is may not have been painted yet.
            busy = cover is self._turn or cover in self._waiting or cover in self._undrawn
            if not busy and cover.keep_screen():
                self._waiting.append(cover)
        self._start()

    def turn_page(self, pages: QWidget) -> None:
        """Keep the picture of ``pages`` until all views of a new page are drawn."""
        self._page = self._page or _Cover(pages)
        if self._page.keep_screen():
            self._undrawn, self._waiting = list(self._covers), []
            self._start()

    def finish(self) -> None:
        self._rests = False
        while self.waiting:
            self._next()

    def _start(self) -> None:
        if not self._timer.isActive():
            # Wait one turn, so that other changes, such as a new page, are painted first.
            self._rests = True
            self._timer.start()

    def _next(self) -> None:
        if self._rests:
            self._rests = False
            return
        if self._undrawn:
            cover = self._undrawn.pop(0)
            cover.keep_drawing()
            self._waiting.append(cover)
            if not self._undrawn and self._page is not None:
                self._page.clear()
            return
        self._turn = self._waiting.pop(0) if self._waiting else None
        if self._turn is not None:
            self._turn.clear()  # which asks for the view's painting before the next turn
        else:
            self._timer.stop()


class _Cover(QWidget):
    """An opaque picture of ``view``, laid over it, so that Qt paints nothing below. It goes when the view is
    resized."""

    def __init__(self, view: QWidget) -> None:
        super().__init__(view)
        self._view, self._picture = view, QImage()
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.resize(0, 0)
        self.show()
        view.installEventFilter(self)

    def keep_screen(self) -> bool:
        """Cover the view with what the screen shows of it; return whether there was anything to show."""
        part = visible_part(self._view)
        picture = None if part.isEmpty() else _on_screen(self._view, part)
        if picture is not None:
            self._show(picture, part)
        return picture is not None

    def keep_drawing(self) -> None:
        self.clear()
        self._show(self._view.grab().toImage(), self._view.rect())

    def clear(self) -> None:
        # Not hidden: that would lay out the view again.
        self._picture = QImage()
        self.setGeometry(0, 0, 0, 0)

    def _show(self, picture: QImage, part: QRect) -> None:
        self._picture = picture
        self.setGeometry(part)
        self.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self.clear()
        return super().eventFilter(watched, event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.drawImage(QPoint(0, 0), self._picture)
        painter.end()


def visible_part(view: QWidget) -> QRect:
    """Return what is seen of a view in its window, in the view's own pixels."""
    if not view.isVisible():
        return QRect()
    part, corner, inner = view.rect(), QPoint(0, 0), view
    outer = inner.parentWidget()
    while outer is not None and not inner.isWindow():
        corner += inner.pos()
        part &= outer.rect().translated(-corner)
        inner, outer = outer, outer.parentWidget()
    return part


def _on_screen(view: QWidget, part: QRect) -> QImage | None:
    """Return the pixels that the window painted last; None if it was resized since."""
    window, store = view.window(), view.backingStore()
    if store is None or store.size() != window.size():
        return None
    store.beginPaint(QRegion())
    pixels = store.paintDevice()
    picture = None
    if isinstance(pixels, QImage):
        ratio = pixels.devicePixelRatio()
        place = QRectF(view.mapTo(window, part.topLeft()), part.size())
        picture = pixels.copy(QRectF(place.topLeft() * ratio, place.size() * ratio).toRect())
    store.endPaint()
    return picture
