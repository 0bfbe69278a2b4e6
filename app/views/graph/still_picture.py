"""A drawing that moves but does not change, kept as pixels.

When it is dragged, only the edge that comes into view is drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPixmap

_MOST_PIXELS = 4_000_000  # of a whole drawing; of a larger one,
_ROOM = 0.5  # this share of the view's size is drawn beyond each of its edges


class StillPicture:
    """Pixels of a drawing, or of its visible part and some space around it."""

    def __init__(self) -> None:
        self._pixels: QPixmap | None = None
        self._of: tuple[object, ...] = ()
        self._area = QRectF()

    def paint(
        self,
        painter: QPainter,
        draw: Callable[[QPainter], None],
        *,
        of: tuple[object, ...],
        whole: QRectF,
        offset: QPointF,
        size: QSize,
        ratio: float,
    ) -> None:
        """Paint the visible part of the drawing.

        ``draw`` draws it around its own origin, which lies at ``offset`` in the view. ``of`` is all that its
        looks depend on. ``whole`` is the drawing's area, ``size`` the view's. All are in pixels of the
        screen; the picture is ``ratio`` times as sharp.
        """
        visible = QRectF(-offset, size.toSizeF()).intersected(whole)
        if visible.isEmpty():
            return
        if self._pixels is None or self._of != (of, ratio) or not self._area.contains(visible):
            self._of = (of, ratio)
            if whole.width() * whole.height() * ratio**2 > _MOST_PIXELS:
                x, y = _ROOM * size.width(), _ROOM * size.height()
                whole = visible.adjusted(-x, -y, x, y).intersected(whole)
            self._area = QRectF(whole.toAlignedRect())
            self._pixels = self._drawn(draw, ratio)
        # On whole pixels, where it is as sharp as it was drawn.
        at = offset + self._area.topLeft()
        painter.drawPixmap(
            QPointF(round(at.x() * ratio) / ratio, round(at.y() * ratio) / ratio), self._pixels
        )

    def _drawn(self, draw: Callable[[QPainter], None], ratio: float) -> QPixmap:
        pixels = QPixmap((self._area.size() * ratio).toSize())
        pixels.setDevicePixelRatio(ratio)
        pixels.fill(Qt.GlobalColor.transparent)
        inside = QPainter(pixels)
        inside.setRenderHint(QPainter.RenderHint.Antialiasing)
        inside.translate(-self._area.topLeft())
        draw(inside)
        inside.end()
        return pixels
