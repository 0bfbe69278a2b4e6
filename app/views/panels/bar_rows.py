from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPointF,
    QRectF,
    QSize,
    Qt,
)
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QListView, QStyledItemDelegate, QStyleOptionViewItem

from app.models.span import StepSpan
from app.presenters.hotspot_rows import HotspotRow
from app.presenters.search import LayerRow
from app.presenters.wording import NameCut
from app.theme import CurrentTheme
from app.views.common.painting import LEFT, RIGHT, ink, sized

_Index = QModelIndex | QPersistentModelIndex
SHARE, FIGURE, OP, DETAIL, MARK, PIN = (Qt.ItemDataRole.UserRole + number for number in range(6))
# Pixels: bar, column of figures, row width that has room for bars.
_BAR, _FIGURES, _BARS_FROM = 44.0, 62.0, 230
_INSET = 8  # pixels before the text, where the mark of the selected row is
_SMALL, _SECOND_LINE, _MARK, _PIN = 11, 17, 16.0, 10.0


class BarDelegate(QStyledItemDelegate):
    """Paints one row: name, bar, figure and detail. The name is on the left, then a bar for ``SHARE``;
    ``FIGURE`` is on the right, and ``DETAIL`` below. ``MARK`` is a letter in a square before the name; if it
    is empty, only its space is kept. ``PIN`` says whether a pin stands before the name."""

    def __init__(self, theme: CurrentTheme, role: str) -> None:
        super().__init__()
        self._theme, self.role = theme, role
        self.names = NameCut()  # knows the names of all rows, to cut long names so that they differ

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        height = super().sizeHint(option, index).height()
        # Rows are as wide as the list: long names are cut, so that it never scrolls sideways.
        return QSize(1, height + _SECOND_LINE if index.data(DETAIL) else height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        painter.save()
        if option.state & option.state.State_Selected:
            ink(painter, None, self._theme.color("selected"))
            painter.drawRoundedRect(QRectF(option.rect), 4, 4)
            painter.setBrush(self._theme.color("accent"))  # the fill alone hardly differs from the panel
            row = QRectF(option.rect)
            painter.drawRoundedRect(QRectF(row.left(), row.top() + 2, 3, row.height() - 4), 1.5, 1.5)
        rect = QRectF(option.rect).adjusted(_INSET, 0, -4, 0)
        detail = str(index.data(DETAIL) or "")
        if detail:
            line = rect.adjusted(0, rect.height() - _SECOND_LINE - 3, 0, -3)
            rect = rect.adjusted(0, 0, 0, -_SECOND_LINE)
            self._paint_detail(painter, line, detail)
        mark = index.data(MARK)
        if mark is not None:
            self._paint_mark(painter, rect, str(mark))
            rect = rect.adjusted(_MARK + 6, 0, 0, 0)
        if index.data(PIN):
            self._paint_pin(painter, QPointF(rect.left() + _PIN / 2, rect.center().y()))
            rect = rect.adjusted(_PIN + 4, 0, 0, 0)
        share = index.data(SHARE)
        figure = str(index.data(FIGURE) or "")
        name = str(index.data(Qt.ItemDataRole.DisplayRole))
        metrics = option.fontMetrics
        figure_width = metrics.horizontalAdvance(figure) + 2.0
        bar = _BAR if share is not None and rect.width() >= _BARS_FROM else 0.0
        if bar:
            figure_width = max(figure_width, _FIGURES)  # bars stand in a column
        name_width = rect.width() - figure_width - bar - (14 if bar else 8)
        painter.setPen(self._theme.color("text"))
        elided = self.names.cut(name, metrics.horizontalAdvance, name_width)
        painter.drawText(QRectF(rect.left(), rect.top(), name_width, rect.height()), LEFT, elided)
        if bar:
            self._paint_bar(
                painter, QRectF(rect.left() + name_width + 6, rect.center().y() - 2.5, bar, 5), share
            )
        painter.setPen(self._theme.color("muted"))
        painter.drawText(
            QRectF(rect.right() - figure_width, rect.top(), figure_width, rect.height()), RIGHT, figure
        )
        painter.restore()

    def _paint_mark(self, painter: QPainter, rect: QRectF, mark: str) -> None:
        if not mark:
            return
        box = QRectF(rect.left(), rect.center().y() - _MARK / 2, _MARK, _MARK)
        ink(painter, None, self._theme.color("accent" if mark == "A" else "muted"))
        painter.drawRoundedRect(box, 4, 4)
        painter.setPen(self._theme.color("on_accent" if mark == "A" else "panel"))
        painter.drawText(box, int(Qt.AlignmentFlag.AlignCenter), mark)

    def _paint_pin(self, painter: QPainter, middle: QPointF) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._theme.color("accent"), 1.4))
        painter.drawLine(middle, middle + QPointF(0, 6))
        painter.drawLine(middle + QPointF(-4, 1), middle + QPointF(4, 1))
        painter.setBrush(self._theme.color("accent"))
        painter.drawRect(QRectF(middle.x() - 2, middle.y() - 5, 4, 5))
        painter.restore()

    def _paint_bar(self, painter: QPainter, track: QRectF, share: float) -> None:
        ink(painter, None, self._theme.color("grid"))
        painter.drawRoundedRect(track, 2.5, 2.5)
        if share > 0:
            painter.setBrush(self._theme.color(self.role))
            filled = QRectF(track.left(), track.top(), max(3.0, track.width() * share), 5)
            painter.drawRoundedRect(filled, 2.5, 2.5)

    def _paint_detail(self, painter: QPainter, line: QRectF, detail: str) -> None:
        painter.save()
        font = sized(painter.font(), _SMALL)
        font.setWeight(QFont.Weight.Normal)
        painter.setFont(font)
        painter.setPen(self._theme.color("muted"))
        elided = QFontMetrics(font).elidedText(detail, Qt.TextElideMode.ElideRight, int(line.width()))
        painter.drawText(line, LEFT, elided)
        painter.restore()


Row = TypeVar("Row", LayerRow, HotspotRow)


class RowModel(QAbstractListModel, Generic[Row]):
    """Rows that are given to Qt one by one as it asks: ten thousand are shown as quickly as ten."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[Row] = ()

    def show(self, rows: Sequence[Row]) -> None:
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def follow(self, rows: Sequence[Row]) -> None:
        """Show rows that change often: they are laid out anew only where their heights or number change."""
        before, now = len(self.rows), len(rows)
        kept = min(before, now)
        if any(bool(self.rows[row].detail) != bool(rows[row].detail) for row in range(kept)):
            self.show(rows)
            return
        if now > before:
            self.beginInsertRows(QModelIndex(), before, now - 1)
        elif now < before:
            self.beginRemoveRows(QModelIndex(), now, before - 1)
        self.rows = rows
        if now > before:
            self.endInsertRows()
        elif now < before:
            self.endRemoveRows()
        if kept:
            self.dataChanged.emit(self.index(0), self.index(kept - 1))

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 (Qt's signature)
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        field = _FIELDS.get(role)
        return None if field is None else getattr(self.rows[index.row()], field)


class RowList(QListView):
    """Shows rows. The op of the row under the pointer is pointed at in all views."""

    def __init__(self, name: str, rows: RowModel[Row], delegate: BarDelegate, span: StepSpan) -> None:
        super().__init__()
        self._span = span
        self.setAccessibleName(name)
        self.setModel(rows)
        self.setItemDelegate(delegate)
        self.setMouseTracking(True)
        self.entered.connect(lambda index: span.point_at(op=index.data(OP)))
        self.viewportEntered.connect(lambda: span.point_at())

    def leaveEvent(self, event: QEvent) -> None:
        self._span.point_at()
        super().leaveEvent(event)


_FIELDS = {
    Qt.ItemDataRole.DisplayRole: "name",
    Qt.ItemDataRole.ToolTipRole: "tip",
    SHARE: "share",
    FIGURE: "figure",
    DETAIL: "detail",
    OP: "op",
}
