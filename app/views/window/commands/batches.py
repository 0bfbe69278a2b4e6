"""Search for the largest batch, and go to what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.presenters.sizes import BatchAnswer
from app.presenters.wording import SCALED_FROM
from checkmate.request import ModelRequest

if TYPE_CHECKING:
    from app.views.window.dialogs.batch_dialog import BatchDialog
    from app.views.window.main_window import MainWindow
    from checkmate.ir.graph import Graph

_NOTHING = "Open a graph first; its largest batch is searched for."


class Batches:
    """Opens the dialog of batches; explores scaled graphs, and leads back. There is one dialog."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self.dialog: BatchDialog | None = None

    def open(self) -> None:
        """Open the dialog that searches."""
        window = self._window
        if window.session.exploration.graph is None:
            window.statusBar().showMessage(_NOTHING, 10000)
            return
        if self.dialog is None:
            from app.views.window.dialogs.batch_dialog import BatchDialog

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
        scaled_from, scale = graph.metadata.get(SCALED_FROM), self._window.batch_scale
        if scaled_from is None or scale.asked == graph.batch_size:  # the slider's row says it itself
            return
        self._window.notice.say(
            f"This graph is scaled from batch {scaled_from:,} to {graph.batch_size:,}: all is estimated.",
            "To export it, profile the model at this batch.",
            ("Leave it so", self._window.notice.hide)
            if scale.way_back is None or scale.base is None
            else (f"Back to batch {scale.base.batch_size:,}", scale.way_back),
        )

    def _explore(self, answer: BatchAnswer) -> None:
        """Explore the scaled graph, with the schedule that was found for it."""
        session, graph = self._window.session, answer.question.graph
        if graph is session.exploration.graph:
            self._window.batch_scale.remember()
        session.open_scaled(answer.graph_and_schedule)

    def profile_at(self, batch: int) -> None:
        """Profile the model of the explored graph at a batch."""
        base = self._window.batch_scale.base
        if base is not None:
            self._window.profile_again(ModelRequest.from_json(base.metadata["request"]).at_batch(batch))

    def profile_this(self) -> None:
        """Profile the model of the explored graph as the graph says."""
        graph = self._window.session.exploration.graph
        if graph is not None:
            self._window.profile_again(ModelRequest.from_json(graph.metadata["request"]))

    def _profile(self, answer: BatchAnswer) -> None:
        request = answer.question.request
        if request is not None and self.dialog is not None:
            self.dialog.close()
            self._window.profile_again(request.at_batch(answer.batch))
