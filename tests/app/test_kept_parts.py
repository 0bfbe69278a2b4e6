from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QLineF, QObject, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen
from PySide6.QtWidgets import QApplication

from app.presenters.hotspot_rows import View
from app.views.common.paint_turns import _on_screen
from app.views.common.texts import SteadyLabel
from app.views.graph.kept_parts import KeptParts, PartPlace
from app.views.graph.paint import GraphPainter, Part
from tests.app.windows import open_chain

pytestmark = pytest.mark.heavy  # many windows, a second each

SIZE = QSize(160, 120)


def parts(times: Counter[int], looks: int = 0) -> list[Part]:
    """Return boxes with an edge that is thin, at places between pixels."""

    def part(number: int) -> Part:
        area = QRectF(13.3 * number, 9.7 * number, 11.9, 8.1)

        def draw(painter: QPainter) -> None:
            times[number] += 1
            painter.setPen(QPen(QColor.fromHsv(40 * number, 200, 150 + looks), 1.3))
            painter.drawRoundedRect(area, 2, 2)
            painter.drawLine(QLineF(area.topLeft(), area.bottomRight()))

        return Part(number, area.adjusted(-3, -3, 3, 3), (looks if number == 2 else 0,), draw)

    return [part(number) for number in range(8)]


def pixels(paint, ratio: float) -> np.ndarray:
    image = QImage(SIZE * ratio, QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(ratio)
    image.fill(Qt.GlobalColor.white)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    paint(painter)
    painter.end()
    return np.frombuffer(image.constBits(), np.uint8).astype(int)


@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.0])
def test_kept_parts_look_like_drawn_ones_and_are_drawn_once(qapp, ratio: float) -> None:
    kept, times = KeptParts(), Counter()
    for step in range(12):
        placed = PartPlace.sharp(QPointF(4.3 + 2.6 * step, 7.9 - step / 3), 1.17, SIZE, ratio)

        def anew(painter: QPainter, placed: PartPlace = placed) -> None:
            for part in parts(Counter()):
                placed.draw(painter, part.draw)

        def as_kept(painter: QPainter, placed: PartPlace = placed) -> None:
            kept.paint(painter, parts(times), placed)

        assert np.abs(pixels(as_kept, ratio) - pixels(anew, ratio)).max() <= 3, step  # of 255, by rounding
    assert set(times.values()) == {1}
    pixels(lambda painter: kept.paint(painter, parts(times, looks=9), placed), ratio)
    assert times[2] == 2 and times[3] == 1


def test_a_step_draws_the_boxes_that_change(window, qtbot, monkeypatch) -> None:
    open_chain(window, qtbot, layers=30)
    view, drawn = window.explorer.graph_view, []
    real = GraphPainter.paint_box
    monkeypatch.setattr(
        GraphPainter, "paint_box", lambda self, *args, **more: (drawn.append(1), real(self, *args, **more))
    )
    assert len(view.layout_shown.boxes) > 12
    window.playhead.seek(5)
    view.grab()
    for step in range(6, 12):
        drawn.clear()
        window.playhead.seek(step)
        view.grab()
        assert 0 < len(drawn) <= 5, step


class Seen(QObject):
    def __init__(self) -> None:
        super().__init__()
        self.painted, self.layouts = 0, 0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            self.painted += sum(part.width() * part.height() for part in event.region())
        self.layouts += event.type() == QEvent.Type.LayoutRequest
        return False


def test_a_step_paints_a_strip_of_r_that_joins_its_old_picture(window, qtbot) -> None:
    open_chain(window, qtbot, layers=30)
    window.explorer.turns.finish()
    qtbot.wait(50)
    matrix, seen = window.explorer.matrices[0], Seen()
    for step in (20, 21, 33, 8):
        matrix.viewport().installEventFilter(seen)
        seen.painted, before = 0, window.playhead.step
        window.playhead.seek(step)
        QApplication.processEvents()
        matrix.viewport().removeEventFilter(seen)
        assert 0 < seen.painted < 0.2 * matrix.width() * matrix.height(), step
        whole = matrix.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
        assert _on_screen(matrix, matrix.rect()) == whole, (before, step)


def test_the_window_is_not_laid_out_anew_for_figures_alone(window, qtbot) -> None:
    open_chain(window, qtbot, layers=30)
    qtbot.wait(100)
    seen, model = Seen(), window.explorer.inspector.memory._model
    window.explorer.inspector.memory.show_view(View.VALUES)
    window.playhead.seek(11)
    qtbot.wait(50)
    resets = []
    model.modelReset.connect(lambda: resets.append(True))
    window.installEventFilter(seen)
    for step in range(12, 18):
        window.playhead.seek(step)
        QApplication.processEvents()
    assert seen.layouts <= 2 and not resets  # a figure may get another digit
    assert [row.name for row in model.rows] and model.rowCount() == len(model.rows)


def test_a_steady_label_has_room_for_other_digits_and_keeps_its_marks(qapp) -> None:
    shown = SteadyLabel()
    shown.setText('step <span style="font-weight:600">1</span> / 17')
    size = shown.minimumSize()
    shown.setText('step <span style="font-weight:600">8</span> / 17')
    assert shown.minimumSize() == size == shown.maximumSize() and "font-weight:600" in shown.text()
    assert shown._label.sizeHint().width() <= size.width()
    shown.setText('step <span style="font-weight:600">10</span> / 17')
    assert shown.minimumSize().width() > size.width()


def test_words_follow_the_pictures_while_it_plays(window, qtbot, chain_open) -> None:
    playhead, order = window.playhead, []
    playhead.moved.connect(lambda step: order.append(("moved", step)))
    playhead.told.connect(lambda step: order.append(("told", step)))
    playhead.seek(3)
    assert order == [("moved", 3), ("told", 3)]
    playhead.play(True)
    order.clear()
    playhead.seek(5)
    assert order == [("moved", 5)]
    playhead.play(False)  # nothing is left behind
    assert order == [("moved", 5), ("told", 5)]
