"""Search for the largest batch, and go to what was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.presenters.batch_rows import BatchAnswer
from app.presenters.wording import SCALED_FROM

if TYPE_CHECKING:
    from app.views.window.batch_dialog import BatchDialog
    from app.views.window.main_window import MainWindow
    from checkmate.ir.graph import Graph

_NOTHING = "Open a graph first; its largest batch is searched for."


class Batches:
    """Opens the dialog of batches; explores scaled graphs, and leads back.

    There is one dialog.
    """

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self.dialog: BatchDialog | None = None
        # What a scaled graph was made from: its name, its batch, and what opens it again.
        self._before: tuple[str, int | None, Callable[[], None]] | None = None

    def open(self) -> None:
        """Open the dialog that searches."""
        window = self._window
        if window.session.exploration.graph is None:
            window.statusBar().showMessage(_NOTHING, 10000)
            return
        if self.dialog is None:
            from app.views.window.batch_dialog import BatchDialog

            self.dialog = BatchDialog(window.session, window.theme, window)
            self.dialog.open_wanted.connect(self._explore)
            self.dialog.profile_wanted.connect(self._profile)
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def close(self) -> None:
        """End the search's process."""
        if self.dialog is not None:
            self.dialog.search.close()
            self.dialog.close()

    def say_scaled(self, graph: Graph) -> None:
        """Say above the views whether the open graph is scaled, and lead back."""
        scaled_from, before = graph.metadata.get(SCALED_FROM), self._before
        if scaled_from is None:
            self._before = None
            return
        known = before is not None and before[:2] == (graph.name, scaled_from)
        lead = f"Back to batch {scaled_from:,}", self._go_back
        self._window.notice.say(
            f"This graph is scaled from batch {scaled_from:,} to {graph.batch_size:,}: all is estimated.",
            "To export it, profile the model at this batch.",
            lead if known else ("Leave it so", self._window.notice.hide),
        )

    def _explore(self, answer: BatchAnswer) -> None:
        """Explore the scaled graph, with the schedule that was found for it."""
        session, graph = self._window.session, answer.question.graph
        if graph is session.exploration.graph:
            self._before = graph.name, graph.batch_size, session.way_back()
        session.open_scaled(answer.graph_and_schedule)

    def _go_back(self) -> None:
        self._window.notice.hide()
        if self._before is not None:
            self._before[2]()

    def _profile(self, answer: BatchAnswer) -> None:
        request = answer.question.request
        if request is not None and self.dialog is not None:
            self.dialog.close()
            self._window.profile_again(request.at_batch(answer.batch))
