"""The window that compares the explored graph (A) with another one (B)."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QAbstractItemView,
    QButtonGroup,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QSplitter,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.models.exploration import Exploration, ListedSchedule
from app.models.opening.other_graph import OtherGraph, side_of
from app.presenters.graph_comparison import (
    COLUMNS,
    DIFFERENCE,
    FACTS,
    LAYER,
    LayerPair,
    Side,
    curve_of,
    fact_rows,
    frontier_words,
    layer_cells,
    layer_pairs,
    layer_table,
    memory_words,
    outline_of,
    sentence,
    stairs_of,
    within,
)
from app.presenters.range_rows import Cell
from app.theme import CurrentTheme
from app.views.common.cell_model import CellModel, sorted_table
from app.views.common.panel import label
from app.views.dialogs.charts import Line, Pair, PairPlot
from app.views.panels.schedules_panel import FillRow
from app.workers.background import Background
from checkmate.units import byte_unit, format_bytes, plural

_SIZE, _SHARE = (1280, 800), (0.94, 0.88)  # pixels; of a smaller screen, with room for the window's frame
_FACTS_WIDTH, _ROW = 440, 27
_SOON_MS = 150  # schedules come in many at a time


class GraphCompareDialog(QDialog):
    """Compares A and B: facts, memory curves, frontiers and layers.

    They follow what is found of both. It is empty until ``refresh``. ``other`` is closed along with it.
    Signal ``other_wanted``: another file is to be B.
    """

    other_wanted = Signal()

    def __init__(
        self, exploration: Exploration, other: OtherGraph, theme: CurrentTheme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._a, self.other, self._b = exploration, other, other.exploration
        self.pairs: tuple[LayerPair, ...] = ()
        self._compared: tuple[object, ...] = ()  # the graphs whose layers are listed
        self._least: tuple[object, ...] = ()  # the smallest schedules that the facts name
        self.words = label("", wrap=True)
        self.facts = _facts_table()
        self.memory = PairPlot("Memory over the step, of A and of B", theme)
        self.frontier = PairPlot("Extra cost against memory, of A and of B", theme)
        self._layers = CellModel(COLUMNS, {LAYER})
        self.table = sorted_table(self._layers, "Layers of A and B by name", LAYER)
        self.table.sortByColumn(DIFFERENCE, Qt.SortOrder.DescendingOrder)
        self._made: list[tuple[Side, Side, tuple[LayerPair, ...], list[tuple[Cell, ...]]]] = []
        self._reading = Background(self)
        self._reading.done.connect(lambda _: self._on_layers())
        self._lay_out()
        self._fit_screen()
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(_SOON_MS)
        self._soon.timeout.connect(self.refresh)
        for one in (self._a, self._b):
            for signal in (one.graph_changed, one.known_changed, one.shown_changed, one.budget_changed):
                signal.connect(self._soon.start)

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.addWidget(self.words)
        column.addLayout(self._controls())
        upper = QWidget()
        row = QHBoxLayout(upper)
        row.setContentsMargins(0, 0, 0, 0)
        self.facts.setFixedWidth(_FACTS_WIDTH)
        row.addWidget(self.facts)
        row.addWidget(self.memory, 1)
        row.addWidget(self.frontier, 1)
        parts = QSplitter(Qt.Orientation.Vertical)
        parts.setChildrenCollapsible(False)
        parts.addWidget(upper)
        parts.addWidget(self.table)
        parts.setSizes([420, 300])
        column.addWidget(parts, 1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.copy = QPushButton("Copy the table")
        self.copy.setToolTip("Copy all layers as CSV")
        self.copy.clicked.connect(self._copy)
        self.another = QPushButton("Another file…")
        self.another.setToolTip("Compare with another file")
        self.another.clicked.connect(self.other_wanted)
        for button in (self.copy, self.another):
            button.setAutoDefault(False)
            buttons.addButton(button, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.close)
        column.addWidget(buttons)

    def _controls(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.addWidget(label("Curves", muted=True))
        self.plain, self.best = self._choice(row, "Keep everything", "Within the budget")
        row.addSpacing(12)
        row.addWidget(label("Across", muted=True))
        self.across = self._choice(row, "Share of the step", "Steps")
        self.across[0].setToolTip("How much of the step's cost is done")
        row.addStretch(1)
        row.addWidget(label("B", muted=True))
        self.filling = FillRow(self._b)
        self.filling.setMinimumWidth(330)
        row.addWidget(self.filling)
        return row

    def _choice(self, row: QHBoxLayout, *words: str) -> list[QPushButton]:
        group, buttons = QButtonGroup(self), [QPushButton(text) for text in words]
        for button in buttons:
            button.setObjectName("small")
            button.setCheckable(True)
            button.setAutoDefault(False)
            button.clicked.connect(lambda _=False: self.refresh())
            group.addButton(button)
            row.addWidget(button)
        buttons[0].setChecked(True)
        return buttons

    def _fit_screen(self) -> None:
        room = self.screen().availableGeometry()
        wide, high = _SIZE
        self.resize(min(wide, round(_SHARE[0] * room.width())), min(high, round(_SHARE[1] * room.height())))

    @property
    def sides(self) -> tuple[Side, Side] | None:
        """Return what is compared; None where one of the two has no graph."""
        shown: list[ListedSchedule | None] = [None, None]
        if self.best.isChecked() and self._a.shown is not None and self._b.known:
            shown = [self._a.shown, within(self._b.known, self._a.budget_bytes)]
        a, b = side_of(_name(self._a), self._a, shown[0]), side_of(_name(self._b), self._b, shown[1])
        return None if a is None or b is None else (a, b)

    def refresh(self) -> None:
        """Show what is known now."""
        sides = self.sides
        if sides is None:
            return
        a, b = sides
        self.setWindowTitle(f"Compare {a.name} (A) with {b.name} (B)")
        self.best.setText(f"Within {format_bytes(self._a.budget_bytes)}")
        self.best.setToolTip("A: the schedule on screen. B: the best known within the same budget")
        self._draw_memory(a, b)
        self._draw_frontier(a, b)
        graphs, least = (a.graph, b.graph), (a.known[0], b.known[0])
        if self._compared != graphs:
            self._compare_layers(a, b)
        if (self._compared, self._least) != (graphs, least):
            _fill(self.facts, fact_rows(a, b))
        self._compared, self._least = graphs, least

    def _compare_layers(self, a: Side, b: Side) -> None:
        """Compare the layers in a thread; there may be thousands."""

        def work() -> None:
            pairs = layer_pairs(a.graph, b.graph)
            cells = layer_cells(a.graph, b.graph, pairs)
            self._made.append((a, b, pairs, cells))

        self._reading.start(work)  # where another is still compared, this one comes after it

    def _on_layers(self) -> None:
        a, b, self.pairs, cells = self._made.pop()
        if self._compared != (a.graph, b.graph):
            self._compared = ()
            self.refresh()
            return
        self._layers.fill(cells)
        self.words.setText(sentence(a, b, self.pairs))

    def _draw_memory(self, a: Side, b: Side) -> None:
        share = self.across[0].isChecked()
        unit, size = byte_unit(max(a.plain.peak_bytes, b.plain.peak_bytes))
        lines = curve_of(a.shown, by_share=share), curve_of(b.shown, by_share=share)
        self.memory.show_pair(
            Pair(
                _scaled((outline_of(lines[0]), outline_of(lines[1])), up=size),
                (self._peak_words(a), self._peak_words(b)),
                "step, %" if share else "step",
                f"{unit}, predicted",
                lambda x: memory_words(lines, x, share=share),
            )
        )

    def _peak_words(self, side: Side) -> str:
        """Say a curve's peak, and whether it is over the budget."""
        over = self.best.isChecked() and side.shown.peak_bytes > self._a.budget_bytes
        return f"peak {format_bytes(side.shown.peak_bytes)}{', over the budget' if over else ''}"

    def _draw_frontier(self, a: Side, b: Side) -> None:
        unit, size = byte_unit(max(a.plain.peak_bytes, b.plain.peak_bytes))
        lines, names = (stairs_of(a), stairs_of(b)), [plural(len(side.known), "schedule") for side in (a, b)]
        self.frontier.show_pair(
            Pair(
                _scaled(lines, across=size),
                (names[0], names[1]),
                f"peak, {unit}",
                "extra cost, %",
                lambda x: frontier_words((a, b), x * size),
                marked=True,
            )
        )

    def _copy(self) -> None:
        sides = self.sides
        if sides is not None:
            found = layer_table(sides[0].graph, sides[1].graph, self.pairs)
            QGuiApplication.clipboard().setText(found.csv())

    def done(self, result: int) -> None:
        """End the work on B, and let go of it. Esc and the window's own button come here, too."""
        self._soon.stop()
        self._reading.close(0.0)
        self.other.close()
        super().done(result)
        self.pairs = self._compared = self._least = ()
        self._made.clear()
        self._layers.fill([])
        self.memory.forget()
        self.frontier.forget()


def _facts_table() -> QTableWidget:
    table = QTableWidget(0, len(FACTS))
    table.setObjectName("cards")
    table.setAccessibleName("Facts of A and B")
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setTabKeyNavigation(False)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setHorizontalHeaderLabels(list(FACTS))
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(_ROW)
    header = table.horizontalHeader()
    header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    for place in (1, 2):
        header.setSectionResizeMode(place, QHeaderView.ResizeMode.Stretch)
    return table


def _fill(table: QTableWidget, rows: list[tuple[str, str, str, str]]) -> None:
    table.setRowCount(len(rows))
    for number, row in enumerate(rows):
        for place, text in enumerate(row):
            before = table.item(number, place)
            if before is None or before.text() != text:
                cell = QTableWidgetItem(text)
                cell.setToolTip(text)
                table.setItem(number, place, cell)


def _name(exploration: Exploration) -> str:
    graph = exploration.graph
    if graph is None:
        return ""
    return f"{graph.name}, batch {graph.batch_size}" if graph.batch_size else graph.name


def _scaled(lines: tuple[Line, Line], *, across: float = 1.0, up: float = 1.0) -> tuple[Line, Line]:
    (x, y), (other_x, other_y) = lines
    return (x / across, y / up), (other_x / across, other_y / up)
