from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent

from app.presenters.search import HELP, LayerQuery, LayerRow, layer_rows, parse
from app.presenters.view_tables import ViewTable, layers_table
from app.presenters.wording import NameCut
from app.views.common.panel import Panel
from app.views.common.view_models import ViewModels
from app.views.common.widgets import fill, filter_field, label, push_button
from app.views.panels.bar_rows import OP, BarDelegate, RowList, RowModel
from checkmate.ir import Phase

_PRESSED = QEvent.Type.KeyPress
_BY_SIZE, _IN_ORDER = "By activation size", "In order of the step"
_SHORT = {_BY_SIZE: "By size", _IN_ORDER: "In order"}
_ROOMY = 260  # pixels; a narrower panel has the short words


class LayersPanel(Panel):
    """Lists layers by the bytes that their forward ops write. A click selects the layer's largest op; Enter
    or a double-click also shows it in the graph. Signal ``zoom_wanted(op)``: the graph should show the op."""

    zoom_wanted = Signal(int)

    def __init__(self, models: ViewModels) -> None:
        super().__init__("Layers")
        exploration, selection = models.exploration, models.selection
        self._exploration, self._selection = exploration, selection
        self._query, self._by_size, self._order_words = LayerQuery(), True, _BY_SIZE
        tip = "The largest first, or in the order of the step"
        self.order = push_button(_BY_SIZE, self._on_order, "link", tip=tip)
        self.head.addWidget(self.order)
        self._rows = RowModel[LayerRow]()
        self._filter = filter_field("Filter layers", "Name, size>10M, phase:backward")
        self._filter.setToolTip(f"Parts of a name, and conditions: {HELP}")
        self._filter.textChanged.connect(self._on_filter)
        self._filter.returnPressed.connect(self._show_first)
        self._filter.installEventFilter(self)
        self.said = label("", muted=True, wrap=True)
        self.said.hide()
        self._delegate = BarDelegate(models.theme, "forward")
        self._list = RowList("Layers", self._rows, self._delegate, models.span)
        self._list.setUniformItemSizes(True)
        self._list.selectionModel().currentChanged.connect(self._on_current)
        self._list.clicked.connect(self._on_current)  # also of the row that is current already
        self._following = False
        selection.changed.connect(self._follow)
        self._list.activated.connect(lambda index: self.zoom_wanted.emit(int(index.data(OP))))
        fill(self.body, self._filter, self.said, (self._list, 1))
        exploration.graph_changed.connect(self._on_graph)
        exploration.shown_changed.connect(self._on_shown)

    def view_table(self) -> ViewTable | None:
        graph = self._exploration.graph
        return None if graph is None else layers_table(graph)

    def focus_filter(self) -> None:
        self._filter.setFocus()
        self._filter.selectAll()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        pressed = event.key() if isinstance(event, QKeyEvent) and event.type() == _PRESSED else None
        if pressed == Qt.Key.Key_Down and self._rows.rowCount():
            self._list.setFocus()
            self._list.setCurrentIndex(self._rows.index(0, 0))
            return True
        return super().eventFilter(watched, event)

    def _on_graph(self) -> None:
        drawn = self._exploration.unconstrained
        self._delegate.names = NameCut([] if drawn is None else [layer.name for layer in drawn.layers])
        self._refresh()

    def _on_shown(self) -> None:
        if self._query.recomputed:
            self._refresh()

    def _on_filter(self, text: str) -> None:
        self._query = parse(text)
        self._refresh()

    def _on_order(self) -> None:
        self._by_size = not self._by_size
        self._refresh()

    def _refresh(self) -> None:
        drawn, shown = self._exploration.unconstrained, self._exploration.shown
        again = shown.recomputed_ops if shown is not None and self._query.recomputed else frozenset[int]()
        layers = () if drawn is None else drawn.layers
        rows = layer_rows(layers, self._query, again, by_size=self._by_size)
        self._rows.show(rows)
        self._follow()
        phase = self._query.phase
        self._delegate.role = "backward" if phase in (Phase.BACKWARD, Phase.UPDATE) else "forward"
        by_size = _BY_SIZE if phase is None else f"by size, {phase.value}"
        self._say_order(by_size if self._by_size else _IN_ORDER)
        none = "No layer matches." if layers and not rows else ""
        self.said.setText(self._query.problem or none)
        self.said.setVisible(bool(self._query.problem or none))

    def _say_order(self, words: str) -> None:
        self._order_words = words
        short = self.width() < _ROOMY
        self.order.setText(_SHORT.get(words, words.removeprefix("by size, ")) if short else words)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._say_order(self._order_words)

    def _show_first(self) -> None:
        if self._rows.rowCount():
            first = self._rows.index(0, 0)
            self._list.setCurrentIndex(first)
            self.zoom_wanted.emit(int(first.data(OP)))

    def _on_current(self, index: QModelIndex) -> None:
        if index.isValid() and not self._following:
            self._selection.select(int(index.data(OP)))

    def _follow(self, *_: object) -> None:
        graph, op = self._exploration.graph, self._selection.op
        entry = graph.ops[op] if graph is not None and 0 <= op < graph.n else None
        index = QModelIndex() if entry is None else self.place_of(entry.group or entry.name)
        self._following = True
        self._list.setCurrentIndex(index)  # which also scrolls to it
        self._following = False

    def place_of(self, name: str) -> QModelIndex:
        listed = (row for row, layer in enumerate(self._rows.rows) if layer.name == name)
        return self._rows.index(next(listed, -1), 0)
