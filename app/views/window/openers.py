from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QSettings, QTimer

from app.models.opening import OtherGraph, RecordOpening
from app.models.recovery import RecentRecords
from app.presenters.commands import profiled_from
from app.presenters.sizes import BatchAnswer
from app.views.common.widgets import ask_source, bring_up
from app.views.dialogs.record_dialog import RecordDialog
from app.views.window.base_window import BaseWindow
from checkmate.records.memory import ReadRecord
from checkmate.records.read import DUMP_ENDING, LOG_ENDINGS, PROFILE_ENDING, SNAPSHOT_ENDINGS
from checkmate.request import ModelRequest

if TYPE_CHECKING:
    from app.views.dialogs.batch_dialog import BatchDialog
    from app.views.dialogs.compare_dialog import GraphCompareDialog
    from checkmate.ir import Graph

_NOTHING = "Open a graph first; its largest batch is searched for."


class Batches:
    """Opens the dialog of batches; explores scaled graphs, and leads back. There is one dialog."""

    def __init__(self, window: BaseWindow) -> None:
        self._window = window
        self.dialog: BatchDialog | None = None
        self._searched: Graph | None = None  # the profiled graph that the dialog is about

    def open(self) -> None:
        window = self._window
        if window.session.exploration.graph is None:
            window.say(_NOTHING)
            return
        if self.dialog is None:
            from app.views.dialogs.batch_dialog import BatchDialog

            self.dialog = BatchDialog(window.session, window.theme, window)
            self.dialog.open_wanted.connect(self._explore)
            self.dialog.profile_wanted.connect(self._profile)
        bring_up(self.dialog)

    def close(self) -> None:
        if self.dialog is not None:
            self.dialog.search.close()
            self.dialog.close()

    def on_graph(self, graph: Graph) -> None:
        before, self._searched = self._searched, self._window.batch_scale.base
        if self.dialog is not None and self._searched is not before:
            self.dialog.forget()
        self._say_scaled(graph)

    def _say_scaled(self, graph: Graph) -> None:
        scaled_from, scale = graph.origin.extrapolated_from_batch, self._window.batch_scale
        if not scaled_from or scale.asked == graph.batch_size:  # the slider's row says it itself
            return
        self._window.notice.say(
            f"This graph is scaled from batch {scaled_from:,} to {graph.batch_size:,}: all is estimated.",
            "To export it, profile the model at this batch.",
            ("Leave it so", self._window.notice.leave)
            if scale.way_back is None or scale.base is None
            else (f"Back to batch {scale.base.batch_size:,}", scale.way_back),
        )

    def _explore(self, answer: BatchAnswer) -> None:
        session, graph = self._window.session, answer.question.graph
        if graph is session.exploration.graph:
            self._window.batch_scale.remember()
        session.open_scaled(answer.graph_and_schedule)

    def profile_at(self, batch: int) -> None:
        base = self._window.batch_scale.base
        request = None if base is None else profiled_from(base)
        if request is not None:
            self._window.profile_again(request.at_batch(batch))

    def _profile(self, answer: BatchAnswer) -> None:
        request = answer.question.request
        if request is not None and self.dialog is not None:
            self.dialog.close()
            self._window.profile_again(request.at_batch(answer.batch))


_NOTHING_TO_COMPARE = "Open a graph first; it is A, and the file that you choose is B."
_KINDS = "Graphs and explorations (*.json *.json.gz);;All files (*)"


class Comparing:
    """Asks for a file, reads it, and shows it beside the explored graph. There is one dialog."""

    def __init__(self, window: BaseWindow) -> None:
        self._window = window
        self.dialog: GraphCompareDialog | None = None
        self._other: OtherGraph | None = None

    def ask(self) -> None:
        window = self._window
        if window.session.exploration.graph is None:
            window.say(_NOTHING_TO_COMPARE)
            return
        over = self.dialog or window
        if path := ask_source(over, "Compare with a graph or an exploration", _KINDS):
            self.open(path)

    def open(self, path: Path) -> None:
        self.close()
        window = self._window
        other = self._other = OtherGraph(window)
        other.opened.connect(lambda: self._show(other))
        other.failed.connect(lambda sentence, hint: self._on_failed(other, sentence, hint))
        window.say(f"Reading {path}…")
        other.open(path)

    def close(self) -> None:
        dialog, other = self.dialog, self._other
        self.dialog = self._other = None
        if dialog is not None:
            dialog.close()  # which closes the other graph, too
        elif other is not None:
            other.close()

    def _show(self, other: OtherGraph) -> None:
        if other is not self._other:
            return
        from app.views.dialogs.compare_dialog import GraphCompareDialog

        window = self._window
        dialog = GraphCompareDialog(window.session.exploration, other, window.theme, window)
        dialog.other_wanted.connect(self.ask)
        dialog.finished.connect(lambda _: self._forget(dialog))
        self.dialog = dialog
        QTimer.singleShot(0, dialog, lambda: self._fill(dialog))  # in one turn, both would hold up the window

    def _fill(self, dialog: GraphCompareDialog) -> None:
        if dialog is not self.dialog:
            return
        window, other = self._window, dialog.other
        dialog.refresh()
        dialog.show()
        window.say(f"Compared with {other.file}.")

    def _forget(self, dialog: GraphCompareDialog) -> None:
        if dialog is self.dialog:
            self.dialog = self._other = None

    def _on_failed(self, other: OtherGraph, sentence: str, hint: str) -> None:
        if other is self._other:
            self._window.notice.say(sentence, hint)
            self.close()


_ENDINGS = (*LOG_ENDINGS, PROFILE_ENDING, *SNAPSHOT_ENDINGS, DUMP_ENDING)
RECORD_FILTER = f"Logs, profiles, snapshots and dumps ({' '.join(f'*{end}' for end in _ENDINGS)})"


class RecordFiles(QObject):
    """Reads a file in the background, then opens a dialog about it. ``dialog`` is the last one that was
    opened; None if it is closed."""

    def __init__(self, window: BaseWindow, settings: QSettings | None) -> None:
        super().__init__(window)
        self._window, self.recent = window, RecentRecords(settings)
        self.dialog: RecordDialog | None = None
        self._opening = RecordOpening(self)
        self._opening.done.connect(self._on_opened)
        self._comparing = RecordOpening(self)
        self._comparing.done.connect(self._on_other)
        for opening in (self._opening, self._comparing):
            opening.failed.connect(window.session.failed)
        self._wanted: tuple[str, int] | None = None  # a model that is being profiled, and its budget
        window.session.exploration.graph_changed.connect(self._on_graph)

    def ask(self) -> None:
        if path := self._chosen("Explain a log, a profile, a snapshot or a dump of XLA's"):
            self.open(path)

    def ask_other(self) -> None:
        if path := self._chosen("Compare with another file"):
            self._comparing.read(path)

    def _chosen(self, title: str) -> Path | None:
        return ask_source(self._window, title, f"{RECORD_FILTER};;All files (*)")

    def open(self, path: Path) -> None:
        self._window.notice.hide()
        self._window.statusBar().showMessage(f"Reading {path}…")
        self._opening.read(path)

    def close(self) -> None:
        self._opening.close()
        self._comparing.close()

    def _on_other(self, found: tuple[ReadRecord, Path]) -> None:
        if self.dialog is not None:
            self.dialog.compare(found[0])

    def _on_opened(self, found: tuple[ReadRecord, Path]) -> None:
        reading, path = found
        self._window.say(f"Read {path}.")
        self.recent.keep(path)
        graph = self._window.session.exploration.graph
        if self.dialog is not None:
            self.dialog.close()
        dialog = RecordDialog(reading, self._window.theme, "" if graph is None else graph.name, self._window)
        dialog.profile_wanted.connect(self._ask_profile)
        dialog.budget_wanted.connect(self._use_budget)
        dialog.other_wanted.connect(self.ask_other)
        dialog.destroyed.connect(lambda: self._forget(dialog))
        self.dialog = dialog
        dialog.show()

    def _forget(self, dialog: RecordDialog) -> None:
        if self.dialog is dialog:
            self.dialog = None

    def _ask_profile(self, budget: int) -> None:
        asking = self._window.ask_profile()

        def on_asked(request: ModelRequest) -> None:
            self._wanted = (request.model, budget) if budget else None
            if self.dialog is not None:
                self.dialog.close()

        asking.asked.connect(on_asked)

    def _use_budget(self, budget: int) -> None:
        if self._window.session.exploration.graph is not None and budget:
            self._window.explorer.budget.choose(budget)

    def _on_graph(self) -> None:
        graph = self._window.session.exploration.graph
        if self.dialog is not None and graph is not None:
            self.dialog.name_open(graph.name)
        wanted, self._wanted = self._wanted, None
        request = self._window.request
        if wanted is None or request is None or request.model != wanted[0]:
            return
        # After all views have taken the graph in.
        QTimer.singleShot(0, self, lambda: self._use_budget(wanted[1]))
