"""What the boxes of the training graph say, and where they stand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from PySide6.QtCore import QPointF, QRectF

from app.layout.folded import Folding
from app.layout.rows import LEGIBLE, Rows
from app.presenters.memory_curve import live_bytes
from tests.app.windows import exploration_of
from tests.generated_graphs import random_dag, training_dag


@pytest.mark.parametrize("seed", range(12))
def test_the_numbers_of_the_boxes_and_the_fixed_bytes_are_the_live_bytes(seed: int) -> None:
    graph = random_dag(seed, 30, extras=True) if seed % 3 else training_dag(seed, 20)
    exploration = exploration_of(graph)
    folding, shown = Folding(graph), exploration.shown
    for opened in (folding.opened_by_default(4), folding.opened_by_default(30)):
        layout = folding.layout(opened)
        for step in range(len(shown.schedule.steps)):
            numbers = live_bytes(layout, shown, step)
            assert numbers.min() >= 0
            assert numbers.sum() + graph.fixed_bytes == shown.timeline.live_bytes[step], step


ROOMS = [(900.0, 300.0), (500.0, 180.0), (1560.0, 860.0), (300.0, 900.0)]


def in_one_row(columns: int, depth: int, room: tuple[float, float]) -> float:
    """Return the scale at which boxes of 64 to 56 stood in one row, with words of the same size."""
    high = 136.0 + 22.0 * max(0, depth - 1) + 56.0 + 130.0
    return max(0.05, min(room[0] / (78.0 * columns - 14.0 + 64.0), room[1] / high, 1.25))


@pytest.mark.parametrize("room", ROOMS)
def test_words_are_never_smaller_than_in_one_row(room) -> None:
    for columns in (*range(1, 64), 400, 5000):
        for depth in range(4):
            assert Rows.fitting(columns, depth, room).scale(room) >= in_one_row(columns, depth, room)


def test_sixty_boxes_are_read_at_once() -> None:
    found = Rows.fitting(30, 1, (900.0, 300.0))
    assert found.scale((900.0, 300.0)) >= LEGIBLE and found.count > 1


@pytest.mark.parametrize("room", ROOMS)
def test_boxes_and_frames_stand_in_the_room_apart_from_each_other(room) -> None:
    graph = training_dag(3, 40)
    folding = Folding(graph)
    for most in (8, 20, 30):
        layout = folding.layout(folding.opened_by_default(most))
        rows = Rows.fitting(layout.columns, layout.frames_deep, room)
        shapes = [QRectF(*rows.corner(box), rows.width, rows.height) for box in layout.boxes]
        scale, (width, height) = rows.scale(room), rows.size
        assert width * scale <= room[0] and height * scale <= room[1] + 1e-6
        every = QRectF(0, -rows.above, width, height)
        assert all(every.contains(shape) for shape in shapes)
        assert not any(one.intersects(other) for one, other in itertools.combinations(shapes, 2))
        for box, shape in zip(layout.boxes, shapes, strict=True):
            middle = shape.center()
            assert int(rows.column_at(middle.x(), middle.y())) == box.column
            around = [frame for frame in layout.frames if frame.first <= box.column <= frame.last]
            for frame in layout.frames:
                pieces = [QRectF(QPointF(a, b), QPointF(c, d)) for a, b, c, d in rows.pieces(frame)]
                assert any(piece.contains(middle) for piece in pieces) == (frame in around)


def test_a_box_leads_to_the_boxes_beside_it() -> None:
    layout = Folding(training_dag(3, 40)).layout(frozenset())
    rows = Rows(9, 4, 0)
    corners = {}
    for column, backward in itertools.product(range(9), (False, True)):
        box = replace(layout.boxes[0], column=column, backward=backward)
        corners[rows.corner(box)] = box
        assert rows.beside(box, 1, 0) == (column + 1, backward)
    for (x, y), box in corners.items():
        below = min((at for at in corners if at[0] == x and at[1] > y), default=None)
        if below is not None:
            assert rows.beside(box, 0, 1) == (corners[below].column, corners[below].backward)
            assert rows.beside(corners[below], 0, -1) == (box.column, box.backward)


def test_words_of_a_graph_that_opens_are_read_and_its_boxes_stay_when_the_window_is_resized(
    window, qtbot
) -> None:
    window.resize(1600, 980)
    window.session.exploration.set_graph(training_dag(1, 200))
    view = window.explorer.graph_view
    view.grab()
    shown = view.layout_shown
    assert view._scale >= LEGIBLE and 40 <= len(shown.boxes) <= 60 and view._rows.count > 1
    for size in ((1000, 700), (1900, 1100)):
        window.resize(*size)
        qtbot.wait(20)
        view.grab()
        assert view.layout_shown.boxes == shown.boxes
        assert view._rows.size[0] * view._scale <= view.width()
