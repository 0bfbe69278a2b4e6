from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QPushButton, QSlider, QSpinBox, QWidget

from app.models.batch_scale import BatchScale
from app.models.exploration import Exploration
from app.presenters import sizes
from app.views.common.texts import ElidedLabel
from app.views.common.widgets import NO_EDGES, command_button, in_column, in_row, push_button
from app.workers.background import later

BEYOND = 1.25  # how far the slider goes past the batch that fits
DEBOUNCE_MS = 300
_MOST = 10**6  # the largest batch
_FIELD = 84  # pixels


class BatchRow(QWidget):
    """Moves the graph to another batch; what it needs there is said at once. It is there where the graph's
    batch is known. The views follow 300 ms after the last move. Signals: ``largest_wanted``: search for the
    largest; ``profile_wanted(batch)``: measure it; ``room_wanted(pixels)``: the row came or went."""

    largest_wanted = Signal()
    profile_wanted = Signal(int)
    room_wanted = Signal(int)

    def __init__(self, exploration: Exploration, scale: BatchScale) -> None:
        super().__init__()
        self._exploration, self._scale = exploration, scale
        self.slider, self.spin = QSlider(Qt.Orientation.Horizontal), QSpinBox()
        self.words = ElidedLabel("muted")
        self.back, self.profile = push_button("Back", self._go_back, "small"), QPushButton("Profile it")
        self.profile.setObjectName("link")
        self._timer = later(self, DEBOUNCE_MS, lambda: scale.ask(self.slider.value()))
        self._lay_out()
        self.hide()
        self.slider.valueChanged.connect(self._on_moved)
        self.spin.valueChanged.connect(self._on_moved)
        scale.changed.connect(self._refresh)
        self.profile.clicked.connect(lambda: self.profile_wanted.emit(self.spin.value()))

    def _lay_out(self) -> None:
        search = command_button("solve.batch", self.largest_wanted.emit, "Batch")
        search.setObjectName("link")
        self.slider.setAccessibleName("Batch, on a slider")
        self.spin.setAccessibleName("Batch")
        self.spin.lineEdit().setAccessibleName("Batch")
        self.spin.setKeyboardTracking(False)
        self.spin.setRange(1, _MOST)
        self.spin.setFixedWidth(_FIELD)
        first = in_row(search, (self.slider, 1), self.spin, self.back)
        self.setLayout(in_column(first, in_row(self.words, None, self.profile), gap=2, edges=NO_EDGES))
        self.back.setAccessibleName("Back to the measured batch")
        self.profile.setToolTip("Load the model, and measure it at this batch")

    @property
    def _is_choosing(self) -> bool:
        return self._timer.isActive() or self.slider.isSliderDown()

    def _go_back(self) -> None:
        self._timer.stop()
        lead = self._scale.way_back
        if lead is not None:
            lead()

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
        can_profile = scale.scaled and scale.base is not None and bool(scale.base.origin.request)
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
            said = sizes.coming_words(batch, reach.plain.peak(batch))
        else:
            said = sizes.reach_words(batch, reach.kept(budget), reach.fits(budget))
        self.words.set_whole(said, f"{said}.\n{sizes.TIP.format(base=reach.batch)}")
