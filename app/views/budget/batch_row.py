"""The batch as a second slider, below the budget."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QPushButton, QSpinBox

from app.models.clients.batch_scale import BatchScale
from app.models.exploration import Exploration
from app.presenters.sizes import TIP, coming_words, reach_words
from app.views.budget.scale_row import BEYOND, ScaleRow
from app.views.common.buttons import command_button

DEBOUNCE_MS = 300
_MOST = 10**6  # the largest batch
_FIELD = 84  # pixels


class BatchRow(ScaleRow):
    """Moves the graph to another batch; what it needs there is said at once.

    It is there where the graph's batch is known. The views follow 300 ms after the last move.

    Signals: ``largest_wanted``: search for the largest; ``profile_wanted(batch)``: measure it;
        ``room_wanted`` as ``ScaleRow`` says.
    """

    largest_wanted = Signal()
    profile_wanted = Signal(int)

    def __init__(self, exploration: Exploration, scale: BatchScale) -> None:
        super().__init__(DEBOUNCE_MS, lambda: scale.ask(self.spin.value()), lambda: scale.way_back)
        self._exploration, self._scale, self.spin = exploration, scale, QSpinBox()
        self._lay_out()
        self.slider.valueChanged.connect(self._on_moved)
        self.spin.valueChanged.connect(self._on_moved)
        self.profile.clicked.connect(lambda: self.profile_wanted.emit(self.spin.value()))
        scale.changed.connect(self._refresh)

    def _lay_out(self) -> None:
        search = command_button("solve.batch", self.largest_wanted.emit, "Batch")
        search.setObjectName("link")
        self.slider.setAccessibleName("Batch, on a slider")
        self.spin.setAccessibleName("Batch")
        self.spin.lineEdit().setAccessibleName("Batch")
        self.spin.setKeyboardTracking(False)
        self.spin.setRange(1, _MOST)
        self.spin.setFixedWidth(_FIELD)
        for part, share in ((search, 0), (self.slider, 1), (self.spin, 0), (self.back, 0)):
            self._first.addWidget(part, share)
        self.back.setAccessibleName("Back to the measured batch")
        self.profile.setToolTip("Load the model, and measure it at this batch")

    def add_offer(self, offer: QPushButton) -> None:
        """Put a button at the end of the second line."""
        self._second.addWidget(offer)

    def _on_moved(self, batch: int) -> None:
        self._show_batch(batch)
        self._say(batch)
        self._timer.start()

    def _show_batch(self, batch: int) -> None:
        for field in (self.slider, self.spin):
            with QSignalBlocker(field):
                if field is self.slider and batch > self.slider.maximum():
                    self.slider.setMaximum(batch)
                field.setValue(batch)

    def _refresh(self) -> None:
        """Show the explored batch, unless the hand is choosing another."""
        scale, reach, plain = self._scale, self._scale.reach, self._exploration.plain
        if scale.possible is self.isHidden():
            self.setVisible(scale.possible)
            self.room_wanted.emit(self.sizeHint().height() if scale.possible else 0)
        base = 0 if scale.base is None else scale.base.batch_size or 0
        self.setEnabled(reach is not None)
        if not self._is_choosing:
            self._show_batch(scale.batch)
        self.back.setVisible(scale.way_back is not None)
        self.back.setText(f"Back to {base:,}")
        self.back.setToolTip(f"The graph as it was profiled, at batch {base:,}, with all that was found")
        can_profile = scale.scaled and scale.base is not None and "request" in scale.base.metadata
        self.profile.setVisible(can_profile)
        if reach is not None and plain is not None:
            most = max(2 * base, scale.batch, round(BEYOND * reach.fits(plain.peak_bytes)))
            with QSignalBlocker(self.slider):
                self.slider.setRange(1, min(_MOST, max(most, self.slider.value())))
                self.slider.setPageStep(base)
            self._say(self.spin.value())

    def _say(self, batch: int) -> None:
        reach, budget = self._scale.reach, self._exploration.budget_bytes
        if reach is None:
            return
        if batch != self._scale.batch:
            said = coming_words(batch, reach.plain.peak(batch))
        else:
            said = reach_words(batch, reach.kept(budget), reach.fits(budget))
        self.words.set_whole(said, f"{said}.\n{TIP.format(base=reach.base.batch_size)}")
