from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QWidget

from app.models.remedies import Hotspot
from app.models.undo import ShownEdits, UndoCommands
from app.presenters.hotspot_rows import what_fills
from app.presenters.op_page import again_rows, facts, made, read, readers, rows_of_op
from app.presenters.view_tables import ViewTable, moment_table
from app.presenters.wording import short_name
from app.state.constraint_targets import ConstraintKind
from app.state.knowledge import ListedSchedule
from app.state.solve import Tightest
from app.views.common.panel import Panel
from app.views.common.texts import ElidedLabel, SteadyLabel
from app.views.common.view_models import ViewModels
from app.views.common.widgets import (
    NO_EDGES,
    called,
    command_button,
    fill,
    in_column,
    in_row,
    label,
    push_button,
    scrolling,
)
from app.views.panels.memory_page import MemoryPage
from app.views.panels.op_tables import LinkTable, NeedTable
from app.workers.background import on

_LEAST_ROWS = 40  # pixels of an op's facts in a low window; more would be taken from the budget


class Inspector(Panel):
    """Shows the facts of the selected op, and its constraints. If nothing is selected, it shows what fills
    memory at the playhead, and what would help. Signals: ``changed_height``: it needs more height than
    before, or less."""

    changed_height = Signal()

    def __init__(self, models: ViewModels, what_ifs: UndoCommands, shown_edits: ShownEdits) -> None:
        super().__init__("Inspector")
        exploration = self._exploration = models.exploration
        playhead, selection = self._playhead, self._selection = models.playhead, models.selection
        self._name = SteadyLabel("title", wrap=True)
        tip = "What is in memory now (click beside the graph's boxes)"
        self.back = push_button("‹ Memory", lambda: selection.select(-1), "small", tip=tip)
        self.head.addWidget(self.back)
        self.hotspot = Hotspot(exploration, playhead, self)
        self.memory = MemoryPage(models, self.hotspot, shown_edits)
        self._add_rows()
        self.what_if = WhatIfRow(what_ifs)
        fill(self.body, self._name, (self.memory, 1), (self._area, 1), self.what_if)
        on(self._refresh, exploration.shown_changed, exploration.constraints_changed)
        exploration.standing_changed.connect(self._say_again)
        on(self._refresh, playhead.told, selection.changed)

    def view_table(self) -> ViewTable | None:
        now = self.hotspot.now
        return None if now is None else moment_table(now)

    def _add_rows(self) -> None:
        self._grid = QGridLayout()
        self._grid.setVerticalSpacing(3)
        self._grid.setColumnStretch(1, 1)
        self.again = LinkTable("Why it is computed again", on_top=True)
        self.made, self.read, self.readers = LinkTable("Makes"), LinkTable("Reads"), LinkTable("Is read by")
        for table in (self.again, self.made, self.read, self.readers):
            table.wanted.connect(self._selection.select)
            table.sought.connect(self._playhead.seek)
        self.need, holder = NeedTable(), QWidget()
        links = self.made, self.read, self.readers
        # Why it runs again comes first, because a low panel shows few rows.
        holder.setLayout(in_column(self.again, self._grid, *links, self.need, None, edges=NO_EDGES))
        self._area = scrolling(holder, "What is known of the selected op")
        self._area.setMinimumHeight(_LEAST_ROWS)
        self._rows: list[tuple[QLabel, QLabel]] = []

    def _add_row(self) -> None:
        pair = (label("", muted=True), label("", wrap=True))
        pair[0].setAlignment(Qt.AlignmentFlag.AlignTop)
        pair[1].setTextFormat(Qt.TextFormat.PlainText)  # it names ops, such as <lambda>
        for column, part in enumerate(pair):
            self._grid.addWidget(part, len(self._rows), column)
        self._rows.append(pair)

    def _refresh(self, *_: object) -> None:
        shown = self._exploration.shown
        if shown is None:
            return
        selected = 0 <= self._selection.op < shown.graph.n
        was_selected = not self._area.isHidden()
        for part in (self._area, self.back):
            part.setVisible(selected)
        self.memory.setVisible(not selected)
        if selected != was_selected:
            self.changed_height.emit()
        if not selected:
            self._on_memory()
            return
        self._show_op(shown, self._selection.op)

    def show_need(self) -> None:
        QTimer.singleShot(0, self, lambda: self._area.verticalScrollBar().setValue(self.need.y()))

    def _tightest(self) -> Tightest | None:
        solve = self._exploration.solve
        return solve.tightest if solve is not None and solve.what_if is self._exploration.what_if else None

    def _on_memory(self) -> None:
        shown = self._exploration.shown
        assert shown is not None
        now = self.hotspot.now
        assert now is not None
        at_peak = now.live_bytes == shown.timeline.peak_bytes
        self._name.setText(what_fills(now, at_peak=at_peak))
        self._name.setToolTip(shown.graph.ops[now.op].name)
        self.note.setText(f"Step {now.step + 1}{' · peak' if at_peak else ''}")

    def _show_op(self, shown: ListedSchedule, op: int) -> None:
        entry = shown.graph.ops[op]
        self._name.setText(short_name(entry.name))
        self._name.setToolTip(entry.name)
        self.note.setText(f"{entry.phase.value.capitalize()} · op {op}")
        said = [(name.capitalize(), text) for name, text in facts(shown, op)]
        while len(self._rows) < len(said):
            self._add_row()
        for number, pair in enumerate(self._rows):
            texts = said[number] if number < len(said) else ("", "")
            for part, text in zip(pair, texts, strict=True):
                part.setText(text)
                part.setVisible(number < len(said))
        self._say_again()
        self.made.show_links(made(shown.graph, op), self._selection.value)
        self.read.show_links(read(shown.graph, op))
        self.readers.show_links(readers(shown, op, self._playhead.step))
        self.need.show_rows(rows_of_op(shown.graph, op, self._tightest()))

    def _say_again(self) -> None:
        shown, op = self._exploration.shown, self._selection.op
        if shown is not None and 0 <= op < shown.graph.n:
            self.again.show_links(again_rows(shown, op, self._exploration.standing))


class WhatIfRow(QWidget):
    """Two switches for the selected op or its layer. One says to keep it always, the other never to recompute
    it. Each switch solves again at once."""

    def __init__(self, what_ifs: UndoCommands) -> None:
        super().__init__()
        self._what_ifs = what_ifs
        self._title = ElidedLabel("muted")
        self.scopes = {
            True: called(
                QPushButton("Layer"), "What if: for the layer", "The whole layer, its gradients included"
            ),
            False: called(QPushButton("Op"), "What if: for the op alone", "This op alone"),
        }
        for by_layer, scope in self.scopes.items():
            scope.setObjectName("small")
            scope.setCheckable(True)
            scope.clicked.connect(lambda _=False, on=by_layer: self._what_ifs.set_by_layer(on))
        self.switches = {
            ConstraintKind.KEEP: command_button("edit.keep", lambda: what_ifs.switch(ConstraintKind.KEEP)),
            ConstraintKind.ONCE: command_button("edit.forbid", lambda: what_ifs.switch(ConstraintKind.ONCE)),
        }
        head = in_row((self._title, 1), *self.scopes.values())
        switches = in_row(*((switch, 1) for switch in self.switches.values()), gap=6)
        self.setLayout(in_column(head, switches, gap=6, edges=(0, 4, 0, 0)))
        what_ifs.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        target, has_layer = self._what_ifs.target, self._what_ifs.has_layer
        self.setVisible(target is not None or has_layer)
        by_layer = self._what_ifs.by_layer and has_layer
        for layer, button in self.scopes.items():
            button.setChecked(layer == by_layer)
            button.setEnabled(has_layer or not layer)
        self._title.set_whole("this op runs once in any case" if target is None else target.title)
        for kind, button in self.switches.items():
            button.setEnabled(self._what_ifs.can_switch(kind))
            button.setChecked(self._what_ifs.is_set(kind, target))
