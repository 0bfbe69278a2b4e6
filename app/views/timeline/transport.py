from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QMouseEvent, QPainter, QPainterPath, QPaintEvent, QPolygonF, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QPushButton, QWidget

from app.models.cursors import Playhead
from app.models.exploration import Exploration
from app.presenters.wording import strong
from app.state.knowledge import ListedSchedule
from app.theme import CurrentTheme
from app.views.common.painting import smooth
from app.views.common.texts import SteadyLabel
from app.views.common.widgets import NO_EDGES, called, command_button, in_row
from app.views.graph.kept_parts import PartPlace, StillPicture


class Transport(QWidget):
    """The row of buttons under the matrices and the curve."""

    def __init__(self, exploration: Exploration, playhead: Playhead, theme: CurrentTheme) -> None:
        super().__init__()
        self._exploration, self._playhead = exploration, playhead
        self._play = command_button("playback.play", playhead.toggle, "▶")
        self._play.setFixedWidth(44)
        self._play.setObjectName("primary")
        self._where = SteadyLabel(least=110)
        self._speeds = QButtonGroup(self)
        for speed in (0.5, 1.0, 4.0, 16.0):
            one = called(QPushButton(f"{speed:g}×"), f"Speed {speed:g}")
            one.setCheckable(True)
            one.setChecked(speed == 1.0)
            one.clicked.connect(lambda _=False, s=speed: setattr(playhead, "speed", s))
            one.setMinimumWidth(42)
            self._speeds.addButton(one)
        steps = (
            _button("playback.first", playhead.first_step, "|◀"),
            _button("playback.previous", playhead.previous_step, "◂"),
            self._play,
            _button("playback.next", playhead.next_step, "▸"),
            _button("playback.last", playhead.last_step, "▶|"),
            _button("playback.peak", self.go_to_peak, "▲ peak"),
        )
        scrub = _ScrubBar(exploration, playhead, theme)
        self.setLayout(
            in_row(*steps, (scrub, 1), self._where, *self._speeds.buttons(), gap=5, edges=NO_EDGES)
        )
        playhead.told.connect(self._on_step)
        playhead.playing_changed.connect(lambda on: self._play.setText("❚❚" if on else "▶"))
        exploration.shown_changed.connect(lambda: self._on_step(playhead.step))

    def resizeEvent(self, event: QResizeEvent) -> None:
        # What a narrow window leaves out can be reached by keys and menus.
        for button in self._speeds.buttons():
            button.setVisible(self.width() > 760)
        self._where.setVisible(self.width() > 520)
        row = self.layout()
        assert row is not None
        row.activate()  # before the row is painted
        super().resizeEvent(event)

    def go_to_peak(self) -> None:
        if self._exploration.shown is not None:
            self._playhead.seek(self._exploration.shown.timeline.peak_step)

    def _on_step(self, step: int) -> None:
        self._where.setText(f"step {strong(str(step + 1))} / {self._playhead.count}")
        self._where.setToolTip(f"Step {step} in schedule files and in the terminal, which count from 0")


def _button(name: str, run: Callable[[], object], text: str) -> QPushButton:
    button = command_button(name, run, text)
    button.setMinimumWidth(34 if len(text) < 4 else 70)
    return button


class _ScrubBar(QWidget):
    """A bar that shows the whole schedule and moves the playhead. It shows the forward and backward spans, a
    tick per recomputation, and a triangle at the peak. A click or a drag moves the playhead."""

    def __init__(self, exploration: Exploration, playhead: Playhead, theme: CurrentTheme) -> None:
        super().__init__()
        self._exploration, self._playhead, self._theme = exploration, playhead, theme
        self.setMinimumSize(120, 30)
        self.setAccessibleName("Position in the step")
        self._still = StillPicture()
        exploration.shown_changed.connect(self.update)
        playhead.moved.connect(lambda _: self.update())

    def paintEvent(self, event: QPaintEvent) -> None:
        shown = self._exploration.shown
        if shown is None:
            return
        painter = smooth(self)
        self._still.paint(
            painter,
            lambda inside: self._paint_still(inside, shown),
            of=(shown, self._theme.now, self.width(), self.height()),
            whole=QRectF(self.rect()),
            placed=PartPlace(QPointF(), 1.0, self.size(), painter.deviceTransform().m11()),
        )
        painter.setPen(Qt.PenStyle.NoPen)
        middle = self.height() / 2
        at = 8 + (self._playhead.step + 0.5) / len(shown.schedule.steps) * (self.width() - 16.0)
        painter.setBrush(self._theme.color("playhead_case"))
        painter.drawRoundedRect(QRectF(at - 4, middle - 11, 8, 22), 3, 3)
        painter.setBrush(self._theme.color("playhead"))
        painter.drawRoundedRect(QRectF(at - 2.5, middle - 9.5, 5, 19), 2, 2)
        painter.end()

    def _paint_still(self, painter: QPainter, shown: ListedSchedule) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        steps = shown.schedule.steps
        count = len(steps)
        width, middle = self.width() - 16.0, self.height() / 2
        self._paint_phases(painter, shown.graph.late[steps], QRectF(8, middle - 3, width, 7))
        painter.setBrush(self._theme.color("recomputed"))
        # At most one tick a pixel: more would not be visible.
        again = np.zeros(int(width) + 1, np.bool_)
        again[(np.flatnonzero(~shown.schedule.first_occurrence) / count * width).astype(int)] = True
        painter.drawRects(
            [QRectF(8.0 + pixel, middle - 10, 1.6, 5) for pixel in np.flatnonzero(again).tolist()]
        )
        peak = 8 + shown.timeline.peak_step / count * width
        painter.setBrush(self._theme.color("text"))
        corners = ((0, 6), (-5, 14), (5, 14))
        painter.drawPolygon(QPolygonF([QPointF(peak + x, middle + y) for x, y in corners]))

    def _paint_phases(self, painter: QPainter, late: np.ndarray, track: QRectF) -> None:
        pixels = max(1, int(track.width()))
        seen = late[np.arange(pixels) * len(late) // pixels]
        ends = [*(np.flatnonzero(np.diff(seen)) + 1).tolist(), pixels]
        clip = QPainterPath()
        clip.addRoundedRect(track, 3, 3)
        painter.save()
        painter.setClipPath(clip)
        for begin, end in pairwise([0, *ends]):
            color = self._theme.color("backward" if seen[begin] else "forward", 150)
            painter.fillRect(QRectF(track.left() + begin, track.top(), end - begin, track.height()), color)
        painter.restore()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._go(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._go(event)

    def _go(self, event: QMouseEvent) -> None:
        share = (event.position().x() - 8) / max(1.0, self.width() - 16.0)
        self._playhead.seek(int(share * self._playhead.count))
