from __future__ import annotations

import math

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLineEdit, QWidget

from app.actions import ACTIONS, EnabledIf
from app.models.exploration import Exploration
from app.state.solve import Aim
from app.views.common.widgets import NO_EDGES, command_button, in_row
from app.workers.background import on
from checkmate.units import parse_overhead

FIRST_OVERHEAD = 0.05


class AimRow(QWidget):
    """Two buttons and a field for the aims. A button stays pressed while the budget follows its aim. Signals:
    ``aimed(Aim)``: an aim was asked for; ``refused(sentence)``: what was typed is no extra cost, and why."""

    aimed = Signal(object)
    refused = Signal(str)

    def __init__(self, exploration: Exploration) -> None:
        super().__init__()
        self._exploration = exploration
        self.least = command_button("solve.least_at_cost", self.ask_within, "Least memory at most")
        self.percent = _Percent()
        self.possible = command_button("solve.least", lambda: self.ask(Aim(math.inf)), "Least possible")
        for button in (self.least, self.possible):
            button.setCheckable(True)
            button.setAccessibleName(button.text())
        self.setLayout(in_row((self.least, 1), self.percent, gap=6, edges=NO_EDGES))
        self.percent.returnPressed.connect(self.ask_within)
        on(self.refresh, exploration.budget_changed, exploration.graph_changed)

    def ask_within(self) -> None:
        try:
            self.ask(Aim(self.percent.overhead()))
        except ValueError as error:
            self.refused.emit(str(error))
            self.refresh()

    def ask(self, aim: Aim) -> None:
        """Emit ``aimed`` if a graph is open. Without one, the button comes up again."""
        if self._exploration.graph is not None:
            self.aimed.emit(aim)
        self.refresh()

    def refresh(self) -> None:
        aim = self._exploration.aim
        self.least.setChecked(aim is not None and aim.limited)
        self.possible.setChecked(aim is not None and not aim.limited)
        if aim is not None and aim.limited:
            self.percent.show_overhead(aim.max_overhead)


class _Percent(QLineEdit):
    """A field for an extra cost such as ``+5 %``. Up and Down change it by one percent."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedWidth(76)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setAccessibleName("Extra cost, in percent")
        self.setToolTip("Extra cost over computing everything once: 5 % or 0.05")
        self.show_overhead(FIRST_OVERHEAD)

    def overhead(self) -> float:
        return parse_overhead(self.text().strip().removeprefix("+").replace(" %", "%"))

    def show_overhead(self, overhead: float) -> None:
        self.setText(f"+{100 * overhead:.4g} %")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        change = {Qt.Key.Key_Up: 0.01, Qt.Key.Key_Down: -0.01}.get(Qt.Key(event.key()))
        if change is None:
            super().keyPressEvent(event)
            return
        try:
            self.show_overhead(max(0.0, round(self.overhead() + change, 6)))
        except ValueError:
            self.show_overhead(FIRST_OVERHEAD)


# The window's keys, which work while typing too; but a line of text has its own undo.
_COMMANDS = tuple(
    QKeySequence(key)
    for entry in ACTIONS
    if entry.when not in (EnabledIf.CAN_UNDO, EnabledIf.CAN_REDO)
    for key in entry.keys
    if "Ctrl+" in key
)


class BudgetField(QLineEdit):
    """Takes a budget such as ``6.5GiB``; Escape empties and leaves it. Signal ``left``: Escape was
    pressed."""

    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText("6.5GiB, 60% or min")
        self.setAccessibleName("Exact budget")

    @property
    def being_typed(self) -> bool:
        return self.hasFocus() and self.isModified()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            if event.key() == Qt.Key.Key_Escape:
                event.accept()  # or it would stop the solve
                return True
            if QKeySequence(event.keyCombination()) in _COMMANDS:
                event.ignore()  # some of them would move the cursor or cut the text
                return False
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.clear()
            self.left.emit()
        else:
            super().keyPressEvent(event)
