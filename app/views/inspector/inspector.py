"""What the selected op is, when it runs, and why it holds memory.

It says why the op's output is in memory now.
"""

from __future__ import annotations

import html

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.models.comparison import Comparison
from app.models.cursors import Playhead, Selection
from app.models.exploration import Exploration
from app.models.hotspot import Hotspot
from app.models.undo import WhatIfs
from app.presenters.wording import origin_text, short_name, strong
from app.state.constraint_targets import ConstraintKind
from app.theme import Theme
from app.views.common.command_button import command_button
from app.views.common.panel import Panel, label
from app.views.inspector.memory_page import MemoryPage
from checkmate.machine.cost_origin import cost_text
from checkmate.units import format_bytes

_READERS = 6


class Inspector(Panel):
    """Shows the facts of the selected op, and its constraints.

    If nothing is selected, it shows what fills memory at the playhead, and what would help.
    """

    def __init__(
        self,
        exploration: Exploration,
        comparison: Comparison,
        playhead: Playhead,
        selection: Selection,
        theme: Theme,
        what_ifs: WhatIfs,
    ) -> None:
        super().__init__("Inspector")
        self._exploration, self._playhead, self._selection, self._theme = (
            exploration,
            playhead,
            selection,
            theme,
        )
        self._name = label("", name="title", wrap=True)
        self.back = QPushButton("‹ Memory")
        self.back.setObjectName("small")
        self.back.setToolTip("What is in memory now (click beside the graph's boxes)")
        self.back.clicked.connect(lambda: selection.select(-1))
        self.head.addWidget(self.back)
        self.body.addWidget(self._name)
        self.hotspot = Hotspot(exploration, playhead, self)
        self.memory = MemoryPage(exploration, comparison, self.hotspot, selection, theme)
        self.body.addWidget(self.memory, 1)
        self._add_rows()
        self.what_if = WhatIfRow(what_ifs)
        self.body.addWidget(self.what_if)
        exploration.shown_changed.connect(self._refresh)
        exploration.constraints_changed.connect(self._refresh)
        playhead.moved.connect(self._refresh)
        selection.changed.connect(self._refresh)

    def _add_rows(self) -> None:
        """Add the rows of an op's facts, in an area that scrolls."""
        self._grid = QGridLayout()
        self._grid.setVerticalSpacing(3)
        self._grid.setColumnStretch(1, 1)
        holder = QWidget()
        inner = QVBoxLayout(holder)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.addLayout(self._grid)
        inner.addStretch(1)
        area = self._area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(holder)
        self.body.addWidget(area, 1)
        self._rows: list[tuple[QLabel, QLabel]] = []
        for row in range(6 + _READERS):
            pair = (label("", muted=True), label(""))
            self._rows.append(pair)
            self._grid.addWidget(pair[0], row, 0)
            self._grid.addWidget(pair[1], row, 1)

    def _refresh(self, *_: object) -> None:
        shown = self._exploration.shown
        if shown is None:
            return
        selected = 0 <= self._selection.op < shown.graph.n
        for part in (self._area, self.back):
            part.setVisible(selected)
        self.memory.setVisible(not selected)
        if not selected:
            self._on_memory()
            return
        rows = self._op_rows()
        for number, (left, right) in enumerate(self._rows):
            texts = rows[number] if number < len(rows) else ("", "")
            left.setText(texts[0])
            right.setText(texts[1])
            left.setVisible(number < len(rows))
            right.setVisible(number < len(rows))

    def _on_memory(self) -> None:
        """Show the step at the playhead, and how much is live."""
        shown = self._exploration.shown
        assert shown is not None
        step = min(self._playhead.step, len(shown.schedule.steps) - 1)
        op = shown.graph.ops[int(shown.schedule.steps[step])]
        live = int(shown.timeline.live_bytes[step])
        peak = " · peak" if live == shown.timeline.peak_bytes else ""
        self._name.setText(short_name(op.name))
        self.note.setText(f"step {step + 1} · {format_bytes(live)}{peak}")

    def _op_rows(self) -> list[tuple[str, str]]:
        shown = self._exploration.shown
        assert shown is not None
        graph, op = shown.graph, self._selection.op
        entry = graph.ops[op]
        self._name.setText(short_name(entry.name))
        self.note.setText(f"{entry.phase.value} · op {op}")
        runs = np.flatnonzero(shown.schedule.steps == op)
        largest = max(entry.outputs, key=lambda v: graph.values[v].bytes, default=None)
        value = None if largest is None else graph.values[largest]
        shape = "–" if value is None or value.shape is None else "×".join(map(str, value.shape))
        times = "once" if len(runs) == 1 else f"↻ {len(runs)} times"
        rows = [
            ("layer", entry.group or "–"),
            ("output", f"{shape} {value.dtype or ''}" if value is not None else "–"),
            ("size", format_bytes(sum(graph.values[v].bytes for v in entry.outputs))),
            ("cost", f"{cost_text(graph, entry.cost)} ({origin_text(graph).removeprefix('costs ')})"),
            ("computed", f"{times}, at step {', '.join(str(int(r) + 1) for r in runs[:4])}"),
        ]
        if shown.constrained.locked[op]:
            rows.append(("locked", "runs once; kept to its last use"))
        return rows + self._why(op)

    def _why(self, op: int) -> list[tuple[str, str]]:
        """Return who reads the op's output, and when: done, now, next."""
        shown = self._exploration.shown
        assert shown is not None
        graph, step = shown.graph, self._playhead.step
        readers = sorted({r for v in graph.ops[op].outputs for r in graph.value_readers[v].tolist()})
        times = [
            (int(at), reader) for reader in readers for at in np.flatnonzero(shown.schedule.steps == reader)
        ]
        rows: list[tuple[str, str]] = []
        for at, reader in sorted(times)[:_READERS]:
            when = "done" if at < step else "now" if at == step else "next"
            rows.append(
                (f"read at {at + 1}", f"{html.escape(short_name(graph.ops[reader].name))} · {strong(when)}")
            )
        return rows


class WhatIfRow(QWidget):
    """Two switches for the selected op or its layer.

    One says to keep it always, the other never to recompute it. Each switch solves again at once.
    """

    def __init__(self, what_ifs: WhatIfs) -> None:
        super().__init__()
        self._what_ifs = what_ifs
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(6)
        head = QHBoxLayout()
        self._title = label("", muted=True)
        head.addWidget(self._title, 1)
        self.scopes = {True: QPushButton("Layer"), False: QPushButton("Op")}
        for by_layer, button in self.scopes.items():
            button.setObjectName("small")
            button.setCheckable(True)
            button.setToolTip("The whole layer, its gradients included" if by_layer else "This op alone")
            button.setAccessibleName("What if: for the layer" if by_layer else "What if: for the op alone")
            button.clicked.connect(lambda _=False, on=by_layer: setattr(self._what_ifs, "by_layer", on))
            head.addWidget(button)
        column.addLayout(head)
        row = QHBoxLayout()
        row.setSpacing(6)
        self.switches = {
            ConstraintKind.KEEP: command_button("edit.keep", lambda: what_ifs.switch(ConstraintKind.KEEP)),
            ConstraintKind.ONCE: command_button("edit.forbid", lambda: what_ifs.switch(ConstraintKind.ONCE)),
        }
        for button in self.switches.values():
            row.addWidget(button, 1)
        column.addLayout(row)
        what_ifs.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        target, has_layer = self._what_ifs.target, self._what_ifs.has_layer
        self.setVisible(target is not None or has_layer)
        by_layer = self._what_ifs.by_layer and has_layer
        for layer, button in self.scopes.items():
            button.setChecked(layer == by_layer)
            button.setEnabled(has_layer or not layer)
        title = "this op runs once in any case" if target is None else target.title
        self._title.setText(self._title.fontMetrics().elidedText(title, Qt.TextElideMode.ElideRight, 200))
        self._title.setToolTip(title)
        for kind, button in self.switches.items():
            button.setEnabled(self._what_ifs.can_switch(kind))
            button.setChecked(self._what_ifs.is_set(kind, target))
