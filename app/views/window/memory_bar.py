"""A bar of the allocator's limit: what is in use, free and asked for."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.presenters.record_rows import BarPart, asked_part, bar_parts
from app.theme import CurrentTheme
from checkmate.records.memory import MemoryRecord
from checkmate.units import format_bytes

_HIGH, _ASKED_HIGH, _GAP, _SWATCH = 22, 10, 4, 12  # pixels
_LEAST = 2.0  # pixels of a part


class MemoryBar(QWidget):
    """Draws the parts of ``record``, and names each with its bytes below."""

    def __init__(self, theme: CurrentTheme) -> None:
        super().__init__()
        self._theme = theme
        self._parts: tuple[BarPart, ...] = ()
        self._asked: BarPart | None = None
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        theme.changed.connect(self.update)

    def show_record(self, record: MemoryRecord) -> None:
        """Draw another record; a bar without a limit is hidden."""
        self._parts, self._asked = bar_parts(record), asked_part(record)
        self.setVisible(bool(self._parts))
        self.setAccessibleName("Memory: " + ", ".join(self.words))
        self.updateGeometry()
        self.update()

    @property
    def words(self) -> list[str]:
        return [f"{part.words} {format_bytes(part.bytes)}" for part in self._listed]

    @property
    def _listed(self) -> list[BarPart]:
        return [*self._parts, *([self._asked] if self._asked is not None else [])]

    def sizeHint(self) -> QSize:
        return QSize(320, self.heightForWidth(320))

    def minimumSizeHint(self) -> QSize:
        return QSize(200, self.heightForWidth(max(200, self.width())))

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        """Return the height with the legend in as many lines as it needs."""
        high = _HIGH + 2 * _GAP + (_ASKED_HIGH + _GAP if self._asked is not None else 0)
        return high + len(self._lines(width)) * self._line_height()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        whole = sum(part.bytes for part in self._parts)
        used = self._parts[0].bytes if self._parts else 0
        asked = 0 if self._asked is None else self._asked.bytes
        scale = (self.width() - 2) / max(1, whole, used + asked)
        left, top = 1.0, 1.0
        for part in self._parts:
            wide = max(_LEAST, part.bytes * scale)
            self._draw(painter, QRectF(left, top, wide, _HIGH), part)
            left += wide
        top += _HIGH + _GAP
        if self._asked is not None:
            # Below what was free: it begins where the free memory does.
            wide = max(_LEAST, asked * scale)
            self._draw(painter, QRectF(1 + used * scale, top, wide, _ASKED_HIGH), self._asked)
            top += _ASKED_HIGH + _GAP
        self._draw_legend(painter, top)

    def _draw(self, painter: QPainter, where: QRectF, part: BarPart) -> None:
        color = self._theme.color(part.role)
        painter.setPen(QPen(color, 1))
        painter.setBrush(self._brush(part, color))
        painter.drawRect(where)

    def _brush(self, part: BarPart, color: QColor) -> QBrush:
        if part.solid:
            return QBrush(color)
        if part.hatched:
            dense = part.role == "held"
            return QBrush(color, Qt.BrushStyle.FDiagPattern if dense else Qt.BrushStyle.DiagCrossPattern)
        return QBrush(Qt.BrushStyle.NoBrush)

    def _draw_legend(self, painter: QPainter, top: float) -> None:
        height = self._line_height()
        for number, line in enumerate(self._lines(self.width())):
            y = top + number * height
            for part, words, left, wide in line:
                swatch = QRectF(left + 1, y + (height - _SWATCH) / 2, _SWATCH, _SWATCH)
                self._draw(painter, swatch, part)
                painter.setPen(self._theme.color("text"))
                place = QRectF(left + _SWATCH + 6, y, wide, height)
                painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, words)

    def _lines(self, width: int) -> list[list[tuple[BarPart, str, float, float]]]:
        """Return the legend's entries line by line, as many in each as fit."""
        lines: list[list[tuple[BarPart, str, float, float]]] = [[]]
        left = 0.0
        for part, words in zip(self._listed, self.words, strict=True):
            wide = self.fontMetrics().horizontalAdvance(words) + 2.0
            if lines[-1] and left + _SWATCH + 6 + wide > width:
                lines.append([])
                left = 0.0
            lines[-1].append((part, words, left, wide))
            left += _SWATCH + 6 + wide + 18
        return lines

    def _line_height(self) -> int:
        return self.fontMetrics().height() + 4
