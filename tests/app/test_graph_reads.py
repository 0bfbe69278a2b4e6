"""What the boxes of the training graph say, and where they stand."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from random import Random

import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication

from app.layout.folded import Folding
from app.layout.grouping import group_tree
from app.layout.repeats import BlockRun
from app.layout.rows import LEGIBLE, Rows
from app.presenters.memory_curve import live_bytes
from app.presenters.wording import NameCut
from app.theme import LIGHT
from app.views.common.view_saver import svg_bytes
from app.views.graph import graph_view
from checkmate.catalog.bundled import find_graph
from checkmate.formats import read_any_graph
from checkmate.ir import GraphBuilder
from checkmate.units import parse_bytes
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


SVG = "{http://www.w3.org/2000/svg}"
ROOMS = [(900.0, 300.0), (500.0, 180.0), (1560.0, 860.0), (300.0, 900.0)]


def in_one_row(columns: int, depth: int, room: tuple[float, float]) -> float:
    """Return the scale at which boxes of 64 to 56 stood in one row, with words of the same size."""
    high = 136.0 + 22.0 * max(0, depth - 1) + 56.0 + 130.0
    return max(0.05, min(room[0] / (78.0 * columns - 14.0 + 64.0), room[1] / high, 1.25))


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("longest", [0.0, 200.0])
def test_words_are_never_smaller_than_in_one_row(room, longest: float) -> None:
    for columns in (*range(1, 64), 400, 5000):
        for depth in range(4):
            found = Rows.fitting(columns, depth, room, longest)
            assert found.scale(room) >= in_one_row(columns, depth, room)


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
    assert view._scale >= LEGIBLE and 30 <= len(shown.boxes) <= 60 and view._rows.count > 1
    for size in ((1000, 700), (1900, 1100)):
        window.resize(*size)
        qtbot.wait(20)
        view.grab()
        assert view.layout_shown.boxes == shown.boxes
        assert view._rows.size[0] * view._scale <= view.width()


def test_boxes_fold_where_a_smaller_window_made_their_words_unreadable(window, qtbot) -> None:
    view, exploration = window.explorer.graph_view, window.session.exploration
    graph = read_any_graph(find_graph("unet-b8.graph"))
    window.resize(1600, 980)
    exploration.set_graph(graph)
    view.grab()
    shown = view.layout_shown
    window.resize(1000, 640)
    folded, scale = view.layout_shown, view._scale
    view.grab()
    exploration.set_graph(training_dag(2, 20))
    exploration.set_graph(graph)  # it opens there
    assert (view.layout_shown.boxes, view._scale) == (folded.boxes, scale)
    assert len(folded.boxes) < len(shown.boxes)


def test_what_the_user_opened_or_enlarged_stays_in_a_smaller_window(window, qtbot) -> None:
    view = window.explorer.graph_view
    window.resize(1600, 980)
    window.session.exploration.set_graph(read_any_graph(find_graph("unet-b8.graph")))
    view.grab()
    shown = view.layout_shown
    qtbot.keyClick(window, Qt.Key.Key_Plus)
    scale = view._scale
    window.resize(1000, 700)
    assert (view.layout_shown.boxes, view._scale) == (shown.boxes, scale)
    view.open_box(next(box for box in shown.boxes if box.can_open))
    more = view.layout_shown
    window.resize(1000, 640)
    assert len(more.boxes) > len(shown.boxes) and view.layout_shown.boxes == more.boxes


def test_the_name_of_the_step_covers_no_box_and_no_badge(window, exploration, found) -> None:
    view, named = window.explorer.graph_view, set[bool]()
    for size in ((1600, 980), (1366, 768), (1000, 640)):
        window.resize(*size)
        boxes = [view._painter().rect(box) for box in view.layout_shown.boxes]
        for step in range(window.playhead.count):
            window.playhead.seek(step)
            moment = view._moment()
            place = view._painter().tag_place(moment)
            covered = [box.adjusted(0, -13 * (moment.repeats[n] > 0), 0, 0) for n, box in enumerate(boxes)]
            assert not any(place.intersects(box) for box in covered)
            named.add(not place.isEmpty())
        assert moment.repeats.any()
    assert named == {True, False}  # where there is room for it


def test_a_name_without_room_in_one_line_has_two() -> None:
    random, room = Random(5), 40.0
    parts = ["conv", "Pool", "transpose", "_", "/", "block", "10", "normalization", "i"]
    names = ["".join(random.choices(parts, k=random.randint(1, 5))) for _ in range(400)]
    cut, whole = NameCut(names), 0

    def width(text: str) -> float:
        return sum(3.0 if letter in "i_/-" else 7.0 for letter in text)

    for name in names:
        lines = cut.lines(name, 2, width, room)
        assert len(lines) <= 2 and all(width(line) <= room for line in lines[1:])
        assert width(lines[0].removesuffix("-")) <= room
        assert cut.lines(name, 1, width, room) == [cut.cut(name, width, room)]
        if width(name) <= 2 * room - width("m-"):
            assert lines == [name] or "".join(lines) == name or lines[0][:-1] + lines[1] == name
            whole += len(lines) == 2
    assert whole > 50


def test_a_frame_around_one_block_has_its_name() -> None:
    names = [f"stage1_block1_{part}" for part in ("conv", "bn", "relu", "add", "out")]
    names += [f"stage1_block{block}_{part}" for block in (2, 3, 4) for part in ("conv", "bn", "relu")]
    tree = group_tree(names, [BlockRun(5, 3, 3)])
    assert tree.children[0].name == "stage1_block1"
    assert tree.children[0].children[0].name == "stage1_block1_conv"


def test_groups_without_a_name_say_from_where_to_where() -> None:
    found, pending = list[str](), [group_tree([f"net/block{number}/conv" for number in range(40)])]
    while pending:
        group = pending.pop()
        pending += group.children
        if group.last - group.first > 1:
            found.append(group.name)
            assert (
                group.first == 0 or group.name == f"net/block{group.first}/conv – block{group.last - 1}/conv"
            )
    assert len(found) > 10


def words(view) -> list[str]:
    """Return what a view says, text by text."""
    return ["".join(text.itertext()) for text in ET.fromstring(svg_bytes(view, LIGHT)).iter(f"{SVG}text")]


def test_names_are_whole_where_two_lines_have_room(window) -> None:
    window.resize(1600, 980)
    window.explorer.area.choose("explain")
    builder, value = GraphBuilder("long"), list[int]()
    for number in range(16):
        new = builder.value(f"v{number}", 2**20)
        builder.op(f"op{number}", value, [new], group=f"{'abcdefghijklmnop'[number]}x_transpose_of_it")
        value = [new]
    window.session.exploration.set_graph(builder.build())
    view = window.explorer.graph_view
    said = words(view)
    assert view._scale >= LEGIBLE and len(view.layout_shown.boxes) == 16
    assert not any("…" in text for text in said)
    pairs = {one.removesuffix("-") + other for one, other in itertools.pairwise(said)}
    assert view._rows.lines == 2 and {box.name for box in view.layout_shown.boxes} <= pairs


def test_boxes_say_what_is_live_at_the_playhead(window, chain_open) -> None:
    view, shown = window.explorer.graph_view, window.session.exploration.shown
    for step in (0, shown.timeline.peak_step, len(shown.schedule.steps) - 1):
        window.playhead.seek(step)
        numbers = [text for text in words(view) if re.fullmatch(r"[\d.]+ [KMG]?i?B", text)]
        assert sum(map(parse_bytes, numbers)) + shown.graph.fixed_bytes == shown.timeline.live_bytes[step]


def test_an_overview_is_shown_while_something_is_hidden(window, chain_open, monkeypatch) -> None:
    view, painted = window.explorer.graph_view, list[bool]()
    monkeypatch.setattr(graph_view, "paint_overview", lambda *_: painted.append(True))

    def has_overview() -> bool:
        painted.clear()
        view.grab()
        return bool(painted)

    assert not has_overview()
    view.zoom(0.8)
    assert not has_overview()
    view.zoom(2.5)
    assert has_overview()
    view.fit()
    assert not has_overview()


def turn(view, at: QPointF, clicks: int) -> None:
    """Turn the wheel, away from the user where ``clicks`` are positive."""
    none, still = Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase
    angle = QPoint(0, 120 if clicks > 0 else -120)
    for _ in range(abs(clicks)):
        place = QPointF(view.mapToGlobal(at.toPoint()))
        event = QWheelEvent(at, place, QPoint(), angle, Qt.MouseButton.NoButton, none, still, False)
        QApplication.sendEvent(view, event)


def by_wheel(window, qtbot, at: QPointF, clicks: int) -> None:
    turn(window.explorer.graph_view, at, clicks)


def by_keys(window, qtbot, at: QPointF, clicks: int) -> None:
    for _ in range(abs(clicks)):
        qtbot.keyClick(window, Qt.Key.Key_Plus if clicks > 0 else Qt.Key.Key_Minus)


@pytest.mark.parametrize("zoom", [by_wheel, by_keys])
def test_zooming_opens_a_box_and_folds_it_again(window, qtbot, zoom) -> None:
    window.resize(1600, 980)
    window.session.exploration.set_graph(training_dag(1, 400))
    view, opened = window.explorer.graph_view, list[int]()
    view.grab()
    before, scale = view.layout_shown, view._scale
    box = next(box for box in before.boxes if box.can_open and not box.backward)
    inside = set(box.ops)
    window.selection.select(box.ops[0])
    at = view._painter().rect(box).center() * view._scale + view._offset
    for _ in range(30):
        zoom(window, qtbot, at, 1)
        opened.append(len(view.layout_shown.boxes))
        if opened[-1] > len(before.boxes):
            break
    assert len(opened) > 2 and set(opened[:-1]) == {len(before.boxes)}  # once it is large
    under = view._box_at(at)
    assert under is not None and set(under.ops) < inside
    assert any(frame.key == box.key for frame in view.layout_shown.frames)
    shown = view.layout_shown
    zoom(window, qtbot, at, -1)
    zoom(window, qtbot, at, 1)
    assert view.layout_shown is shown  # a little neither folds nor opens
    for _ in range(30):
        zoom(window, qtbot, at, -1)
        if view.layout_shown.boxes == before.boxes:
            break
    assert view.layout_shown.boxes == before.boxes and set(view._box_at(at).ops) <= inside
    zoom(window, qtbot, at, -20)
    assert view.layout_shown.boxes == before.boxes and view._scale < scale  # what was open before stays
