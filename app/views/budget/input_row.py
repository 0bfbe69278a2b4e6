"""The input's size as a third slider, below the batch."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QLabel, QPushButton

from app.models.clients.input_scale import InputScale
from app.models.exploration import Exploration
from app.presenters.sizes import INPUT_TIP, OFFER, input_coming_words, input_reach_words
from app.views.budget.scale_row import BEYOND, ScaleRow
from app.views.common.panel import label

DEBOUNCE_MS = 600  # each size that is explored is a trace
_AS_BATCH = 2, 0, 6, 0  # pixels around the name, so that both sliders begin at one place
_WIDE = 1000  # of the row, beside a stretch of 1


class InputRow(ScaleRow):
    """Moves the model to another input size.

    What it needs there is said at once. ``offer`` is there where the model's input may have other sizes, at
    the end of another row; the sizes are traced, and this row comes, only when somebody takes it.

    Signals: ``profile_wanted()``: measure the explored size; ``room_wanted`` as ``ScaleRow`` says.
    """

    profile_wanted = Signal()

    def __init__(self, exploration: Exploration, scale: InputScale) -> None:
        super().__init__(DEBOUNCE_MS, lambda: scale.ask(self.slider.value()), lambda: scale.way_back)
        self._exploration, self._scale, self._room = exploration, scale, 0
        self.size_words, self.offer = QLabel(), QPushButton("Input size")
        self._lay_out()
        self.slider.valueChanged.connect(self._on_moved)
        self.offer.clicked.connect(scale.prepare)
        self.profile.clicked.connect(self.profile_wanted)
        scale.changed.connect(self._refresh)

    def _lay_out(self) -> None:
        first = self._first
        self.slider.setAccessibleName("Input size, on a slider")
        name = label("Input")
        name.setContentsMargins(*_AS_BATCH)
        first.addWidget(name)
        first.addWidget(self.slider, _WIDE)
        first.addWidget(self.size_words)
        first.addStretch(1)  # while there is no slider
        first.addWidget(self.back)
        self.offer.setToolTip(OFFER)
        self.offer.setObjectName("link")
        self.back.setAccessibleName("Back to the profiled input size")
        self.profile.setToolTip("Load the model, and measure it at this input size")

    def _on_moved(self, level: int) -> None:
        self._say(level)
        self._timer.start()

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
                most = max(2 * levels.level, scale.level, round(BEYOND * reach.fits(plain.peak_bytes)))
                with QSignalBlocker(self.slider):
                    self.slider.setRange(1, most)
                    self.slider.setPageStep(levels.level)
                    if not self._is_choosing and not scale.busy:
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
            tip = INPUT_TIP.format(traced=traced)
            if level != scale.level:
                said = input_coming_words(levels.words, level, reach.plain.peak(level))
                said += "; tracing…" if scale.busy else ""
            else:
                said = input_reach_words(levels.words, level, reach.kept(budget), reach.fits(budget))
        self.words.setVisible(bool(said))
        self.words.set_whole(said, f"{said}.\n{tip}".strip())

    def _ask_for_room(self) -> None:
        room = 0 if self.isHidden() else self.sizeHint().height()
        if room != self._room:
            self._room = room
            self.room_wanted.emit(room)
