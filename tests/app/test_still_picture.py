from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPen
from PySide6.QtWidgets import QApplication, QWidget

from app.theme import DARK, LIGHT, ThemeChoice
from app.views.common.plot_style import ScreenPens
from app.views.graph.kept_parts import PartPlace, StillPicture
from checkmate.ir import GraphBuilder
from tests.app.windows import open_chain

SIZE = QSize(120, 80)


def drawn(painter: QPainter) -> None:
    for number in range(60):
        color = QColor.fromHsv(6 * number, 200, 200)
        painter.fillRect(QRectF(50 * number, 7 * (number % 9), 31, 23), color)


def pixels(paint, ratio: float) -> np.ndarray:
    image = QImage(SIZE * ratio, QImage.Format.Format_ARGB32)
    image.setDevicePixelRatio(ratio)
    image.fill(Qt.GlobalColor.white)
    painter = QPainter(image)
    paint(painter)
    painter.end()
    return np.frombuffer(image.constBits(), np.uint8).copy()


@pytest.mark.parametrize(("width", "most"), [(400, 1), (3000, 30)])
@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_a_dragged_picture_equals_the_drawing_and_is_seldom_redrawn(qapp, width, most, ratio) -> None:
    still, whole, times = StillPicture(), QRectF(-5, -5, width * 10 / ratio, 500), []
    for step in range(100):
        offset = QPointF(30 - 11 * step, 20 - step % 40)

        def draw(painter: QPainter) -> None:
            times.append(1)
            drawn(painter)

        def as_kept(painter: QPainter, at: QPointF = offset) -> None:
            still.paint(painter, draw, of=("a",), whole=whole, placed=PartPlace(at, 1.0, SIZE, ratio))

        def anew(painter: QPainter, at: QPointF = offset) -> None:
            painter.setClipRect(whole.translated(at))
            painter.translate(at)
            drawn(painter)

        assert np.array_equal(pixels(as_kept, ratio), pixels(anew, ratio)), step
    assert len(times) <= most


def test_a_changed_look_is_redrawn(qapp) -> None:
    still, times = StillPicture(), []
    for of in ("a", "a", "b"):
        pixels(
            lambda painter, of=of: still.paint(
                painter, lambda inside: times.append(of), of=(of,), whole=QRectF(0, 0, 90, 60),
                placed=PartPlace(QPointF(), 1.0, SIZE, 1.0),
            ),
            1.0,
        )  # fmt: skip
    assert times == ["a", "b"]


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


def luminance(color: QColor) -> float:
    parts = color.getRgbF()[:3]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
@pytest.mark.parametrize("size", [(1400, 900), pytest.param((1000, 640), marks=pytest.mark.heavy)])
def test_a_box_that_has_not_run_yet_has_an_outline_that_is_seen(window, qtbot, theme, size) -> None:
    window.resize(*size)
    open_chain(window, qtbot)
    window.theme.choose(ThemeChoice(theme.name))
    try:
        qtbot.wait(100)
        window.explorer.turns.finish()
        view = window.explorer.graph_view
        image, layout = QImage(view.grab().toImage()), view.layout_shown
        for box in layout.boxes:
            if box.backward:  # at the first step, none of them has run
                shape = view._painter().rect(box)
                edge = QPointF(shape.center().x(), shape.bottom()) * view._scale + view._offset
                near = [image.pixelColor(round(edge.x()), round(edge.y()) + by) for by in range(-3, 4)]
                lights = [luminance(color) for color in near]
                assert (max(lights) + 0.05) / (min(lights) + 0.05) >= 3, box.name
    finally:
        window.theme.choose(ThemeChoice.LIGHT)


def test_long_names_of_boxes_are_cut_so_that_they_differ(window, qtbot) -> None:
    builder = GraphBuilder("alike")
    value = builder.value("in", 4)
    builder.op("first", [], [value], group="conv2_block1_0_conv")
    for number in range(1, 8):
        new = builder.value(f"v{number}", 2**20)
        builder.op(f"op{number}", [value], [new], group=f"conv2_block1_{number}_conv")
        value = new
    window.session.exploration.set_graph(builder.build())
    view = window.explorer.graph_view
    width = QFontMetricsF(view._painter().font(13, bold=True)).horizontalAdvance
    names = [box.name for box in view.layout_shown.boxes]
    cut = [view._names.cut(name, width, 62.0) for name in names]
    assert len(set(names)) > 4 and len(set(cut)) == len(set(names)), cut
    assert any("…" in name for name in cut)
