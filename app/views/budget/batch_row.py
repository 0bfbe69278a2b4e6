"""The batch as a second slider, below the budget."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSlider, QSpinBox, QVBoxLayout, QWidget

from app.models.exploration import Exploration
from app.models.questions.batch_scale import BatchScale
from app.presenters.words.batch_reach import TIP, coming_words, reach_words
from app.views.common.command_button import command_button
from app.views.common.elided_label import ElidedLabel

DEBOUNCE_MS = 300
_MOST, _BEYOND = 10**6, 1.25  # the largest batch; how far the slider goes past the one that fits
_FIELD = 84  # pixels


class BatchRow(QWidget):
    """Moves the graph to another batch; what it needs there is said at once.

    It is there where the graph's batch is known. The views follow 300 ms after the last move.

    Signals: ``largest_wanted``: search for the largest; ``profile_wanted(batch)``: measure it;
        ``room_wanted(pixels)``: it came, or went.
    """

    room_wanted = Signal(int)
    largest_wanted = Signal()
    profile_wanted = Signal(int)

    def __init__(self, exploration: Exploration, scale: BatchScale) -> None:
        super().__init__()
        self._exploration, self._scale = exploration, scale
        self.slider, self.spin = QSlider(Qt.Orientation.Horizontal), QSpinBox()
        self.words = ElidedLabel("muted")
        self.back, self.profile = QPushButton(), QPushButton("Profile it")
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(DEBOUNCE_MS)
        self._timer.timeout.connect(lambda: self._scale.ask(self.spin.value()))
        self._lay_out()
        self.slider.valueChanged.connect(self._on_moved)
        self.spin.valueChanged.connect(self._on_moved)
        self.back.clicked.connect(self._go_back)
        self.profile.clicked.connect(lambda: self.profile_wanted.emit(self.spin.value()))
        self.hide()
        scale.changed.connect(self._refresh)

    def _lay_out(self) -> None:
        column, first, second = QVBoxLayout(self), QHBoxLayout(), QHBoxLayout()
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        search = command_button("solve.batch", self.largest_wanted.emit, "Batch")
        search.setObjectName("link")
        self.slider.setAccessibleName("Batch, on a slider")
        self.spin.setAccessibleName("Batch")
        self.spin.lineEdit().setAccessibleName("Batch")
        self.spin.setKeyboardTracking(False)
        self.spin.setRange(1, _MOST)
        self.spin.setFixedWidth(_FIELD)
        for part, share in ((search, 0), (self.slider, 1), (self.spin, 0), (self.back, 0)):
            first.addWidget(part, share)
        self.back.setObjectName("small")
        self.back.setAccessibleName("Back to the measured batch")
        self.profile.setObjectName("link")
        self.profile.setToolTip("Load the model, and measure it at this batch")
        second.addWidget(self.words)
        second.addStretch(1)
        second.addWidget(self.profile)
        self._second = second
        column.addLayout(first)
        column.addLayout(second)

    def add_offer(self, offer: QPushButton) -> None:
        """Put a button at the end of the second line."""
        self._second.addWidget(offer)

    def _on_moved(self, batch: int) -> None:
        self._show_batch(batch)
        self._say(batch)
        self._timer.start()

    def _go_back(self) -> None:
        self._timer.stop()
        if self._scale.way_back is not None:
            self._scale.way_back()

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
        if not self._timer.isActive() and not self.slider.isSliderDown():
            self._show_batch(scale.batch)
        self.back.setVisible(scale.way_back is not None)
        self.back.setText(f"Back to {base:,}")
        self.back.setToolTip(f"The graph as it was profiled, at batch {base:,}, with all that was found")
        can_profile = scale.scaled and scale.base is not None and "request" in scale.base.metadata
        self.profile.setVisible(can_profile)
        if reach is not None and plain is not None:
            most = max(2 * base, scale.batch, round(_BEYOND * reach.fits(plain.peak_bytes)))
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
