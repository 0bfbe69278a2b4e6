"""Test that a dragged drawing looks right without being redrawn."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter

from app.views.graph.kept_parts import StillPicture

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
def test_a_dragged_picture_equals_the_drawing_and_is_seldom_redrawn(
    qapp, width: int, most: int, ratio: float
) -> None:
    still, whole, times = StillPicture(), QRectF(-5, -5, width * 10 / ratio, 500), []
    for step in range(100):
        offset = QPointF(30 - 11 * step, 20 - step % 40)

        def draw(painter: QPainter) -> None:
            times.append(1)
            drawn(painter)

        def as_kept(painter: QPainter, at: QPointF = offset) -> None:
            still.paint(painter, draw, of=("a",), whole=whole, offset=at, size=SIZE, ratio=ratio)

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
                offset=QPointF(), size=SIZE, ratio=1.0,
            ),
            1.0,
        )  # fmt: skip
    assert times == ["a", "b"]
