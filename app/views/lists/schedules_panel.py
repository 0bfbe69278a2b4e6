"""The list of the schedules known so far."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QApplication, QListWidget, QListWidgetItem, QMenu

from app.models.comparison import Comparison
from app.models.exploration import Exploration, ListedSchedule
from app.theme import Theme
from app.views.common.command_button import command_button
from app.views.common.panel import Panel
from app.views.lists.rows import FIGURE, MARK, BarDelegate
from checkmate.units import format_bytes

_SOON_MS = 40
_ROOMY = 310  # pixels; in a narrower panel the heading of the figures is left out


class SchedulesPanel(Panel):
    """Lists every schedule on the frontier.

    A click shows a schedule (A); a right-click or Ctrl+click compares it (B).
    """

    def __init__(self, exploration: Exploration, comparison: Comparison, theme: Theme) -> None:
        super().__init__("Schedules")
        self.note.setText("peak · step cost")
        self._exploration, self._comparison = exploration, comparison
        self.compare = command_button("view.compare", comparison.toggle, "A | B")
        self.compare.setObjectName("small")
        self.compare.setCheckable(True)
        self.compare.setAccessibleName("Compare two schedules")
        self.compare.setMinimumWidth(48)
        self.head.addWidget(self.compare)
        self._rows: list[ListedSchedule] = []
        self._list = QListWidget()
        self._list.setAccessibleName("Schedules")
        self._delegate = BarDelegate(theme, "accent")
        self._list.setItemDelegate(self._delegate)
        self._list.itemClicked.connect(self._on_clicked)
        self._list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self._list.customContextMenuRequested.connect(self._on_menu)
        self.body.addWidget(self._list, 1)
        self._soon = QTimer(self)  # several changes often come at once
        self._soon.setSingleShot(True)
        self._soon.setInterval(_SOON_MS)
        self._soon.timeout.connect(self._on_known)
        exploration.known_changed.connect(self._on_news)
        exploration.graph_changed.connect(self._on_known)
        exploration.shown_changed.connect(self._on_shown)
        comparison.pinned.connect(self._on_known)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.note.setVisible(self.width() > _ROOMY)

    def _on_news(self) -> None:
        if not self._soon.isActive():
            self._soon.start()

    def _on_known(self) -> None:
        other = self._comparison.other
        self._rows = list(reversed(self._exploration.known))
        if other is not None and other not in self._rows:
            self._rows.append(other)  # a better schedule has taken its place on the frontier
            self._rows.sort(key=lambda found: -found.peak_bytes)
        self.compare.setChecked(other is not None)
        self._list.blockSignals(True)
        at = self._list.verticalScrollBar().value()
        self._list.clear()
        for found in self._rows:
            item = QListWidgetItem(found.solver)
            item.setData(
                FIGURE, f"{format_bytes(found.peak_bytes).replace('iB', '')}  {1 + found.overhead:.3f}×"
            )
            proved = ", proved optimal" if found.optimal else ""
            again = found.schedule.recomputations
            item.setToolTip(
                f"{found.solver}{proved}: {format_bytes(found.peak_bytes)}, "
                f"{again} recomputation{'s' * (again != 1)}"
            )
            self._list.addItem(item)
        self._list.verticalScrollBar().setValue(at)
        self._list.blockSignals(False)
        self._on_shown()

    def _on_shown(self) -> None:
        shown = self._exploration.shown
        if self._soon.isActive() and shown not in self._rows:
            return  # the next update of the list brings it
        row = next((i for i, found in enumerate(self._rows) if found is shown), -1)
        self._list.setCurrentRow(row)
        for number, found in enumerate(self._rows):
            self._list.item(number).setData(MARK, self._mark(found))

    def _mark(self, found: ListedSchedule) -> str | None:
        """Return the letter before a schedule; None if nothing is compared."""
        other = self._comparison.other
        if other is None:
            return None
        return "B" if found is other else "A" if found is self._exploration.shown else ""

    def mark_of(self, row: int) -> str:
        """Return the letter before a row."""
        return self._list.item(row).data(MARK) or ""

    def _on_clicked(self, item: QListWidgetItem) -> None:
        found = self._rows[self._list.row(item)]
        if QApplication.keyboardModifiers() & Qt.KeyboardModifier.ControlModifier:
            self._comparison.pin(found)
        else:
            self._exploration.show(found)

    def _on_menu(self, position: QPoint) -> None:
        item = self._list.itemAt(position)
        if item is None:
            return
        found = self._rows[self._list.row(item)]
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Show (A)", lambda: self._exploration.show(found))
        menu.addAction("Compare with it (B)", lambda: self._comparison.pin(found))
        stop = menu.addAction("Stop comparing", lambda: self._comparison.pin(None))
        stop.setEnabled(self._comparison.other is not None)
        menu.popup(self._list.viewport().mapToGlobal(position))
