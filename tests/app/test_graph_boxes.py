"""Test that the graph's boxes differ by their outlines and names."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor, QFontMetricsF, QImage

from app.theme import DARK, LIGHT, ThemeChoice
from checkmate.ir.graph import GraphBuilder
from tests.app.windows import open_chain


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
