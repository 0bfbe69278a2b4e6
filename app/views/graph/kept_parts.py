"""Parts of the training graph, kept as pictures.

From one step to the next, few parts change their looks; only those are drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QPainter

from app.views.graph.paint import Part
from app.views.graph.still_picture import StillPicture


@dataclass(frozen=True)
class Placed:
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
    def sharp(cls, offset: QPointF, scale: float, size: QSize, ratio: float) -> Placed:
        """Return the nearest place on whole pixels of the screen.

        A part looks there the same from its picture and drawn anew.
        """
        x, y = (round(at * ratio) / ratio for at in (offset.x(), offset.y()))
        return cls(QPointF(x, y), scale, size, ratio)

    @property
    def seen(self) -> QRectF:
        """Return the part that is in view."""
        return QRectF(-self.offset / self.scale, self.size.toSizeF() / self.scale)

    def draw(self, painter: QPainter, draw: Callable[[QPainter], None]) -> None:
        """Draw something that is in the layout's units."""
        painter.save()
        painter.translate(self.offset)
        painter.scale(self.scale, self.scale)
        draw(painter)
        painter.restore()

    def keep(
        self,
        painter: QPainter,
        draw: Callable[[QPainter], None],
        *,
        kept: StillPicture,
        of: tuple[object, ...],
        whole: QRectF,
    ) -> None:
        """Draw something from its picture; ``whole`` is its area."""
        kept.paint(
            painter,
            lambda inside: Placed(QPointF(), self.scale, self.size, self.ratio).draw(inside, draw),
            of=(*of, self.scale),
            whole=QRectF(whole.topLeft() * self.scale, whole.size() * self.scale),
            offset=self.offset,
            size=self.size,
            ratio=self.ratio,
        )


class KeptParts:
    """Paints parts from pictures, and keeps the pictures of those in view."""

    def __init__(self) -> None:
        self._pictures: dict[Hashable, StillPicture] = {}

    def paint(self, painter: QPainter, parts: Iterable[Part], placed: Placed) -> None:
        """Paint some parts, the first one lowest."""
        before, self._pictures = self._pictures, {}
        for part in parts:
            kept = before.get(part.name) or StillPicture()
            self._pictures[part.name] = kept
            placed.keep(painter, part.draw, kept=kept, of=part.looks, whole=part.area)
