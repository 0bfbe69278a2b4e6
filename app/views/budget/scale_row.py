"""What the sliders for other sizes share: a slider, words and ways out."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSlider, QVBoxLayout, QWidget

from app.views.common.elided_label import ElidedLabel

BEYOND = 1.25  # how far a slider goes past the size that fits


class ScaleRow(QWidget):
    """Two lines: a slider with what stands beside it, and what is said of it.

    ``debounce_ms``: after the last move ``ask`` is called. ``way_back``: gives what leads back to the size
    that was profiled; None where that is on screen.

    Signals: ``room_wanted(pixels)``: the row came, went, or needs other room.
    """

    room_wanted = Signal(int)

    def __init__(
        self, debounce_ms: int, ask: Callable[[], None], way_back: Callable[[], Callable[[], None] | None]
    ) -> None:
        super().__init__()
        self._way_back = way_back
        self.slider, self.words = QSlider(Qt.Orientation.Horizontal), ElidedLabel("muted")
        self.back, self.profile = QPushButton("Back"), QPushButton("Profile it")
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(debounce_ms)
        self._timer.timeout.connect(ask)
        self.back.clicked.connect(self._go_back)
        self.back.setObjectName("small")
        self.profile.setObjectName("link")
        column, self._first, self._second = QVBoxLayout(self), QHBoxLayout(), QHBoxLayout()
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        self._second.addWidget(self.words)
        self._second.addStretch(1)
        self._second.addWidget(self.profile)
        column.addLayout(self._first)
        column.addLayout(self._second)
        self.hide()

    @property
    def _is_choosing(self) -> bool:
        return self._timer.isActive() or self.slider.isSliderDown()

    def _go_back(self) -> None:
        self._timer.stop()
        lead = self._way_back()
        if lead is not None:
            lead()
