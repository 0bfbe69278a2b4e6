from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QLabel, QPushButton, QSlider, QSpinBox, QWidget

from app.models.exploration import Exploration
from app.models.scales import BatchScale, InputScale
from app.presenters import sizes
from app.views.common.texts import ElidedLabel
from app.views.common.widgets import NO_EDGES, command_button, in_column, in_row, label, push_button
from app.workers.background import later

BEYOND = 1.25  # how far a slider goes past the size that fits


class ScaleRow(QWidget):
    """A row with a slider for the size, and a row with a sentence on it. ``debounce_ms`` after the last move,
    the graph is scaled to that size. Signal ``room_wanted(pixels)``: the needed height has changed; 0 if
    hidden."""

    room_wanted = Signal(int)
    _scale: BatchScale | InputScale

    def __init__(self, exploration: Exploration, scale: BatchScale | InputScale, debounce_ms: int) -> None:
        super().__init__()
        self._exploration, self._scale = exploration, scale
        self.slider, self.words = QSlider(Qt.Orientation.Horizontal), ElidedLabel("muted")
        self.back, self.profile = push_button("Back", self._go_back, "small"), QPushButton("Profile it")
        self.profile.setObjectName("link")
        self._room = 0  # pixels
        self._timer = later(self, debounce_ms, lambda: scale.ask(self.slider.value()))
        self._first, self._second = in_row(), in_row(self.words, None, self.profile)
        self.setLayout(in_column(self._first, self._second, gap=2, edges=NO_EDGES))
        self.hide()
        self.slider.valueChanged.connect(self._on_moved)
        scale.changed.connect(self._refresh)

    @property
    def _is_choosing(self) -> bool:
        return self._timer.isActive() or self.slider.isSliderDown()

    def _go_back(self) -> None:
        self._timer.stop()
        lead = self._scale.way_back
        if lead is not None:
            lead()

    def _ask_for_room(self) -> None:
        room = 0 if self.isHidden() else self.sizeHint().height()
        if room != self._room:
            self._room = room
            self.room_wanted.emit(room)

    def _on_moved(self, size: int) -> None:
        raise NotImplementedError

    def _refresh(self) -> None:
        raise NotImplementedError


DEBOUNCE_MS = 300
_MOST = 10**6  # the largest batch
_FIELD = 84  # pixels


class BatchRow(ScaleRow):
    """Moves the graph to another batch; what it needs there is said at once. It is there where the graph's
    batch is known. The views follow 300 ms after the last move. Signals: ``largest_wanted``: search for the
    largest; ``profile_wanted(batch)``: measure it; ``room_wanted`` as ``ScaleRow`` says."""

    largest_wanted = Signal()
    profile_wanted = Signal(int)
    _scale: BatchScale

    def __init__(self, exploration: Exploration, scale: BatchScale) -> None:
        super().__init__(exploration, scale, DEBOUNCE_MS)
        self.spin = QSpinBox()
        self._lay_out()
        self.spin.valueChanged.connect(self._on_moved)
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
        for part, share in ((search, 0), (self.slider, 1), (self.spin, 0), (self.back, 0)):
            self._first.addWidget(part, share)
        self.back.setAccessibleName("Back to the measured batch")
        self.profile.setToolTip("Load the model, and measure it at this batch")

    def add_offer(self, offer: QPushButton) -> None:
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
        scale, reach, plain = self._scale, self._scale.reach, self._exploration.plain
        self.setVisible(scale.possible)
        self._ask_for_room()
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
            self.words.set_whole("")
            return
        if batch != self._scale.batch:
            said = sizes.coming_words(f"Batch {batch:,}", reach.plain.peak(batch))
        else:
            said = sizes.reach_words(batch, reach.kept(budget), reach.fits(budget))
        self.words.set_whole(said, f"{said}.\n{sizes.TIP.format(base=reach.plain.sizes[0])}")


INPUT_DEBOUNCE_MS = 600  # long, because each size has to be traced
_AS_BATCH = 2, 0, 6, 0  # margins of the name in pixels, so that both sliders are aligned
_WIDE = 1000  # the slider's stretch, against 1 of the space beside it


class InputRow(ScaleRow):
    """Scales the model to another input size, and says at once what memory it needs there. ``offer`` is a
    button at the end of another row, shown if the input may have other sizes; a click on it traces the sizes
    and shows this row. Signals: ``profile_wanted()``: measure the explored size; ``room_wanted`` as for
    ``ScaleRow``."""

    profile_wanted = Signal()
    _scale: InputScale

    def __init__(self, exploration: Exploration, scale: InputScale) -> None:
        super().__init__(exploration, scale, INPUT_DEBOUNCE_MS)
        self.size_words, self.offer = QLabel(), QPushButton("Input size")
        self._lay_out()
        self.offer.clicked.connect(scale.prepare)
        self.profile.clicked.connect(self.profile_wanted)

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
        self.offer.setToolTip(sizes.OFFER)
        self.offer.setObjectName("link")
        self.back.setAccessibleName("Back to the profiled input size")
        self.profile.setToolTip("Load the model, and measure it at this input size")

    def _on_moved(self, level: int) -> None:
        self._say(level)
        self._timer.start()

    def _refresh(self) -> None:
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
            traced = ", ".join(map(levels.words, reach.plain.sizes))
            tip = sizes.INPUT_TIP.format(traced=traced)
            if level != scale.level:
                said = sizes.coming_words(levels.words(level), reach.plain.peak(level))
                said += "; tracing…" if scale.busy else ""
            else:
                said = sizes.reach_words(level, reach.kept(budget), reach.fits(budget), levels.words)
        self.words.setVisible(bool(said))
        self.words.set_whole(said, f"{said}.\n{tip}".strip())
