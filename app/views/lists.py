"""The two lists on the left: layers by the bytes they write, and the schedules known so far."""

from __future__ import annotations

from collections import defaultdict

from PySide6.QtWidgets import QLineEdit, QListWidget, QListWidgetItem

from app.models.cursors import Selection
from app.models.exploration import Exploration, Found
from app.theme import Theme
from app.views.panel import Panel
from app.views.rows import FIGURE, OP, SHARE, BarDelegate
from checkmate.ir.graph import Phase
from checkmate.units import format_bytes


class LayersPanel(Panel):
    """Layers by the bytes their forward ops write; click selects the layer's largest op."""

    def __init__(self, exploration: Exploration, selection: Selection, theme: Theme) -> None:
        super().__init__("Layers")
        self.note.setText("by activation size")
        self._exploration, self._selection = exploration, selection
        self._filter = QLineEdit()
        self._filter.setPlaceholderText("Filter layers")
        self._filter.setAccessibleName("Filter layers")
        self._filter.textChanged.connect(self._on_filter)
        self._list = QListWidget()
        self._list.setAccessibleName("Layers")
        self._delegate = BarDelegate(theme, "forward")
        self._list.setItemDelegate(self._delegate)
        self._list.setUniformItemSizes(True)
        self._list.currentItemChanged.connect(self._on_current)
        self.body.addWidget(self._filter)
        self.body.addWidget(self._list, 1)
        exploration.graph_changed.connect(self._on_graph)

    def focus_filter(self) -> None:
        """Put the cursor into the filter."""
        self._filter.setFocus()
        self._filter.selectAll()

    def _on_graph(self) -> None:
        graph = self._exploration.graph
        self._list.clear()
        if graph is None:
            return
        sizes: dict[str, int] = defaultdict(int)
        largest: dict[str, tuple[int, int]] = {}
        for index, op in enumerate(graph.ops):
            if op.phase in (Phase.FORWARD, Phase.LOSS):
                written = sum(graph.values[v].bytes for v in op.outputs)
                name = op.group or op.name
                sizes[name] += written
                largest[name] = max(largest.get(name, (-1, index)), (written, index))
        most = max(sizes.values(), default=1) or 1
        for name, size in sizes.items():
            item = QListWidgetItem(name)
            item.setData(SHARE, size / most)
            item.setData(FIGURE, format_bytes(size))
            item.setData(OP, largest[name][1])
            item.setToolTip(f"{name}: {format_bytes(size)} of activations")
            self._list.addItem(item)

    def _on_filter(self, text: str) -> None:
        for row in range(self._list.count()):
            item = self._list.item(row)
            item.setHidden(text.lower() not in item.text().lower())

    def _on_current(self, item: QListWidgetItem | None) -> None:
        if item is not None:
            self._selection.select(int(item.data(OP)))


class SchedulesPanel(Panel):
    """Every schedule on the frontier; click shows it."""

    def __init__(self, exploration: Exploration, theme: Theme) -> None:
        super().__init__("Schedules")
        self.note.setText("peak · step cost")
        self._exploration = exploration
        self._rows: list[Found] = []
        self._list = QListWidget()
        self._list.setAccessibleName("Schedules")
        self._delegate = BarDelegate(theme, "accent")
        self._list.setItemDelegate(self._delegate)
        self._list.itemClicked.connect(self._on_clicked)
        self.body.addWidget(self._list, 1)
        exploration.known_changed.connect(self._on_known)
        exploration.shown_changed.connect(self._on_shown)

    def _on_known(self) -> None:
        self._rows = list(reversed(self._exploration.known))
        self._list.blockSignals(True)
        self._list.clear()
        for found in self._rows:
            item = QListWidgetItem(found.solver)
            item.setData(FIGURE, f"{format_bytes(found.peak_bytes).replace('iB', '')}  {1 + found.overhead:.3f}×")
            item.setToolTip(
                f"{found.solver}{', proved optimal' if found.optimal else ''}: {format_bytes(found.peak_bytes)}, "
                f"{found.schedule.recomputations} recomputations"
            )
            self._list.addItem(item)
        self._list.blockSignals(False)
        self._on_shown()

    def _on_shown(self) -> None:
        shown = self._exploration.shown
        row = next((i for i, found in enumerate(self._rows) if found is shown), -1)
        self._list.setCurrentRow(row)

    def _on_clicked(self, item: QListWidgetItem) -> None:
        found = self._rows[self._list.row(item)]
        self._exploration.show(found)
