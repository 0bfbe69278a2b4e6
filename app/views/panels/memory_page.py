from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QListView, QPushButton, QWidget

from app.models.remedies import Hotspot
from app.models.undo import ShownEdits
from app.presenters.hotspot_rows import HotspotRow, View, compare_rows, help_rows, share_rows
from app.state.knowledge import ListedSchedule
from app.views.common.view_models import ViewModels
from app.views.common.widgets import NO_EDGES, called, in_column, in_row
from app.views.panels.bar_rows import BarDelegate, RowList, RowModel
from app.workers.background import on

_TIPS = {
    View.VALUES: "Every buffer in memory",
    View.LAYERS: "By the layer that made them",
    View.REASONS: "By why they are in memory",
    View.HELPS: "What would lower the peak, and its price",
    View.COMPARE: "Ops that A and B recompute a different number of times",
}


class MemoryPage(QWidget):
    """Four views of one step, and one of two compared schedules. Only the view on screen is computed."""

    def __init__(self, models: ViewModels, hotspot: Hotspot, shown_edits: ShownEdits) -> None:
        super().__init__()
        self._exploration, self._comparison = exploration, comparison = models.exploration, models.comparison
        self._hotspot, self._selection, self._shown_edits = hotspot, models.selection, shown_edits
        self.view = View.HELPS
        self._model = RowModel[HotspotRow]()
        delegate = BarDelegate(models.theme, "held")
        self._list = RowList("What is in memory now", self._model, delegate, models.span)
        self._list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self._list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._list.clicked.connect(self._on_clicked)
        self.setLayout(in_column(self._tabs(), (self._list, 1), gap=4, edges=NO_EDGES))
        hotspot.moved.connect(self._refresh)
        on(self._on_helped, hotspot.helped, exploration.known_changed)
        comparison.changed.connect(self._on_comparison)
        self._on_comparison()

    def _tabs(self) -> QHBoxLayout:
        self.tabs = {view: called(QPushButton(view.value), _TIPS[view], _TIPS[view]) for view in View}
        self._group = QButtonGroup(self)
        for view, tab in self.tabs.items():
            tab.setObjectName("tab")
            tab.setCheckable(True)
            tab.setChecked(view is self.view)
            tab.clicked.connect(lambda _=False, v=view: self.show_view(v))
            self._group.addButton(tab)
        return in_row(*((tab, 1) for tab in self.tabs.values()), gap=3)

    def _on_comparison(self) -> None:
        active = self._comparison.active
        self.tabs[View.COMPARE].setVisible(active)
        # The row is as wide as the column, which may be narrow.
        self.tabs[View.HELPS].setText("Helps" if active else View.HELPS.value)
        if self.view is View.COMPARE:
            self.show_view(View.COMPARE if active else View.HELPS)

    def show_view(self, view: View) -> None:
        self.view = view
        self.tabs[view].setChecked(True)
        self._hotspot.want(view is View.HELPS and self.isVisible())
        self._refresh()

    def showEvent(self, event: QShowEvent) -> None:
        self._hotspot.want(self.view is View.HELPS)
        self._refresh()
        super().showEvent(event)

    def hideEvent(self, event: QHideEvent) -> None:
        self._hotspot.want(False)
        super().hideEvent(event)

    def _on_helped(self) -> None:
        if self.view is View.HELPS:
            self._refresh()

    @property
    def rows(self) -> Sequence[HotspotRow]:
        return self._model.rows

    def _refresh(self) -> None:
        if self.isVisible() and self._exploration.shown is not None and self._hotspot.now is not None:
            rows = self._rows_of(self._exploration.shown)
            # So that Qt need not ask for the height of each row at each step.
            self._list.setUniformItemSizes(not any(row.detail for row in rows))
            self._model.follow(rows)
            self._list.selectionModel().clear()  # the row that was clicked may be of something else

    def _rows_of(self, shown: ListedSchedule) -> list[HotspotRow]:
        if self.view is View.HELPS:
            rows = help_rows(shown.graph, shown, self._exploration.offered, self._hotspot.remedies)
            if self._hotspot.busy:
                return [*rows, HotspotRow("Working out what else might help…", "")]
            return rows or [HotspotRow("Nothing that is held here alone sets the peak.", "")]
        if self.view is View.COMPARE and self._comparison.difference is not None:
            return compare_rows(shown.graph, self._comparison.difference)
        now = self._hotspot.now
        return [] if now is None else share_rows(now, self.view)

    def _on_clicked(self, index: QModelIndex) -> None:
        row = self.rows[index.row()]
        if row.found is not None:
            self._shown_edits.show_with_budget(row.found)
        elif row.op >= 0:
            self._selection.select(row.op, row.value)
