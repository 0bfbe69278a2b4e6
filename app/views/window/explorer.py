from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QSplitter, QWidget

from app.models.cursors import Comparison
from app.models.placements import MemoryLines, Placing
from app.models.span import StepSpan
from app.models.undo import ListEdits, ShownEdits
from app.presenters.paper import FigureFile, Shows
from app.presenters.solve_text import in_brief, on_screen
from app.state.solve import LONGER_SECONDS, WITHOUT
from app.views.common.paint_turns import PaintTurns
from app.views.common.panel import Panel, PanelDock
from app.views.common.texts import ElidedLabel
from app.views.common.view_models import ViewModels
from app.views.common.view_saver import SavableView, ViewSaver
from app.views.common.widgets import bring_up, command_button, fill, in_row, open_below, scrolling
from app.views.dialogs.cards_dialog import CardsDialog
from app.views.dialogs.export_dialog import FigureDialog
from app.views.dialogs.range_dialog import RangeDialog
from app.views.graph.graph_view import GraphView
from app.views.panels.budget_panel import BudgetPanel
from app.views.panels.inspector import Inspector
from app.views.panels.layers_panel import LayersPanel
from app.views.panels.schedules_panel import SchedulesPanel
from app.views.panels.size_rows import BatchRow, InputRow
from app.views.panels.solving_panel import SolvingPanel
from app.views.timeline.allocator_view import AllocatorView
from app.views.timeline.curve_view import CurveView
from app.views.timeline.matrix_view import MatrixView
from app.views.timeline.timeline_bars import CompareBar, LinesMenu, SpanBar
from app.views.timeline.transport import Transport
from app.views.window.base_window import BaseWindow
from app.views.window.figures import Figures
from app.views.window.panel_area import PanelArea

_LEAST_BUDGET = 280  # pixels of height; below that its plot would be too flat to read
_LEAST_PLOT = 184  # pixels of width
_LEAST_HEIGHTS = 140, 90, 70, 70  # pixels, of curve, addresses, R and S
_SHARES = [1600, 1000]  # of the height, of memory and of R and S
_ROOMY = 640  # pixels; a narrower graph has no room for all the words in its head

_ALL = 100  # a widget's share of the space, against 1 of the others


class Explorer(QWidget):
    """The graph, and the other panels as docks around it. Every view observes the models; nothing here holds
    state."""

    def __init__(self, window: BaseWindow) -> None:
        super().__init__()
        self._session, self._what_ifs = session, what_ifs = window.session, window.what_ifs
        exploration, selection, theme = session.exploration, window.selection, window.theme
        self._line_choice = window.line_choice
        self._range: RangeDialog | None = None
        self._cards: CardsDialog | None = None
        self._without = False  # no schedule is known for the budget, and none is sought
        self.comparison, self.span = Comparison(exploration, self), StepSpan(exploration, self)
        moved = self.comparison, window.playhead, selection, self.span
        self.models = ViewModels(exploration, *moved, theme)
        self.shown_edits = ShownEdits(exploration, self.comparison, what_ifs.stack)
        self.budget, self.batch = BudgetPanel(exploration, theme), BatchRow(exploration, window.batch_scale)
        self.input_size = InputRow(exploration, window.input_scale)
        self.batch.add_offer(self.input_size.offer)
        self._rows_room: dict[QWidget, int] = {}
        for row in (self.batch, self.input_size):
            self.budget.body.addWidget(row)
            row.room_wanted.connect(partial(self._give_row_room, row))
        self.solving = SolvingPanel(exploration, theme)
        self.layers = LayersPanel(self.models)
        self.inspector = Inspector(self.models, what_ifs, self.shown_edits)
        self.edits = ListEdits(exploration, what_ifs.stack)
        self.schedules = SchedulesPanel(exploration, self.comparison, self.edits, self.shown_edits, theme)
        self.graph_panel, self.timeline_panel = self._graph_panel(), self._timeline_panel()
        self.area = PanelArea(self.graph_panel, self._docks(), self)
        views: list[QWidget] = [self.budget, self.curve, self.allocator, self.solving, *self.matrices]
        views += [self.graph_view, self.inspector, self.schedules, self.layers]
        self.turns = PaintTurns(views, self)
        self.saver = ViewSaver(session, theme, self.turns, self)
        self.figures = Figures(self.models, self.graph_view)
        add_copy_save_menus(self.saver, self)
        self.setLayout(in_row(self.area, edges=(8, 8, 8, 8)))
        for button in self.findChildren(QAbstractButton):
            if button.focusPolicy() == Qt.FocusPolicy.StrongFocus:
                # A click leaves the keys where they were: the space bar then still plays the step.
                button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._order_tabs()
        self._connect()

    def _connect(self) -> None:
        session, exploration = self._session, self._session.exploration
        self.layers.zoom_wanted.connect(self.graph_view.zoom_to)
        self.saver.figure_wanted.connect(self.open_figure)
        self.budget.solve_wanted.connect(self._what_ifs.ask)
        self.solving.stop.clicked.connect(lambda: session.stop_solve())
        self.solving.more.clicked.connect(lambda: session.solve(LONGER_SECONDS))
        self.solving.minimum.clicked.connect(self.budget.aim_at_least)
        self.solving.show_best.clicked.connect(self.shown_edits.show_best)
        self.solving.clear.clicked.connect(self._what_ifs.clear)
        self.solving.op_wanted.connect(self._show_op)
        self.solving.budget_wanted.connect(self.budget.choose)
        self.inspector.changed_height.connect(lambda: QTimer.singleShot(0, self, self.area.fit))
        self.solving.room_wanted.connect(lambda pixels: self.area.give_room("solving", "schedules", pixels))
        exploration.graph_changed.connect(self._on_zoom)
        exploration.shown_changed.connect(self.turns.begin)
        exploration.standing_changed.connect(self._on_standing)

    def _order_tabs(self) -> None:
        """Let Tab go down one column after the other, and down each panel from its head."""
        columns = self.inspector, self.layers, self.timeline_panel, self.graph_panel
        docks: dict[Panel, QWidget] = {dock.panel: dock for dock in self.area.docks.values()}
        reached, stops, one = list[QWidget](), list[QWidget](), self.nextInFocusChain()
        while one is not None and one is not self:
            reached += [one] if one.focusPolicy() & Qt.FocusPolicy.TabFocus else []
            one = one.nextInFocusChain()
        for panel in (*columns, self.budget, self.solving, self.schedules):
            frame = docks.get(panel, panel)
            stops += sorted(filter(frame.isAncestorOf, reached), key=panel.place_in_head)
        for before, after in pairwise(stops):
            QWidget.setTabOrder(before, after)

    def _docks(self) -> dict[str, PanelDock]:
        # In a low dock, a plot scrolls; squeezed, its parts would cover each other.
        self.budget.setMinimumHeight(_LEAST_BUDGET)
        return {
            "layers": PanelDock(self.layers, "layers"),
            "schedules": PanelDock(self.schedules, "schedules"),
            "timeline": PanelDock(self.timeline_panel, "timeline"),
            "budget": PanelDock(self.budget, "budget", scrolls=True),
            "solving": PanelDock(self.solving, "solving", scrolls=True),
            "inspector": PanelDock(self.inspector, "inspector"),
        }

    def _give_row_room(self, row: QWidget, pixels: int) -> None:
        self._rows_room[row] = pixels + self.budget.body.spacing() if pixels else 0
        self.budget.setMinimumHeight(_LEAST_BUDGET + sum(self._rows_room.values()))
        self.area.fit()

    def _graph_panel(self) -> Panel:
        panel = Panel("Training graph")
        self.graph_view = view = GraphView(self.models, self._what_ifs)
        self.standing = ElidedLabel("standing")
        self.standing.hide()
        panel.head.insertWidget(1, self.standing)
        self._zoom = command_button("view.zoom_reset", view.zoom_reset, "100 %")
        for button in (
            command_button("view.zoom_out", view.zoom_out, "−"),
            self._zoom,
            command_button("view.zoom_in", view.zoom_in, "+"),
            command_button("view.fit", view.fit, "Fit"),
        ):
            button.setObjectName("small")
            panel.head.addWidget(button)
        self.graph_view.changed.connect(self._on_zoom)
        panel.body.addWidget(self.graph_view, 1)
        return panel

    def _timeline_panel(self) -> Panel:
        panel, models = Panel("Timeline"), self.models
        exploration, theme = models.exploration, models.theme
        self.span_bar = SpanBar(exploration, self.span)
        self.span_bar.table_wanted.connect(self.open_range)
        panel.head.insertWidget(1, self.span_bar, _ALL)
        self.compare_bar = CompareBar(self.comparison, self.shown_edits)
        self.placing = Placing(exploration, self)
        self.lines = MemoryLines(exploration, self.placing, self._line_choice, self)
        self.curve = CurveView(models, self.lines)
        self.lines_menu = LinesMenu(self.lines, self)
        self.span_bar.menu.addMenu(self.lines_menu)
        self.allocator = AllocatorView(models, self.placing)
        self.matrices = [MatrixView(title, models) for title in ("R", "S")]
        self._plot_stack = self._plots()
        plots = scrolling(self._plot_stack, "Plots over the step")  # they scroll if the panel is low
        plots.setMinimumWidth(_LEAST_PLOT)
        plots.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the keys are for the plots in it
        self.transport = Transport(exploration, models.playhead, theme)
        self.transport.setMinimumWidth(1)  # it hides buttons that do not fit
        fill(panel.body, self.compare_bar, (plots, 1), self.transport)
        return panel

    def _plots(self) -> QSplitter:
        """Stack all plots over one shared horizontal axis."""
        plots = self.curve, self.allocator, *self.matrices
        for plot, least in zip(plots, _LEAST_HEIGHTS, strict=True):
            plot.setMinimumHeight(least)
        self.memory_plots, self.matrix_plots = _stacked(self.curve, self.allocator), _stacked(*self.matrices)
        self.allocator.hide()
        self.span.changed.connect(self._show_addresses)
        stack = _stacked(self.memory_plots, self.matrix_plots)
        stack.setSizes(_SHARES)
        return stack

    def _show_addresses(self) -> None:
        wanted = self.span.with_addresses
        if wanted is self.allocator.isHidden():
            self.curve.getPlotItem().showAxis("bottom", not wanted)  # the allocator's view shows it then
            self.allocator.setVisible(wanted)
            self._plot_stack.setSizes([2 * _SHARES[0] if wanted else _SHARES[0], _SHARES[1]])
            self.area.want_high_timeline(wanted)

    def open_range(self) -> RangeDialog:
        if self.span.chosen is None and self._session.exploration.shown is not None:
            self.span.choose((0, self.span.count - 1))
        if self._range is None:
            self._range = RangeDialog(self._session.exploration, self.span, self.models.selection, self)
        self._range.open_table()
        return self._range

    def offer_lines(self) -> None:
        self.area.show_panel("timeline")
        open_below(self.lines_menu, self.span_bar.ways)

    def open_cards(self) -> CardsDialog:
        if self._cards is None:
            self._cards = CardsDialog(self._session.exploration, self)
            self._cards.budget_wanted.connect(self.budget.choose)
        bring_up(self._cards)
        return self._cards

    def open_figure(self, shows: Shows = Shows.CURVE) -> FigureDialog:
        graph = self._session.exploration.graph
        dialog = FigureDialog(shows, "figure" if graph is None else graph.name, self.window())
        dialog.wanted.connect(self._save_figure)
        dialog.open()
        return dialog

    def _save_figure(self, wanted: FigureFile) -> None:
        self._session.attempt(lambda: self.figures.save(wanted), f"Saved {wanted.path}.")

    def scroll_to_top(self) -> None:
        for rows in self.findChildren(QAbstractItemView):
            rows.scrollToTop()

    def go_to(self, op: int) -> None:
        self.graph_view.zoom_to(op)
        self.graph_view.setFocus()

    def _show_op(self, op: int) -> None:
        shown = self._session.exploration.shown
        if shown is not None:
            self.models.selection.select(op)
            self.models.playhead.seek(int(np.flatnonzero(shown.schedule.steps == op)[0]))
            self.inspector.show_need()

    def _on_zoom(self) -> None:
        graph, layout = self._session.exploration.graph, self.graph_view.layout_shown
        if graph is not None and layout is not None:
            self.graph_panel.note.setText(f"{graph.n} ops in {len(layout.boxes)} boxes")
            self._zoom.setText(f"{self.graph_view.zoom_percent} %")
            self._make_room_in_head()

    def _on_standing(self) -> None:
        standing = self._session.exploration.standing
        said = "" if standing is None else in_brief(standing)
        if standing is not None and said:
            self.standing.set_whole(said, on_screen(standing))
        self.standing.setVisible(bool(said))
        without = standing is not None and standing.fit in WITHOUT
        if without != self._without:  # why nothing fits is not to be behind a tab
            self._without = without
            self.area.turn_to("solving" if without else "schedules")
        self._make_room_in_head()

    def _make_room_in_head(self) -> None:
        self.graph_panel.want_note(self.standing.isHidden() or self.graph_panel.width() >= _ROOMY)


def _stacked(*plots: QWidget) -> QSplitter:
    stack = QSplitter(Qt.Orientation.Vertical, childrenCollapsible=False)
    for plot in plots:
        stack.addWidget(plot)
    stack.setSizes([1000] * len(plots))  # the same share each
    return stack


def add_copy_save_menus(saver: ViewSaver, explorer: Explorer) -> None:
    docks, add, graph = explorer.area.docks, saver.add_menu, explorer.graph_view
    (r, s), frontier = explorer.matrices, explorer.budget.frontier
    add(explorer.layers, SavableView("Layers", docks["layers"], explorer.layers))
    add(explorer.schedules, SavableView("Schedules", docks["schedules"], explorer.schedules))
    add(explorer.graph_panel, SavableView("Training graph", graph, graph, Shows.GRAPH))
    add(
        explorer.timeline_panel,
        SavableView("Memory curve", explorer.curve, explorer.curve, Shows.CURVE),
        SavableView("Addresses", explorer.allocator, explorer.allocator),
        SavableView("R", r, r, Shows.R),
        SavableView("S", s, s, Shows.S),
    )
    add(explorer.budget, SavableView("Frontier", frontier, frontier, Shows.FRONTIER))
    add(explorer.solving, SavableView("Solving", docks["solving"], explorer.solving))
    add(explorer.inspector, SavableView("Memory now", docks["inspector"], explorer.inspector))
