from __future__ import annotations

import math

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent

from app.models.exploration import Exploration
from app.presenters.solve_text import in_short
from app.presenters.wording import as_sentence
from app.state.solve import Aim
from app.theme import CurrentTheme
from app.views.common.panel import Panel
from app.views.common.widgets import fill, in_row, label
from app.views.panels.budget_fields import AimRow, BudgetField
from app.views.panels.frontier import FrontierView
from app.workers.background import later, on
from checkmate.arguments import step_budget_of
from checkmate.errors import UsageError
from checkmate.units import Budget, format_bytes, parse_budget

DEBOUNCE_MS = 300


class BudgetPanel(Panel):
    """The slider; moving it shows the best known schedule at once. ``solve_wanted`` comes 300 ms after the
    last move, or when the slider is released. An aim (the least memory at a cost) moves the slider to the
    smallest known schedule at once, and ``solve_wanted`` then looks for smaller ones."""

    solve_wanted = Signal()

    def __init__(self, exploration: Exploration, theme: CurrentTheme) -> None:
        super().__init__("Memory budget")
        self._exploration = exploration
        self._timer = later(self, DEBOUNCE_MS, self.solve_wanted.emit)
        self._problem = label("", name="refusal", wrap=True)
        # Drawn over the aims and outside of the layout, so that the field does not move while typing.
        self._problem.setParent(self)
        self._problem.setVisible(False)
        self._figure = label("–", name="big")
        self._change = label("", name="title")
        self._change.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._unit = label("", name="unit")
        row = in_row(self._figure, self._unit, None, self._change)
        for part in (self._figure, self._unit):
            row.setAlignment(part, Qt.AlignmentFlag.AlignBottom)
        self.frontier = FrontierView(exploration, theme)
        self.frontier.dragged.connect(self.choose)
        self.frontier.cap_dragged.connect(self._on_cap)
        self.frontier.released.connect(self._on_released)
        self._entry = BudgetField()
        self._entry.returnPressed.connect(self._on_entered)
        self._entry.left.connect(self._on_left)
        self.aims = AimRow(exploration)
        self.aims.aimed.connect(self.aim)
        self.aims.refused.connect(self._complain)
        self.aims.percent.textEdited.connect(lambda: self._problem.setVisible(False))
        fill(self.body, row, (self.frontier, 1), in_row((self._entry, 1), self.aims.possible), self.aims)
        self._entry.textEdited.connect(lambda: self._problem.setVisible(False))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        exploration.graph_changed.connect(self._forget_entry)
        exploration.budget_changed.connect(self._on_moved)
        on(self._on_budget, exploration.graph_changed, exploration.budget_changed)
        exploration.standing_changed.connect(self._on_standing)

    def choose(self, budget_bytes: int) -> None:
        self._exploration.set_budget(max(0, budget_bytes))
        self._timer.start()

    def aim(self, aim: Aim) -> None:
        self._timer.stop()
        self._problem.setVisible(False)
        if self._exploration.graph is None:
            return
        self._exploration.set_aim(aim)
        self.solve_wanted.emit()

    def aim_at_least(self) -> None:
        self.aim(Aim(math.inf))

    def _on_cap(self, max_overhead: float) -> None:
        self._exploration.set_aim(Aim(max_overhead))
        self._timer.start()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        plain = self._exploration.plain
        if plain is None:
            return
        stride = plain.peak_bytes * (0.1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 0.01)
        budget = self._exploration.budget_bytes
        moves = {
            Qt.Key.Key_Left: budget - stride,
            Qt.Key.Key_Right: budget + stride,
            Qt.Key.Key_Home: self._exploration.least_bytes,
            Qt.Key.Key_End: plain.peak_bytes,
        }
        if event.key() in moves:
            self.choose(int(moves[Qt.Key(event.key())]))
        else:
            super().keyPressEvent(event)

    def _on_released(self) -> None:
        self.setFocus()
        self._timer.stop()
        self.solve_wanted.emit()

    def _on_entered(self) -> None:
        plain = self._exploration.plain
        if plain is None:
            return
        self._entry.setModified(False)
        try:
            budget = step_budget_of(parse_budget(self._entry.text()), plain.peak_bytes)
        except ValueError as error:
            self._complain(str(error))
            return
        except UsageError as error:
            self._complain(f"{error}; {error.hint}")
            return
        text = self._entry.text()
        self.take(budget)
        if budget != Budget():
            self._entry.setText(text)  # keep the user's spelling as long as the budget stays

    def take(self, budget: Budget) -> None:
        what_if = self._exploration.what_if
        if budget == Budget():
            self.aim_at_least()
        elif what_if is not None:
            most, least = what_if.plain.peak_bytes, what_if.known[0].peak_bytes
            resolved = budget.resolve(keep_everything_peak=most, minimum=least)
            self.choose(resolved if budget.bytes_ is None else what_if.as_listed(resolved))

    def _on_left(self) -> None:
        self._forget_entry()
        self.setFocus()

    def _on_moved(self) -> None:
        if not self._entry.being_typed:
            self._forget_entry()

    def _forget_entry(self) -> None:
        self._entry.clear()
        self._problem.setVisible(False)

    def _complain(self, sentence: str) -> None:
        self._problem.setText(as_sentence(sentence))
        self._place_problem()
        self._problem.setVisible(True)
        self._problem.raise_()

    def _place_problem(self) -> None:
        at, wide = self.aims.geometry(), self.aims.width()
        high = max(at.height(), self._problem.heightForWidth(wide))
        fits = at.top() + high < self.height()
        top = at.top() if fits else self._entry.geometry().top() - self.body.spacing() - high
        self._problem.setGeometry(at.left(), top, wide, high)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_problem()

    def _on_budget(self) -> None:
        exploration = self._exploration
        if exploration.plain is None:
            return
        figure, _, unit = format_bytes(exploration.budget_bytes).partition(" ")
        self._figure.setText(figure)
        self._unit.setText(unit)
        aim = exploration.aim
        self.note.setText("Predicted" if aim is None else f"Least {aim.words}")
        self.note.setToolTip(
            "The bytes that the ops request, predicted step by step. Export measures what a device allocates."
        )

    def _on_standing(self) -> None:
        standing, plain = self._exploration.standing, self._exploration.plain
        if standing is not None and plain is not None:
            self._change.setText("<br>".join(in_short(standing, plain.peak_bytes)))
