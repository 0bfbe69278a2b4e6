from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QCheckBox, QInputDialog, QMenu, QWidget

from app.models.cursors import Comparison
from app.models.exploration import Exploration
from app.models.undo import ListEdits, ShownEdits
from app.presenters.schedule_rows import ScheduleRow, cost_text, grouped
from app.presenters.view_tables import ViewTable, schedules_table
from app.presenters.wording import fill_text
from app.state.knowledge import ListedSchedule
from app.theme import CurrentTheme
from app.views.common.panel import Panel
from app.views.common.texts import ElidedLabel
from app.views.common.widgets import NO_EDGES, called, command_button, fill, in_row, push_button
from app.views.panels.schedule_tree import ScheduleTree
from app.workers.background import later, on
from checkmate.ir import Graph
from checkmate.progress import FillState
from checkmate.units import format_bytes

_SOON_MS = 40


class SchedulesPanel(Panel):
    """Lists the user's own schedules, the baselines, and the frontier. A click shows a schedule (A); a
    right-click or Ctrl+click compares it (B)."""

    def __init__(
        self,
        exploration: Exploration,
        comparison: Comparison,
        edits: ListEdits,
        shown_edits: ShownEdits,
        theme: CurrentTheme,
    ) -> None:
        super().__init__("Schedules")
        self.note.setText("Peak")
        self._exploration, self._comparison, self._edits = exploration, comparison, edits
        self._shown_edits = shown_edits
        self._filled: Graph | None = None
        self.compare = command_button("view.compare", shown_edits.toggle, "A | B")
        self.compare.setObjectName("small")
        self.compare.setCheckable(True)
        self.compare.setAccessibleName("Compare two schedules")
        self.compare.setMinimumWidth(48)
        self.head.addWidget(self.compare)
        self._list = ScheduleTree(theme)
        self._list.chosen.connect(shown_edits.show)
        self._list.compared.connect(shown_edits.compare)
        self._list.renamed.connect(self._on_renamed)
        self._list.removed.connect(edits.remove)
        self._list.asked.connect(self._on_menu)
        tip = "A better schedule for this budget is known; click to show it"
        self.better = push_button("", self._show_better, "link", tip=tip)
        self.better.setAccessibleName("Show a better schedule for this budget")
        self.better.hide()
        self.filling = FillRow(exploration)
        fill(self.body, (self._list, 1), self.better, self.filling)
        self._soon = later(self, _SOON_MS, self._on_known)  # several changes often come at once
        on(self._on_news, exploration.known_changed, exploration.constraints_changed)
        on(self._on_known, exploration.listing.changed, exploration.graph_changed, comparison.pinned)
        exploration.shown_changed.connect(self._on_shown)

    @property
    def rows(self) -> list[ScheduleRow]:
        return self._list.rows

    def view_table(self) -> ViewTable | None:
        return None if self._exploration.graph is None else schedules_table(self.rows)

    def _on_news(self) -> None:
        if not self._soon.isActive():
            self._soon.start()

    def _on_known(self) -> None:
        what_if, other = self._exploration.what_if, self._comparison.other
        if what_if is None:
            return
        if what_if.graph is self._filled and (self._list.editing or self._list.aimed_at):
            self._on_news()  # try again later: a row is being edited, or is under the pointer
            return
        self._filled = what_if.graph
        shown = self._exploration.shown
        also = [one for one in (other, shown) if one is not None and one.graph is what_if.graph]
        self.compare.setChecked(other is not None)
        self._list.fill(grouped(what_if, self._exploration.listing.own, also))
        self._on_shown()

    def _on_shown(self) -> None:
        shown = self._exploration.shown
        if shown is not None and self._list.item(shown) is None:
            self._on_news()  # the next update of the list brings it
        else:
            self._list.show_schedule(shown, self._mark)
        self._offer_better()

    def _offer_better(self) -> None:
        better = self._exploration.better
        self.better.setVisible(better is not None)
        if better is not None:
            cost = cost_text(better.overhead)
            self.better.setText(f"Better: {format_bytes(better.peak_bytes)}, {cost} cost")

    def _show_better(self) -> None:
        better = self._exploration.better
        if better is not None:
            self._shown_edits.show(better)

    def _mark(self, found: ListedSchedule) -> str | None:
        """Return "A" or "B" for a compared schedule, "" for any other; None if nothing is compared."""
        other = self._comparison.other
        if other is None:
            return None
        shown = self._exploration.shown
        return "B" if found.key == other.key else "A" if shown is not None and found.key == shown.key else ""

    @property
    def _meant(self) -> ListedSchedule | None:
        return (self._list.current() if self._list.hasFocus() else None) or self._exploration.shown

    def pin(self) -> None:
        if self._meant is not None:
            self._edits.pin(self._meant)

    def rename(self) -> None:
        if self._meant is not None:
            self._rename(self._meant)

    def write_note(self) -> QInputDialog | None:
        return None if self._meant is None else self._ask_note(self._meant)

    def remove(self) -> None:
        if self._meant is not None:
            self._edits.remove(self._meant)

    def _ask_note(self, found: ListedSchedule) -> QInputDialog:
        own = self._exploration.listing.of(found)
        dialog = QInputDialog(self.window())
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle("Note")
        dialog.setLabelText("Note on this schedule:")
        dialog.setTextValue("" if own is None else own.note)
        dialog.textValueSelected.connect(lambda text: self._edits.note(found, text))
        dialog.open()
        return dialog

    def _on_renamed(self, found: ListedSchedule, name: str) -> None:
        self._edits.rename(found, name)
        self._on_news()  # an empty name becomes the one by budget and cost

    def _on_menu(self, found: ListedSchedule, position: QPoint) -> None:
        menu = self.menu_of(found)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(position)

    def menu_of(self, found: ListedSchedule) -> QMenu:
        own, menu = self._exploration.listing.of(found), QMenu(self)
        menu.addAction("Show (A)", lambda: self._shown_edits.show(found))
        menu.addAction("Compare with it (B)", lambda: self._shown_edits.compare(found))
        stop = menu.addAction("Stop comparing", lambda: self._shown_edits.compare(None))
        stop.setEnabled(self._comparison.other is not None)
        menu.addSeparator()
        menu.addAction("Unpin" if own is not None and own.pinned else "Pin", lambda: self._edits.pin(found))
        menu.addAction("Rename…", lambda: self._rename(found))
        menu.addAction("Note…", lambda: self._ask_note(found))
        remove = menu.addAction("Remove from Mine", lambda: self._edits.remove(found))
        remove.setEnabled(own is not None)
        return menu

    def _rename(self, found: ListedSchedule) -> None:
        item = self._list.item(found)
        head = None if item is None else item.parent()
        if item is not None and head is not None:
            head.setExpanded(True)
            self._list.setFocus()
            self._list.setCurrentItem(item)
            self._list.editItem(item)


_TIP = (
    "While you ask for nothing, the solver looks for schedules at other budgets.\n"
    "It stops by itself when nothing is left to do, or after some minutes."
)


class FillRow(QWidget):
    """Says whether the frontier is being filled, and switches that."""

    def __init__(self, exploration: Exploration) -> None:
        super().__init__()
        self._exploration, self._listing = exploration, exploration.listing
        name = "Solve other budgets in the background"
        self.switch = called(QCheckBox("Solve other budgets"), name, _TIP)
        self.switch.setChecked(self._listing.fill_wanted)
        self.switch.clicked.connect(self._listing.fill)
        self.sign = ElidedLabel("muted")
        tip = "Look for schedules at other budgets for as long again"
        self.more = push_button("Go on", lambda: self._listing.fill(True), "link", tip=tip)
        self.setLayout(in_row(self.switch, (self.sign, 1), self.more, gap=8, edges=NO_EDGES))
        self._listing.filling_changed.connect(self._refresh)
        on(self._refresh, exploration.solve_changed, exploration.known_changed, exploration.passing_changed)
        self._refresh()

    def _refresh(self) -> None:
        solve, listing = self._exploration.solve, self._listing
        solving = solve is not None and solve.running
        text = fill_text(
            listing.fill_wanted, listing.filling, solving=solving, found=len(self._exploration.known)
        )
        self.sign.set_whole(text)
        self.switch.setChecked(listing.fill_wanted)
        self.more.setVisible(listing.fill_wanted and listing.filling is FillState.RESTING)
