from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QHideEvent, QResizeEvent
from PySide6.QtWidgets import QHeaderView, QTableView, QWidget

from app.models.cursors import Selection
from app.models.exploration import Exploration
from app.models.remedies import RangePrices
from app.models.span import StepSpan
from app.presenters import range_rows as ranges
from app.views.common.cell_model import CellModel, CutNames, sorted_table
from app.views.common.widgets import Dialog, bring_up, closing, in_column, label, push_button
from app.workers.background import later, on

_SIZE = (1240, 480)  # pixels
_LEAST_NAME, _WIDEST_LAYER = 200, 240
_SOON_MS = 80


class RangeDialog(Dialog):
    """A table of the values in memory in the selected steps. It follows what is selected. A click on a row
    selects the value everywhere."""

    def __init__(
        self, exploration: Exploration, span: StepSpan, selection: Selection, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent, "Memory in the selected steps", _SIZE)
        self._exploration, self._span, self._selection = exploration, span, selection
        self.prices = RangePrices(self)
        self.prices.changed.connect(self._on_prices)
        self.words = label("", wrap=True)
        self.rows: tuple[ranges.RangeRow, ...] = ()
        self._model = CellModel(ranges.COLUMNS, ranges.WORDS)
        self._cut_names, self._cut_layers, self._fitted = CutNames(), CutNames(), False
        self.table = self._make_table()
        self.copy = push_button("Copy the table", self._copy, tip="Copy all rows as CSV")
        hint = label("Click a row to select the value in every view.", muted=True)
        self.setLayout(in_column(self.words, (self.table, 1), hint, closing(self, self.copy)))
        self._fit_soon = later(self, 0, self._fit_columns)
        self.table.horizontalHeader().sectionResized.connect(self._on_section)
        self._soon = later(self, _SOON_MS, self._refresh)  # a drag selects other steps with each move
        on(self._soon.start, span.chosen_changed, exploration.shown_changed)

    def _make_table(self) -> QTableView:
        table = sorted_table(self._model, "Values in memory in the selected steps")
        table.sortByColumn(ranges.COST, Qt.SortOrder.DescendingOrder)
        for place in ranges.WORDS:
            table.resizeColumnToContents(place)
            table.horizontalHeader().setSectionResizeMode(place, QHeaderView.ResizeMode.Interactive)
        table.setItemDelegateForColumn(ranges.NAME, self._cut_names)
        table.setItemDelegateForColumn(ranges.LAYER, self._cut_layers)
        # Selected, not current: the first row becomes current when the table gets the focus.
        table.selectionModel().selectionChanged.connect(lambda *_: self._on_row())
        table.clicked.connect(lambda _: self._on_row())  # a row that is selected here, but not elsewhere
        return table

    def open_table(self) -> None:
        bring_up(self)
        self._refresh()

    def _refresh(self) -> None:
        if not self.isVisible():
            return
        shown, axis, chosen = self._exploration.shown, self._span.axis, self._span.chosen
        if shown is None or axis is None or chosen is None:
            self.prices.stop()
            self.rows = ()
            self._model.fill([])
            self.words.setText(ranges.NO_STEPS)
            self.copy.setEnabled(False)
            return
        self.rows = rows = ranges.range_rows(shown, axis, chosen)
        cells = ranges.range_cells(shown, rows, {}, busy=True)
        self._cut_names.know(row[ranges.NAME].text for row in cells)
        self._cut_layers.know(row[ranges.LAYER].text for row in cells)
        self._model.fill(cells)
        self._fit_columns()
        self.words.setText(ranges.summary(shown, chosen, rows))
        self.copy.setEnabled(True)
        first, last = chosen
        highest = first + int(np.argmax(shown.timeline.live_bytes[first : last + 1]))
        self.prices.ask(shown, highest, [row.value for row in rows if row.waits])

    def _on_section(self, column: int, _before: int, _now: int) -> None:
        if column != ranges.NAME:
            self._fit_soon.start()  # not at once: the header sets the other columns after this one

    def _fit_columns(self) -> None:
        """Fit the layers' column once, and give the names the rest. They keep a least width; the table
        scrolls then."""
        if not self._fitted and self.rows:
            self._fitted = True
            self.table.resizeColumnToContents(ranges.LAYER)
            self.table.setColumnWidth(ranges.LAYER, min(self.table.columnWidth(ranges.LAYER), _WIDEST_LAYER))
        others = sum(
            self.table.columnWidth(column) for column in range(len(ranges.COLUMNS)) if column != ranges.NAME
        )
        self.table.setColumnWidth(ranges.NAME, max(_LEAST_NAME, self.table.viewport().width() - others))

    def _on_prices(self) -> None:
        shown = self._exploration.shown
        if shown is not None and self.rows:
            prices = ranges.price_cells(shown, self.rows, self.prices.by_value, busy=self.prices.busy)
            known = zip(self._model.cells, prices, strict=True)
            self._model.fill_again([(*cells[: ranges.PRICE], price) for cells, price in known])

    def _on_row(self) -> None:
        for index in self.table.selectionModel().selectedRows()[:1]:
            row = self.rows[self._model.source(index.row())]
            self._selection.select(row.op, row.value)

    def _copy(self) -> None:
        shown = self._exploration.shown
        if shown is not None:
            count = len(shown.schedule.steps)
            found = ranges.range_table(shown.graph, self.rows, self.prices.by_value, count)
            QGuiApplication.clipboard().setText(found.csv())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    def hideEvent(self, event: QHideEvent) -> None:
        self._soon.stop()
        self.prices.stop()
        super().hideEvent(event)
