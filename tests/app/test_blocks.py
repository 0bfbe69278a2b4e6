from __future__ import annotations

from random import Random

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtWidgets import QApplication

from app.layout.folded import Folding
from app.layout.repeats import _MOST_READ, BlockRun, _BlockSearch, find_runs, run_name
from checkmate import planning
from checkmate.ir import Graph, GraphBuilder, Phase
from tests.app.test_timeline import drawn, move

pytestmark = pytest.mark.heavy
MIB = 1 << 20


class Layers:
    """Build the layers of a model one after the other, then their gradients."""

    def __init__(self) -> None:
        self.builder, self.made = GraphBuilder("blocks"), []
        self.count: dict[str, int] = {}

    def add(self, kind: str, inputs: list[int], mib: int = 1) -> int:
        number = self.count[kind] = self.count.get(kind, -1) + 1
        name = f"{kind}_{number}" if number else kind  # as Keras numbers its layers
        value = self.builder.value(name, mib * MIB)
        self.builder.op(f"model/{name}", inputs, [value], cost=1.0, type=kind, group=name)
        self.made.append((name, value, inputs))
        return value

    def graph(self) -> Graph:
        gradient: list[int] = []
        for name, value, inputs in reversed(self.made):
            new = self.builder.value(f"gradient of {name}", MIB)
            ends = [value, *inputs, *gradient]
            self.builder.op(f"back/{name}", ends, [new], cost=2.0, phase=Phase.BACKWARD, group=name)
            gradient = [new]
        return self.builder.build(fixed_bytes=MIB)


def transformer(blocks: int = 48, odd: int = -1) -> Graph:
    """Return a pre-norm Transformer whose blocks read one mask. Block ``odd`` is wider."""
    layers = Layers()
    mask = layers.add("mask", [])
    x = layers.add("dropout", [layers.add("embedding", [])])
    for block in range(blocks):
        y = layers.add("layer_normalization", [x])
        x = layers.add("add", [x, layers.add("attention", [y, mask], 2)])
        y = layers.add("dense", [layers.add("layer_normalization", [x])], 8 if block == odd else 4)
        x = layers.add("add", [x, layers.add("dense", [y])])
    layers.add("logits", [layers.add("layer_normalization", [x])], 8)
    return layers.graph()


def runs(graph: Graph) -> list[BlockRun]:
    folding = Folding(graph)
    return find_runs(graph, folding._layer_of, [op.group for op in graph.ops if op.phase is Phase.FORWARD])


def test_equal_blocks_are_found_whole() -> None:
    assert runs(transformer()) == [BlockRun(3, 7, 48)]
    assert runs(transformer(3)) == [BlockRun(3, 7, 3)]
    assert runs(transformer(2)) == []
    # A block that is not like the others divides them.
    assert runs(transformer(12, odd=5)) == [BlockRun(3, 7, 5), BlockRun(3 + 6 * 7, 7, 6)]


def test_blocks_that_read_from_elsewhere_are_not_equal() -> None:
    layers = Layers()
    first = x = layers.add("embedding", [])
    for block in range(9):
        y = layers.add("dense", [x])
        x = layers.add("add", [y, first if block == 4 else x])
    assert runs(layers.graph()) == [BlockRun(1, 2, 4), BlockRun(9, 2, 5)]


def test_a_chain_of_one_kind_is_a_run_of_layers() -> None:
    layers = Layers()
    x = layers.add("embedding", [])
    for _ in range(12):
        x = layers.add("dense", [x])
    graph = layers.graph()
    assert runs(graph) == [BlockRun(1, 1, 12)]
    folding = Folding(graph)
    layout = folding.layout(folding.opened_by_default(8))
    forward = [(box.name, box.copies) for box in layout.boxes if not box.backward]
    assert forward == [("embedding", 1), ("dense", 12)]
    assert len(folding.layout(folding.opened_by_default(13)).boxes) == 26  # there is room for all


def test_names_say_which_block_it_is() -> None:
    layers = Layers()
    x = layers.add("stem", [])
    for block in range(4):
        for part in ("attention", "norm"):
            value = layers.builder.value("v", MIB)
            layers.builder.op(f"op{block}{part}", [x], [value], group=f"encoder/layer_{block}/{part}")
            x = value
    folding = Folding(layers.builder.build())
    (run,) = folding.runs
    assert run.full_name == "layer × 4"
    assert [block.name for block in run.children] == [f"encoder/layer_{block}" for block in range(4)]


def test_numbers_inside_words_stay_in_names() -> None:
    for kind in ("conv2d", "gpt2_layer", "conv_3x3"):
        layers = Layers()
        x = layers.add("stem", [])
        for _ in range(8):
            x = layers.add(kind, [x])
        (run,) = Folding(layers.graph()).runs
        assert run.full_name == f"{kind} × 8"
    names = ["stem", *(f"gpt2/h{block}/{part}" for block in range(4) for part in ("attn2d", "norm"))]
    assert run_name(names, BlockRun(1, 2, 4)) == "h"


def test_a_search_for_blocks_ends_after_a_fixed_amount_of_work() -> None:
    graph = _hard()
    layer_of = list(range(graph.n))
    search = _BlockSearch(graph, layer_of, [op.group for op in graph.ops])
    assert search.best(0, graph.n) is None and search.tired
    assert search.read < 2 * _MOST_READ
    assert find_runs(graph, layer_of, search.names) == []


def _hard() -> Graph:
    """Return equal layers that read from anywhere. Each beginning is tried in vain."""
    builder, made, random = GraphBuilder("hard"), list[int](), Random(1)
    for number in range(3000):
        value = builder.value(f"v{number}", MIB)
        inputs = [random.choice(made)] if number else []
        builder.op(f"op{number}", inputs, [value], group=f"{'abcdefghijklmn'[number % 13]}_{number}")
        made.append(value)
    return builder.build(fixed_bytes=MIB)


def names(view, *, backward: bool = False) -> list[str]:
    return [box.full_name for box in view.layout_shown.boxes if box.backward == backward]


def opened(window, qtbot):
    exploration = window.session.exploration
    exploration.set_graph(transformer())
    budget = int(exploration.plain.peak_bytes * 0.5)
    steps = planning.solve(exploration.graph, budget, solver="chen-sqrt-linear").require_schedule().steps
    exploration.add(steps, budget_bytes=budget, solver="chen-sqrt-linear", seconds=0.0)
    exploration.show(exploration.known[0])
    assert exploration.shown.schedule.recomputations
    drawn(window, qtbot)
    return exploration, window.explorer.graph_view


def place_of(view, box) -> QPoint:
    return (view._painter().rect(box).center() * view._scale + view._offset).toPoint()


HEAD, TAIL = ["mask", "embedding", "dropout"], ["layer_normalization_96", "logits"]


def test_a_transformer_is_embedding_blocks_and_head(window, qtbot) -> None:
    exploration, view = opened(window, qtbot)
    assert names(view) == [*HEAD, "block × 48", *TAIL]
    assert names(view, backward=True) == names(view)
    number = next(i for i, box in enumerate(view.layout_shown.boxes) if box.copies == 48)
    box, shown = view.layout_shown.boxes[number], exploration.shown
    inside = np.zeros(shown.graph.n, bool)
    inside[list(box.ops)] = True
    again = (~shown.schedule.first_occurrence) & inside[shown.schedule.steps]
    assert view._repeats[number] == again.sum() > 0  # of all blocks together
    move(view, place_of(view, box))
    words = view._tooltip(box)
    assert words.startswith("block × 48 (forward)\n") and "\n336 ops write 528 MiB in all" in words
    assert "opens one block, with Shift all 48" in words


def test_blocks_open_by_double_click_and_fold_on_their_frame(window, qtbot) -> None:
    _, view = opened(window, qtbot)
    at = place_of(view, next(box for box in view.layout_shown.boxes if box.copies > 1))
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=at)
    assert names(view)[3:5] == ["layer_normalization", "attention"]
    assert [name for name in names(view) if "×" in name] == ["block × 47"]
    (frame,) = view.layout_shown.frames
    assert frame.name == "block 1"
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=head_of(view, frame))
    assert names(view) == [*HEAD, "block × 48", *TAIL]
    at = place_of(view, next(box for box in view.layout_shown.boxes if box.copies > 1))
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier, at)
    assert names(view) == [*HEAD, *(f"block {number}" for number in range(1, 49)), *TAIL]
    (frame,) = view.layout_shown.frames
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=head_of(view, frame))
    assert names(view) == [*HEAD, "block × 48", *TAIL]


def head_of(view, frame) -> QPoint:
    """Return a place in the head of a frame, above its boxes."""
    box = next(box for box in view.layout_shown.boxes if box.column == frame.first and not box.backward)
    top = view._painter().rect(box)
    return (QPointF(top.center().x(), top.top() - 24) * view._scale + view._offset).toPoint()


def test_blocks_open_and_fold_by_the_keyboard(window, qtbot) -> None:
    exploration, view = opened(window, qtbot)
    view.setFocus()
    of = {op.group: number for number, op in reversed(list(enumerate(exploration.graph.ops)))}
    window.selection.select(of["attention_20"])
    qtbot.keyClick(view, Qt.Key.Key_Return)
    assert [name for name in names(view) if "×" in name] == ["block × 20", "block × 27"]
    assert "attention_20" in names(view) and window.selection.op == of["attention_20"]
    qtbot.keyClick(view, Qt.Key.Key_Backspace)
    assert names(view) == [*HEAD, "block × 48", *TAIL]
    qtbot.keyClick(view, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert len(names(view)) == 53
    qtbot.keyClick(view, Qt.Key.Key_Backspace)
    assert names(view) == [*HEAD, "block × 48", *TAIL]
    qtbot.keyClick(window, Qt.Key.Key_F, Qt.KeyboardModifier.ShiftModifier)
    assert len(names(view)) == 53
    qtbot.keyClick(window, Qt.Key.Key_F, Qt.KeyboardModifier.ShiftModifier)
    assert names(view) == [*HEAD, "block × 48", *TAIL]


def test_a_double_click_opens_the_block_of_the_selected_op(window, qtbot) -> None:
    exploration, view = opened(window, qtbot)
    op = next(number for number, op in enumerate(exploration.graph.ops) if op.group == "attention_20")
    window.selection.select(op)
    at = place_of(view, next(box for box in view.layout_shown.boxes if op in box.ops))
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=at)
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=at)
    assert [name for name in names(view) if "×" in name] == ["block × 20", "block × 27"]
    assert window.selection.op == op
    view.setFocus()
    qtbot.keyClick(view, Qt.Key.Key_Backspace)
    qtbot.keyClick(view, Qt.Key.Key_Enter, Qt.KeyboardModifier.KeypadModifier)
    assert [name for name in names(view) if "×" in name] == ["block × 20", "block × 27"]


def test_the_menu_of_a_box_opens_and_folds_blocks(window, qtbot) -> None:
    _, view = opened(window, qtbot)

    def choose(text: str) -> None:
        box = next(box for box in view.layout_shown.boxes if box.column == 3)
        menu = view.menu_of(box)
        menu.popup(view.mapToGlobal(place_of(view, box)))
        menu.setActiveAction(next(entry for entry in menu.actions() if entry.text() == text))
        qtbot.keyClick(menu, Qt.Key.Key_Return)
        QApplication.processEvents()

    choose("Open all 48 blocks")
    assert len(names(view)) == 53
    choose("Fold block × 48")
    choose("Open one block")
    assert [name for name in names(view) if "×" in name] == ["block × 47"]
    choose("Fold block 1")
    assert names(view) == [*HEAD, "block × 48", *TAIL]


def test_a_layer_that_is_searched_for_opens_its_block_alone(window, qtbot) -> None:
    exploration, view = opened(window, qtbot)
    op = next(number for number, op in enumerate(exploration.graph.ops) if op.group == "attention_7")
    window.explorer.go_to(op)
    assert [name for name in names(view) if "×" in name] == ["block × 7", "block × 40"]
