"""Test that pens look equally thick on screens of any density."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QColor, QPen
from PySide6.QtWidgets import QApplication, QWidget

from app.views.common.plot_style import ScreenPens


class Screened(QWidget):
    """A widget on a screen of any density."""

    ratio = 1.0

    def devicePixelRatioF(self) -> float:
        return self.ratio


class Line:
    """An item that is drawn with a pen."""

    def setPen(self, pen: QPen) -> None:
        self.pen = pen


def test_a_pen_is_as_many_device_pixels_as_the_screen_asks_for(qtbot) -> None:
    widget, line, later = Screened(), Line(), Line()
    qtbot.addWidget(widget)
    pens = ScreenPens(widget)
    pens.set(line, QPen(QColor("red"), 1.5))
    assert line.pen.widthF() == 1.5
    widget.ratio = 2.0
    QApplication.sendEvent(widget, QEvent(QEvent.Type.DevicePixelRatioChange))
    assert line.pen.widthF() == 3.0 and line.pen.color() == QColor("red")
    pens.set(later, QPen(QColor("blue"), 1.0))
    assert later.pen.widthF() == 2.0
    widget.ratio = 1.0
    QApplication.sendEvent(widget, QEvent(QEvent.Type.DevicePixelRatioChange))
    assert (line.pen.widthF(), later.pen.widthF()) == (1.5, 1.0)


def test_a_new_pen_replaces_the_old_one(qtbot) -> None:
    widget, line = Screened(), Line()
    qtbot.addWidget(widget)
    pens = ScreenPens(widget)
    pens.set(line, QPen(QColor("red"), 1.0))
    pens.set(line, QPen(QColor("blue"), 2.0))
    widget.ratio = 2.0
    widget.show()
    assert line.pen.widthF() == 4.0 and line.pen.color() == QColor("blue")
