from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPaintEngine, QPainter, QPixmap

from app.views.common.painting import smooth
from app.views.graph.paint import Part


@dataclass(frozen=True)
class PartPlace:
    """The transform from layout units to a view.

    Attributes:
        offset: the origin's place, in pixels.
        scale: pixels per unit.
        size: the view's size, in pixels.
        ratio: device pixels (of the screen or of a picture) per pixel of the view.
    """

    offset: QPointF
    scale: float
    size: QSize
    ratio: float

    @classmethod
    def sharp(cls, offset: QPointF, scale: float, size: QSize, ratio: float) -> PartPlace:
        """Round the offset to whole device pixels, so that cached and newly drawn parts look the same."""
        x, y = (round(at * ratio) / ratio for at in (offset.x(), offset.y()))
        return cls(QPointF(x, y), scale, size, ratio)

    @property
    def seen(self) -> QRectF:
        return QRectF(-self.offset / self.scale, self.size.toSizeF() / self.scale)

    def draw(self, painter: QPainter, draw: Callable[[QPainter], None]) -> None:
        painter.save()
        painter.translate(self.offset)
        painter.scale(self.scale, self.scale)
        draw(painter)
        painter.restore()


class KeptParts:
    """Paints small parts from cached pictures; only those of visible parts stay cached."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def paint(self, painter: QPainter, parts: Iterable[Part], placed: PartPlace) -> None:
        before, self._kept = self._kept, {}
        left, top = placed.offset.x(), placed.offset.y()
        for part in parts:
            looks = *part.looks, placed.scale, placed.ratio
            kept = before.get(part.name)
            if kept is None or kept.looks != looks:
                kept = _drawn(part, placed, looks)
            self._kept[part.name] = kept
            painter.drawPixmap(QPointF(left + kept.left, top + kept.top), kept.pixels)


class _Kept(NamedTuple):
    """A part's picture, and the offset of its corner from the origin, in pixels."""

    looks: tuple[object, ...]
    pixels: QPixmap
    left: float
    top: float


def _drawn(part: Part, placed: PartPlace, looks: tuple[object, ...]) -> _Kept:
    dense = placed.scale * placed.ratio
    area = QRectF(part.area.topLeft() * dense, part.area.size() * dense).toAlignedRect()
    corner = QPointF(area.topLeft()) / placed.ratio

    def draw(inside: QPainter) -> None:
        inside.translate(-corner)
        inside.scale(placed.scale, placed.scale)
        part.draw(inside)

    return _Kept(looks, _pixels(area.size(), placed.ratio, draw), corner.x(), corner.y())


def _pixels(size: QSize, ratio: float, draw: Callable[[QPainter], None]) -> QPixmap:
    pixels = QPixmap(size)
    pixels.setDevicePixelRatio(ratio)
    pixels.fill(Qt.GlobalColor.transparent)
    inside = smooth(pixels)
    draw(inside)
    inside.end()
    return pixels


_MOST_PIXELS = 4_000_000  # a larger drawing is cached in part
_ROOM = 0.5  # how far beyond each edge of the view that part reaches, as a share of the view's size


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
        placed: PartPlace,
    ) -> None:
        """Paint the visible part of a drawing, or all into a file. ``draw`` draws it around its own origin;
        ``of`` is all that its looks depend on, ``whole`` its area, in pixels of the screen."""
        offset, size, ratio = placed.offset, placed.size, placed.ratio
        if painter.paintEngine().type() != QPaintEngine.Type.Raster:
            replace(placed, scale=1.0).draw(painter, draw)
            return
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
        # Rounded to whole device pixels, else the cached picture would be blurred.
        at = offset + self._area.topLeft()
        painter.drawPixmap(
            QPointF(round(at.x() * ratio) / ratio, round(at.y() * ratio) / ratio), self._pixels
        )

    def _drawn(self, draw: Callable[[QPainter], None], ratio: float) -> QPixmap:
        def moved(inside: QPainter) -> None:
            inside.translate(-self._area.topLeft())
            draw(inside)

        return _pixels((self._area.size() * ratio).toSize(), ratio, moved)
