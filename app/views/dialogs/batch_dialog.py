from __future__ import annotations

import time

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QProgressBar, QSpinBox, QSplitter, QWidget

from app.models.finders import BatchFinder
from app.models.session import Session
from app.presenters import sizes
from app.theme import CurrentTheme
from app.views.common.cell_model import CellModel, sorted_table
from app.views.common.widgets import Dialog, called, closing, in_column, in_row, label, push_button
from app.views.dialogs.charts import BatchChart
from app.workers.background import every
from checkmate.catalog.cards import common_cards
from checkmate.units import parse_bytes

_SIZE, _SHARE = (940, 620), 0.88  # pixels; of a smaller screen
_SECONDS, _LEAST, _MOST = 20, 2, 600
_TICK_MS = 200
_HEAD = (
    "The sizes and costs of {name} at batch {batch} are scaled to other batches. All of this is estimated; "
    "no model is run."
)
_NO_BATCH = "{name} does not say its batch size, so it cannot be scaled. Profile the model again."


class BatchDialog(Dialog):
    """Shows a row for each search for the largest batch. The row says the batch within a budget and a cost,
    and how sure that is. Signals: ``open_wanted(answer)``: explore the scaled graph;
    ``profile_wanted(answer)``: profile the model at that batch."""

    open_wanted = Signal(object)
    profile_wanted = Signal(object)

    def __init__(self, session: Session, theme: CurrentTheme, parent: QWidget | None = None) -> None:
        super().__init__(parent, "Largest batch")
        self._session, self._began = session, 0.0
        self.search = BatchFinder(session.solving.workers, self)
        self.head, self.words = label("", wrap=True), label("", wrap=True)
        self.bar = called(QProgressBar(textVisible=False, maximum=1000), "Time of the search that is over")
        self._rows = CellModel(sizes.COLUMNS, sizes.WORDS)
        self.table = sorted_table(self._rows, "The largest batch of each search", sizes.STATUS)
        self.chart = BatchChart(theme)
        tip = "Explore the graph at the chosen batch: scaled, estimated"
        self.open_scaled = push_button("", lambda: self.open_wanted.emit(self.chosen), tip=tip)
        tip = "Load the model, and profile it at the chosen batch"
        self.profile = push_button("", lambda: self.profile_wanted.emit(self.chosen), tip=tip)
        self._lay_out()
        self._tick = every(self, _TICK_MS, self._show_time)
        self.search.changed.connect(self._refresh)
        self.search.answered.connect(self._on_answer)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._show_chosen())
        session.exploration.graph_changed.connect(self._on_graph)
        session.exploration.budget_changed.connect(self._fill_budgets)
        self._on_graph()

    def forget(self) -> None:
        """Forget the searches, because they were for another model."""
        self._rows.fill([])
        self.words.clear()
        self.search.forget()

    def _lay_out(self) -> None:
        parts = QSplitter(Qt.Orientation.Vertical, childrenCollapsible=False)
        parts.addWidget(self.table)
        parts.addWidget(self.chart)
        parts.setSizes([160, 260])
        for one in (self.open_scaled, self.profile):
            one.setAutoDefault(False)
        buttons = closing(self, self.open_scaled, self.profile)
        self.setLayout(
            in_column(self.head, self._question(), self.bar, self.words, (parts, 1), buttons, gap=10)
        )
        room = self.screen().availableGeometry()
        self.resize(_SIZE[0], min(_SIZE[1], round(_SHARE * room.height())))

    def _question(self) -> QHBoxLayout:
        self.budget = called(QComboBox(editable=True), "Budget", "A card, or a size such as 13.5GiB")
        self.budget.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.budget.setCompleter(None)  # type: ignore[arg-type]  # "12 GiB" is not the card of that size
        self.cost = called(QComboBox(), "Extra cost allowed")
        for words, cost in sizes.COSTS:
            self.cost.addItem(words, cost)
        self.seconds = called(
            QSpinBox(minimum=_LEAST, maximum=_MOST, value=_SECONDS, suffix=" s"), "Time for the search"
        )
        self.start = push_button("Search", self._on_start, "primary")
        self.start.setDefault(True)
        within, extra, seconds = (label(words, muted=True) for words in ("Within", "Extra cost", "Time"))
        return in_row(within, (self.budget, 1), extra, self.cost, seconds, self.seconds, self.start)

    @property
    def chosen(self) -> sizes.BatchAnswer | None:
        found = self.table.selectionModel().selectedRows()
        return self.search.answers[self._rows.source(found[0].row())] if found else None

    def _on_graph(self) -> None:
        graph = self._session.exploration.graph
        if graph is not None:
            said = _HEAD if graph.batch_size else _NO_BATCH
            self.head.setText(said.format(name=graph.name, batch=graph.batch_size))
        self._fill_budgets()
        self._refresh()

    def _fill_budgets(self) -> None:
        graph, typed = self._session.exploration.graph, self.budget.currentText()
        own = self.budget.currentIndex() <= 0 and typed == self.budget.itemText(0)
        at = self.budget.currentIndex()
        self.budget.clear()
        own_budget = self._session.exploration.budget_bytes
        for words, size in sizes.budget_entries(own_budget, graph, common_cards()):
            self.budget.addItem(words, size)
        if not own:
            self.budget.setCurrentIndex(at)
            self.budget.setEditText(typed)

    def _asked_budget(self) -> int:
        typed = self.budget.currentText()
        at = self.budget.findText(typed)
        return int(self.budget.itemData(at)) if at >= 0 else parse_bytes(typed)

    def _on_start(self) -> None:
        if self.search.asked is not None:
            self.search.stop()
            return
        graph = self._session.exploration.graph
        if graph is None:
            return
        try:
            budget = self._asked_budget()
        except ValueError as error:
            self.words.setText(str(error))
            return
        question = sizes.BatchQuestion(graph, budget, self.cost.currentData(), float(self.seconds.value()))
        self._began = time.monotonic()
        self._tick.start()
        self.search.ask(question, self._session.exploration.graph_body)

    def _show_time(self) -> None:
        asked = self.search.asked
        share = 0.0 if asked is None else (time.monotonic() - self._began) / asked.seconds
        self.bar.setValue(round(1000 * min(1.0, share)))

    def _refresh(self) -> None:
        graph, running = self._session.exploration.graph, self.search.asked is not None
        self.start.setText("Stop here" if running else "Search")
        self.start.setEnabled(running or (graph is not None and bool(graph.batch_size)))
        if running:
            self.words.setText(f"{self.search.sentence[:1].upper()}{self.search.sentence[1:]}")
        else:
            self._tick.stop()
            self.bar.setValue(0)
            self._show_chosen()
            if self.search.sentence:
                self.words.setText(self.search.sentence)

    def _on_answer(self) -> None:
        self._rows.fill(sizes.answer_cells(self.search.answers))
        self.table.selectRow(self._rows.row_of(len(self.search.answers) - 1))
        self._show_chosen()

    def _show_chosen(self) -> None:
        answer = self.chosen
        found = answer if answer is not None and answer.batch > 0 else None
        self.chart.show_answer(found)
        self.open_scaled.setEnabled(found is not None)
        self.profile.setEnabled(found is not None and found.question.request is not None)
        batch = "" if found is None else f" at batch {found.batch:,}"
        self.open_scaled.setText(f"Explore it{batch}, scaled")
        self.profile.setText(f"Profile it{batch}")
        if answer is not None and self.search.asked is None:
            self.words.setText(sizes.details(answer))

    def done(self, result: int) -> None:
        if self.search.asked is not None:
            self.search.stop()
        super().done(result)
