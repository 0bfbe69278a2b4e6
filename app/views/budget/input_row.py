"""The input's size as a third slider, below the batch."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSlider, QVBoxLayout, QWidget

from app.models.exploration import Exploration
from app.models.questions.input_scale import InputScale
from app.presenters.words.input_reach import OFFER, TIP, coming_words, reach_words
from app.views.common.elided_label import ElidedLabel
from app.views.common.panel import label

DEBOUNCE_MS = 600  # each size that is explored is a trace
_AS_BATCH = 2, 0, 6, 0  # pixels around the name, so that both sliders begin at one place
_WIDE = 1000  # of the row, beside a stretch of 1
_BEYOND = 1.25  # how far the slider goes past the size that fits


class InputRow(QWidget):
    """Moves the model to another input size.

    What it needs there is said at once. ``offer`` is there where the model's input may have other sizes, at
    the end of another row; the sizes are traced, and this row comes, only when somebody takes it.

    Signals: ``profile_wanted()``: measure the explored size; ``room_wanted(pixels)``: it needs other room.
    """

    room_wanted = Signal(int)
    profile_wanted = Signal()

    def __init__(self, exploration: Exploration, scale: InputScale) -> None:
        super().__init__()
        self._exploration, self._scale, self._room = exploration, scale, 0
        self.slider, self.size_words = QSlider(Qt.Orientation.Horizontal), QLabel()
        self.words = ElidedLabel("muted")
        self.offer, self.back = QPushButton("Input size"), QPushButton("Back")
        self.profile = QPushButton("Profile it")
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(DEBOUNCE_MS)
        self._timer.timeout.connect(lambda: self._scale.ask(self.slider.value()))
        self._lay_out()
        self.slider.valueChanged.connect(self._on_moved)
        self.offer.clicked.connect(scale.prepare)
        self.back.clicked.connect(self._go_back)
        self.profile.clicked.connect(self.profile_wanted)
        self.hide()
        scale.changed.connect(self._refresh)

    def _lay_out(self) -> None:
        column, first, second = QVBoxLayout(self), QHBoxLayout(), QHBoxLayout()
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        self.slider.setAccessibleName("Input size, on a slider")
        name = label("Input")
        name.setContentsMargins(*_AS_BATCH)
        first.addWidget(name)
        first.addWidget(self.slider, _WIDE)
        first.addWidget(self.size_words)
        first.addStretch(1)  # while there is no slider
        first.addWidget(self.back)
        self.offer.setToolTip(OFFER)
        for button in (self.offer, self.profile):
            button.setObjectName("link")
        self.back.setObjectName("small")
        self.back.setAccessibleName("Back to the profiled input size")
        self.profile.setToolTip("Load the model, and measure it at this input size")
        second.addWidget(self.words)
        second.addStretch(1)
        second.addWidget(self.profile)
        column.addLayout(first)
        column.addLayout(second)

    def _on_moved(self, level: int) -> None:
        self._say(level)
        self._timer.start()

    def _go_back(self) -> None:
        self._timer.stop()
        if self._scale.way_back is not None:
            self._scale.way_back()

    def _refresh(self) -> None:
        """Show the explored size, unless the hand is choosing another."""
        scale, reach, plain = self._scale, self._scale.reach, self._exploration.plain
        self.offer.setVisible(scale.possible and reach is None and not scale.busy)
        self.setVisible(scale.possible and (reach is not None or scale.busy or bool(scale.problem)))
        levels = scale.levels
        if levels is not None and scale.possible:
            self.slider.setVisible(reach is not None)
            self.back.setVisible(scale.way_back is not None)
            self.profile.setVisible(scale.way_back is not None)
            self.back.setToolTip(f"The graph as it was profiled, at {levels.words(levels.level)}")
            if reach is not None and plain is not None:
                most = max(2 * levels.level, scale.level, round(_BEYOND * reach.fits(plain.peak_bytes)))
                with QSignalBlocker(self.slider):
                    self.slider.setRange(1, most)
                    self.slider.setPageStep(levels.level)
                    if not self._timer.isActive() and not self.slider.isSliderDown() and not scale.busy:
                        self.slider.setValue(scale.level)
            self._say(self.slider.value() if reach is not None else scale.level)
        self._ask_for_room()

    def _say(self, level: int) -> None:
        scale, levels, budget = self._scale, self._scale.levels, self._exploration.budget_bytes
        if levels is None:
            return
        self.size_words.setText(levels.words(level))
        reach = scale.reach
        if scale.problem:
            said, tip = scale.problem, ""
        elif reach is None:
            said, tip = ("Tracing other sizes…" if scale.busy else ""), ""
        else:
            traced = ", ".join(map(levels.words, reach.plain.levels))
            tip = TIP.format(traced=traced)
            if level != scale.level:
                said = coming_words(levels.words, level, reach.plain.peak(level))
                said += "; tracing…" if scale.busy else ""
            else:
                said = reach_words(levels.words, level, reach.kept(budget), reach.fits(budget))
        self.words.setVisible(bool(said))
        self.words.set_whole(said, f"{said}.\n{tip}".strip())

    def _ask_for_room(self) -> None:
        room = 0 if self.isHidden() else self.sizeHint().height()
        if room != self._room:
            self._room = room
            self.room_wanted.emit(room)
