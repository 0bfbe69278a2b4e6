from __future__ import annotations

from functools import partial

from PySide6.QtCore import QRectF, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import QBrush, QColor, QGuiApplication, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from app.presenters import record_rows as rows
from app.presenters.graph_comparison import outline_of
from app.presenters.wording import as_sentence
from app.theme import CurrentTheme
from app.views.common.cell_model import CellModel, sorted_table
from app.views.common.painting import ink, smooth
from app.views.common.widgets import ChoiceBox, Dialog, called, in_column, in_row, label, push_button
from app.views.dialogs.charts import Pair, PairPlot
from checkmate.records.memory import MemoryRecord, ReadRecord, Source
from checkmate.records.words import facts, headline, left_out, next_commands, row_kind, why, why_no_layers
from checkmate.units import byte_unit, format_bytes

_SIZE = (760, 680)  # pixels
_BY_SIZE = "By size"
_HIGH, _ASKED_HIGH, _GAP, _SWATCH = 22, 10, 4, 12  # pixels
_LEAST = 2.0  # pixels of a part


class RecordDialog(Dialog):
    """Shows a reading of a file, one record at a time. Signals: ``profile_wanted(budget)``: profile the
    model, then solve for this budget in bytes; 0 for none. ``budget_wanted(budget)``: solve the open graph
    for it. ``other_wanted``: another file is to be compared."""

    profile_wanted = Signal(object)  # a budget may be larger than a C++ int
    budget_wanted = Signal(object)
    other_wanted = Signal()

    def __init__(
        self, reading: ReadRecord, theme: CurrentTheme, open_graph: str = "", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent, f"Memory in {reading.name}", _SIZE, once=True)
        self._reading = reading
        self._other: ReadRecord | None = None
        self.title = label("", name="title", wrap=True)
        self.reason = label("", wrap=True)
        self.facts = label("", muted=True, wrap=True)
        self.missing = label("", muted=True, wrap=True)
        for text in (self.title, self.reason, self.facts):
            text.setTextFormat(Qt.TextFormat.PlainText)  # names come from the file
            text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.bar = MemoryBar(theme)
        self.curve = PairPlot("Memory in use over time", theme)
        self.which = called(ChoiceBox(), "Which record")
        self.which.addItems([_name(record, number) for number, record in enumerate(reading.records, start=1)])
        self.which.setVisible(len(reading.records) > 1)
        self.grouping = called(ChoiceBox(), "Rows")
        self.grouping.addItems([f"By {row_kind(reading.records[0], by_size=False)}", _BY_SIZE])
        self._rows = CellModel(rows.columns(self.record, by_size=False), {0})
        self.table = sorted_table(self._rows, "Memory in use", 0)
        self.setLayout(
            in_column(
                self.which,
                self.title,
                self.reason,
                self.bar,
                (self.curve, 1),
                self.facts,
                in_row(self.grouping, (self.missing, 1)),
                (self.table, 1),
                self._buttons(open_graph),
                gap=10,
            )
        )
        self.which.currentIndexChanged.connect(self._show)
        self.grouping.currentIndexChanged.connect(self._fill)
        self._show()
        self.table.sortByColumn(rows.BYTES, Qt.SortOrder.DescendingOrder)

    @property
    def record(self) -> MemoryRecord:
        return self._reading.records[max(0, self.which.currentIndex())]

    @property
    def by_size(self) -> bool:
        return rows.is_by_size(self.record, wanted=self.grouping.currentText() == _BY_SIZE)

    def _buttons(self, open_graph: str) -> QHBoxLayout:
        tip = "Choose the model, then find schedules with this limit as the budget"
        self.profile = push_button("", lambda: self._emit_limit(self.profile_wanted), "primary", tip=tip)
        tip = "Solve the open graph with this limit as the budget"
        self.use = push_button("", lambda: self._emit_limit(self.budget_wanted), tip=tip)
        self.name_open(open_graph)
        self.copy = push_button("Copy the table", self._copy, tip="Copy all rows as CSV")
        tip = "The commands that lead on, for a terminal"
        commands = push_button("Copy as commands", self._copy_commands, tip=tip)
        self.another = push_button("Compare…", self.other_wanted.emit, tip="Compare with another file")
        close = push_button("Close", self.reject)
        return in_row(self.profile, self.use, None, self.another, commands, self.copy, close)

    def compare(self, other: ReadRecord) -> None:
        """List what differs in the first record of ``other``, largest first."""
        self._other = other
        self._show()
        self.table.sortByColumn(rows.DIFFERENCE, Qt.SortOrder.DescendingOrder)

    def name_open(self, graph: str) -> None:
        self.use.setText(f"Use it for {graph}")
        self.use.setVisible(bool(graph))

    def _emit_limit(self, wanted: SignalInstance) -> None:
        wanted.emit(self.record.limit_bytes or 0)

    def _show(self) -> None:
        record = self.record
        self.title.setText(as_sentence(headline(record)))
        self.reason.setText(" ".join(filter(None, [why(record), left_out(self._reading)])))
        self.reason.setVisible(bool(self.reason.text()))
        self.facts.setText(" · ".join(f"{title.capitalize()}: {text}" for title, text in facts(record)))
        self.bar.show_record(record)
        self._draw_curve(record)
        limit = record.limit_bytes
        within = "" if limit is None else f" within {format_bytes(limit)}"
        self.profile.setText(f"Profile the model{within}…")
        self.use.setEnabled(limit is not None)
        self.grouping.setEnabled(bool(record.by_layer) and bool(record.by_size))
        if self.by_size:
            self.grouping.setCurrentText(_BY_SIZE)  # also where nothing is known of layers
        compared = "" if self._other is None else f"{self._other.name}: {headline(self._other.records[0])}"
        self.missing.setText(compared or why_no_layers(record))
        self._fill()

    def _draw_curve(self, record: MemoryRecord) -> None:
        self.curve.setVisible(len(record.curve) > 1)
        if len(record.curve) < 2:
            return
        edges, held = rows.curve_of(record)
        unit, size = byte_unit(held.max())
        seconds, corners = outline_of((edges, held))
        most = f"most {format_bytes(held.max())}"
        words = partial(rows.curve_words, record)
        self.curve.show_pair(Pair([(seconds, corners / size)], [most], "seconds", unit, words))

    def _fill(self) -> None:
        record, by_size = self.record, self.by_size
        if self._other is not None:
            other = self._other.records[0]
            cells = rows.change_cells(record, other, by_size=by_size)
            self._rows.fill(cells, rows.change_columns(record, other, by_size=by_size))
            return
        self._rows.fill(rows.record_cells(record, by_size=by_size), rows.columns(record, by_size=by_size))

    def _copy(self) -> None:
        if self._other is not None:
            table = rows.change_table(self.record, self._other.records[0], by_size=self.by_size)
        else:
            table = rows.record_table(self.record, by_size=self.by_size)
        QGuiApplication.clipboard().setText(table.csv())

    def _copy_commands(self) -> None:
        QGuiApplication.clipboard().setText("\n".join(next_commands(self.record)))


def _name(record: MemoryRecord, number: int) -> str:
    if record.source is Source.LOG:
        return f"Failure {number}: {headline(record)}"
    return headline(record)


class MemoryBar(QWidget):
    """Draws the parts of ``record``, and names each with its bytes below."""

    def __init__(self, theme: CurrentTheme) -> None:
        super().__init__()
        self._theme = theme
        self._parts: tuple[rows.BarPart, ...] = ()
        self._asked: rows.BarPart | None = None
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        theme.changed.connect(self.update)

    def show_record(self, record: MemoryRecord) -> None:
        self._parts, self._asked = rows.bar_parts(record), rows.asked_part(record)
        self.setVisible(bool(self._parts))
        self.setAccessibleName("Memory: " + ", ".join(self.words))
        self.updateGeometry()
        self.update()

    @property
    def words(self) -> list[str]:
        return [f"{part.words} {format_bytes(part.bytes)}" for part in self._listed]

    @property
    def _listed(self) -> list[rows.BarPart]:
        return [*self._parts, *([self._asked] if self._asked is not None else [])]

    def sizeHint(self) -> QSize:
        return QSize(320, self.heightForWidth(320))

    def minimumSizeHint(self) -> QSize:
        return QSize(200, self.heightForWidth(max(200, self.width())))

    def heightForWidth(self, width: int) -> int:
        high = _HIGH + 2 * _GAP + (_ASKED_HIGH + _GAP if self._asked is not None else 0)
        return high + len(self._lines(width)) * self._line_height()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = smooth(self)
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

    def _draw(self, painter: QPainter, where: QRectF, part: rows.BarPart) -> None:
        color = self._theme.color(part.role)
        ink(painter, QPen(color, 1), self._brush(part, color))
        painter.drawRect(where)

    def _brush(self, part: rows.BarPart, color: QColor) -> QBrush:
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

    def _lines(self, width: int) -> list[list[tuple[rows.BarPart, str, float, float]]]:
        lines: list[list[tuple[rows.BarPart, str, float, float]]] = [[]]
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
