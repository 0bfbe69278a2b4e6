"""Parts of the training graph, kept as pictures.

From one step to the next, few parts change their looks; only those are drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPixmap

from app.views.graph.paint import Part


@dataclass(frozen=True)
class PartPlace:
    """Where the layout's units lie in a view.

    Attributes:
        offset: of their origin, in pixels.
        scale: the pixels of one unit.
        size: the view's, in pixels.
        ratio: the pixels of the screen, or of a picture, to one of the view.
    """

    offset: QPointF
    scale: float
    size: QSize
    ratio: float

    @classmethod
    def sharp(cls, offset: QPointF, scale: float, size: QSize, ratio: float) -> PartPlace:
        """Return the nearest place on whole pixels of the screen.

        A part looks there the same from its picture and drawn anew.
        """
        x, y = (round(at * ratio) / ratio for at in (offset.x(), offset.y()))
        return cls(QPointF(x, y), scale, size, ratio)

    @property
    def seen(self) -> QRectF:
        return QRectF(-self.offset / self.scale, self.size.toSizeF() / self.scale)

    def draw(self, painter: QPainter, draw: Callable[[QPainter], None]) -> None:
        """Draw something that is in the layout's units."""
        painter.save()
        painter.translate(self.offset)
        painter.scale(self.scale, self.scale)
        draw(painter)
        painter.restore()


class KeptParts:
    """Paints small parts from pictures; keeps those of parts in view."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def paint(self, painter: QPainter, parts: Iterable[Part], placed: PartPlace) -> None:
        """Paint some parts, the first one lowest."""
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
    """A part's picture, and where its corner is from the origin, in pixels."""

    looks: tuple[object, ...]
    pixels: QPixmap
    left: float
    top: float


def _drawn(part: Part, placed: PartPlace, looks: tuple[object, ...]) -> _Kept:
    """Draw a part on whole pixels of the screen."""
    dense = placed.scale * placed.ratio
    area = QRectF(part.area.topLeft() * dense, part.area.size() * dense).toAlignedRect()
    pixels = QPixmap(area.size())
    pixels.setDevicePixelRatio(placed.ratio)
    pixels.fill(Qt.GlobalColor.transparent)
    inside = QPainter(pixels)
    inside.setRenderHint(QPainter.RenderHint.Antialiasing)
    corner = QPointF(area.topLeft()) / placed.ratio
    inside.translate(-corner)
    inside.scale(placed.scale, placed.scale)
    part.draw(inside)
    inside.end()
    return _Kept(looks, pixels, corner.x(), corner.y())
