from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QButtonGroup,
    QDialog,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QSplitter,
    QTableView,
    QWidget,
)

from app.models.exploration import Exploration
from app.models.opening import OtherGraph, side_of
from app.presenters import graph_comparison as comparison
from app.presenters.range_rows import Cell
from app.state.knowledge import ListedSchedule
from app.theme import CurrentTheme
from app.views.common.cell_model import CellModel, cell_table, sorted_table
from app.views.common.widgets import NO_EDGES, closing, in_column, in_row, label, push_button
from app.views.dialogs.charts import Pair, PairPlot
from app.views.panels.schedules_panel import FillRow
from app.workers.background import Background, later, on
from checkmate.units import byte_unit, format_bytes, plural

_SIZE, _SHARE = (1280, 800), (0.94, 0.88)  # pixels; of a smaller screen, with room for the window's frame
_FACTS_WIDTH, _ROW = 440, 27

_SOON_MS = 150  # schedules come in many at a time


# A, B, and what their layers have.
_Compared = tuple[comparison.Side, comparison.Side, tuple[comparison.LayerPair, ...], list[tuple[Cell, ...]]]


class GraphCompareDialog(QDialog):
    """Compares A and B: facts, memory curves, frontiers and layers. They follow what is found of both. It is
    empty until ``refresh``. ``other`` is closed along with it. Signal ``other_wanted``: another file is to be
    B."""

    other_wanted = Signal()

    def __init__(
        self, exploration: Exploration, other: OtherGraph, theme: CurrentTheme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._a, self.other, self._b = exploration, other, other.exploration
        self.pairs: tuple[comparison.LayerPair, ...] = ()
        self._compared: tuple[object, ...] = ()  # the graphs whose layers are listed
        self._least: tuple[object, ...] = ()  # the smallest schedules that the facts name
        self.words = label("", wrap=True)
        self._facts = CellModel(comparison.FACTS, range(len(comparison.FACTS)))
        self.memory = PairPlot("Memory over the step, of A and of B", theme)
        self.frontier = PairPlot("Extra cost against memory, of A and of B", theme)
        self._layers = CellModel(comparison.COLUMNS, {comparison.LAYER})
        self.table = sorted_table(self._layers, "Layers of A and B by name", comparison.LAYER)
        self.table.sortByColumn(comparison.DIFFERENCE, Qt.SortOrder.DescendingOrder)
        self._reading = Background(self)
        self._reading.done.connect(self._on_layers)
        self._lay_out()
        room, (wide, high) = self.screen().availableGeometry(), _SIZE
        self.resize(min(wide, round(_SHARE[0] * room.width())), min(high, round(_SHARE[1] * room.height())))
        self._soon = later(self, _SOON_MS, self.refresh)
        for one in (self._a, self._b):
            on(self._soon.start, one.graph_changed, one.known_changed, one.shown_changed, one.budget_changed)

    def _lay_out(self) -> None:
        upper, parts = QWidget(), QSplitter(Qt.Orientation.Vertical, childrenCollapsible=False)
        upper.setLayout(in_row(self._facts_table(), (self.memory, 1), (self.frontier, 1), edges=NO_EDGES))
        parts.addWidget(upper)
        parts.addWidget(self.table)
        parts.setSizes([420, 300])
        self.copy = push_button("Copy the table", self._copy, tip="Copy all layers as CSV")
        self.another = push_button("Another file…", self.other_wanted.emit, tip="Compare with another file")
        for one in (self.copy, self.another):
            one.setAutoDefault(False)
        buttons = closing(self, self.copy, self.another)
        self.setLayout(in_column(self.words, self._controls(), (parts, 1), buttons))

    def _facts_table(self) -> QTableView:
        table = cell_table(self._facts, "Facts of A and B")
        table.setTabKeyNavigation(False)
        table.verticalHeader().setDefaultSectionSize(_ROW)
        for place in (1, 2):
            table.horizontalHeader().setSectionResizeMode(place, QHeaderView.ResizeMode.Stretch)
        table.setFixedWidth(_FACTS_WIDTH)
        return table

    def _controls(self) -> QHBoxLayout:
        self.plain, self.best = self._choice("Keep everything", "Within the budget")
        self.across = self._choice("Share of the step", "Steps")
        self.across[0].setToolTip("How much of the step's cost is done")
        self.filling = FillRow(self._b)
        self.filling.setMinimumWidth(330)
        curves, across, b = (label(text, muted=True) for text in ("Curves", "Across", "B"))
        return in_row(curves, self.plain, self.best, 12, across, *self.across, None, b, self.filling)

    def _choice(self, *words: str) -> list[QPushButton]:
        group, buttons = QButtonGroup(self), [push_button(text, self.refresh, "small") for text in words]
        for one in buttons:
            one.setCheckable(True)
            one.setAutoDefault(False)
            group.addButton(one)
        buttons[0].setChecked(True)
        return buttons

    @property
    def sides(self) -> tuple[comparison.Side, comparison.Side] | None:
        shown: list[ListedSchedule | None] = [None, None]
        if self.best.isChecked() and self._a.shown is not None and self._b.known:
            shown = [self._a.shown, comparison.within(self._b.known, self._a.budget_bytes)]
        a, b = side_of(_name(self._a), self._a, shown[0]), side_of(_name(self._b), self._b, shown[1])
        return None if a is None or b is None else (a, b)

    def refresh(self) -> None:
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
            self._facts.fill_again(
                [tuple(Cell(text, text, text) for text in row) for row in comparison.fact_rows(a, b)]
            )
        self._compared, self._least = graphs, least

    def _compare_layers(self, a: comparison.Side, b: comparison.Side) -> None:
        self.pairs = ()
        self._layers.fill([])
        self.words.clear()

        def work() -> _Compared:
            pairs = comparison.layer_pairs(a.graph, b.graph)
            return a, b, pairs, comparison.layer_cells(a.graph, b.graph, pairs)

        self._reading.start(work)  # waits if a comparison is still running

    def _on_layers(self, made: _Compared) -> None:
        a, b, self.pairs, cells = made
        if self._compared != (a.graph, b.graph):
            self._compared = ()
            self.refresh()
            return
        self._layers.fill(cells)
        self.words.setText(comparison.sentence(a, b, self.pairs))

    def _draw_memory(self, a: comparison.Side, b: comparison.Side) -> None:
        share = self.across[0].isChecked()
        unit, size = byte_unit(max(a.plain.peak_bytes, b.plain.peak_bytes))
        lines = comparison.curve_of(a.shown, by_share=share), comparison.curve_of(b.shown, by_share=share)
        self.memory.show_pair(
            Pair(
                [(x, y / size) for x, y in map(comparison.outline_of, lines)],
                [self._peak_words(side) for side in (a, b)],
                "step, %" if share else "step",
                f"{unit}, predicted",
                lambda x: comparison.memory_words(lines, x, share=share),
            )
        )

    def _peak_words(self, side: comparison.Side) -> str:
        over = self.best.isChecked() and side.shown.peak_bytes > self._a.budget_bytes
        return f"peak {format_bytes(side.shown.peak_bytes)}{', over the budget' if over else ''}"

    def _draw_frontier(self, a: comparison.Side, b: comparison.Side) -> None:
        unit, size = byte_unit(max(a.plain.peak_bytes, b.plain.peak_bytes))
        self.frontier.show_pair(
            Pair(
                [(x / size, y) for x, y in map(comparison.stairs_of, (a, b))],
                [plural(len(side.known), "schedule") for side in (a, b)],
                f"peak, {unit}",
                "extra cost, %",
                lambda x: comparison.frontier_words((a, b), x * size),
                marked=True,
            )
        )

    def _copy(self) -> None:
        sides = self.sides
        if sides is not None:
            found = comparison.layer_table(sides[0].graph, sides[1].graph, self.pairs)
            QGuiApplication.clipboard().setText(found.csv())

    def done(self, result: int) -> None:
        self._soon.stop()
        self._reading.close()
        self.other.close()
        super().done(result)
        self.pairs = self._compared = self._least = ()
        self._layers.fill([])
        self.memory.forget()
        self.frontier.forget()


def _name(exploration: Exploration) -> str:
    graph = exploration.graph
    if graph is None:
        return ""
    return f"{graph.name}, batch {graph.batch_size}" if graph.batch_size else graph.name
