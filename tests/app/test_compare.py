from __future__ import annotations

from random import Random

import numpy as np
import pytest
from PySide6.QtCore import Qt

from app.models.cursors import Comparison
from app.models.exploration import Exploration
from app.presenters.hotspot_rows import View
from app.presenters.matrix_image import (
    BOTH,
    NEITHER,
    ONLY_A,
    ONLY_B,
    STRIPE_A,
    STRIPE_B,
    aligned,
    bins_of,
    computed_image,
    difference,
    hatched,
    held_image,
)
from app.views.panels.bar_rows import MARK
from checkmate.ir import Schedule
from checkmate.memory.simulate import simulate
from tests.app.windows import button, smaller, training_chain
from tests.graphs_strategies import random_graph, random_steps

pytestmark = pytest.mark.heavy  # many windows, a second each


def pairs():
    for seed in range(60):
        graph = random_graph(Random(seed))
        steps = [random_steps(Random(seed + 1000 * i), graph) for i in range(2)]
        if all(set(plan) == set(range(graph.n)) for plan in steps):
            yield graph, *(Schedule.of(graph, plan) for plan in steps)


def test_differences_are_those_of_the_two_replays() -> None:
    count = 0
    for graph, a, b in pairs():
        live_a, live_b = simulate(graph, a), simulate(graph, b)
        found = difference(graph, a, live_a, b, live_b)
        back = difference(graph, b, live_b, a, live_a)
        assert found.peak_bytes == live_a.peak_bytes - live_b.peak_bytes == -back.peak_bytes
        assert found.cost * (graph.base_cost or 1) == pytest.approx(live_a.cost - live_b.cost)
        assert (found.only_a, found.only_b) == (back.only_b, back.only_a)
        for entry in found.ops:
            runs = tuple(int(np.sum(schedule.steps == entry.op)) - 1 for schedule in (a, b))
            assert (entry.in_a, entry.in_b) == runs and entry.in_a != entry.in_b
        count += bool(found.ops)
    assert count > 10


def test_hatching_keeps_the_cells_and_tells_a_from_b() -> None:
    image = np.array([[ONLY_A, ONLY_B], [BOTH, NEITHER]], np.uint8)
    large = hatched(image.repeat(8, axis=0).repeat(8, axis=1))
    assert set(np.unique(large[:8, :8])) == {ONLY_A, STRIPE_A}
    assert set(np.unique(large[:8, 8:])) == {ONLY_B, STRIPE_B}
    assert (large[8:, :8] == BOTH).all() and (large[8:, 8:] == NEITHER).all()
    assert not np.array_equal(large[:8, :8] == STRIPE_A, large[:8, 8:] == STRIPE_B)


def test_curves_are_aligned_where_the_same_ops_are_computed() -> None:
    for graph, a, b in pairs():
        first, second = a.matrices(graph), b.matrices(graph)
        assert np.allclose(aligned(a, a), np.arange(len(a.steps)))
        places = aligned(b, a)
        assert (np.diff(places) > 0).all() and places[-1] == pytest.approx(len(a.steps) - 1)
        for stage in range(graph.n):
            end_a, end_b = (np.flatnonzero(m.stage_of_step == stage)[-1] for m in (first, second))
            assert places[end_b] == pytest.approx(end_a)


def test_b_stays_while_a_changes_and_ends_with_the_graph() -> None:
    exploration = Exploration()
    comparison = Comparison(exploration)
    changes = []
    comparison.changed.connect(lambda: changes.append(comparison.other))
    exploration.set_graph(training_chain())
    comparison.pin(exploration.shown)
    assert comparison.active and comparison.difference.sentence.startswith("A and B need the same")
    found = smaller(exploration)
    assert comparison.other is exploration.plain and exploration.shown is found and len(changes) >= 2
    assert comparison.difference.peak_bytes == found.peak_bytes - exploration.plain.peak_bytes < 0
    assert comparison.difference.only_a > 0 and comparison.difference.only_b == 0
    exploration.set_graph(training_chain(5))
    assert not comparison.active and comparison.difference is None


def test_every_view_shows_the_comparison_until_it_ends(window, exploration, found, qtbot) -> None:
    explorer = window.explorer
    views = (*explorer.matrices, explorer.curve)
    before = [view.grab().toImage() for view in views]
    qtbot.mouseClick(explorer.schedules.compare, Qt.MouseButton.LeftButton)
    assert explorer.comparison.other is exploration.plain and explorer.compare_bar.isVisible()
    assert "recomputed only in A" in explorer.compare_bar.text()
    assert all(view.grab().toImage() != image for view, image in zip(views, before, strict=True))
    marks = [explorer.schedules._list.item(row.found).data(0, MARK) for row in explorer.schedules.rows]
    assert sorted(filter(None, marks)) == ["A", "B"]
    explorer.compare_bar.swap.click()
    assert exploration.shown is exploration.plain and explorer.comparison.other is found
    explorer.compare_bar.close_button.click()
    assert not explorer.comparison.active and not explorer.compare_bar.isVisible()
    assert not explorer.schedules.compare.isChecked()
    exploration.show(found)
    qtbot.waitUntil(lambda: explorer.matrices[0].grab().toImage() == before[0], timeout=3000)


def test_ops_that_differ_are_listed_and_select(window, exploration, found) -> None:
    page, comparison = window.explorer.inspector.memory, window.explorer.comparison
    assert not page.tabs[View.COMPARE].isVisible()
    comparison.pin(exploration.plain)
    assert page.tabs[View.COMPARE].isVisible()
    page.show_view(View.COMPARE)
    assert [row.op for row in page.rows] == [entry.op for entry in comparison.difference.ops]
    assert page.rows[0].figure.startswith("A ↻")
    page._list.clicked.emit(page._list.model().index(0, 0))
    assert window.selection.op == page.rows[0].op
    window.selection.select(-1)
    comparison.pin(None)
    assert not page.tabs[View.COMPARE].isVisible() and page.view is not View.COMPARE


def test_keys_pin_and_compare(window, exploration, found, qtbot) -> None:
    comparison = window.explorer.comparison
    qtbot.keyClick(window.explorer.graph_view, Qt.Key.Key_B)
    assert comparison.other is found
    qtbot.keyClick(window.explorer.graph_view, Qt.Key.Key_D)
    assert comparison.other is None
    qtbot.keyClick(window.explorer.graph_view, Qt.Key.Key_D)
    assert comparison.other is exploration.plain


def test_pictures_of_a_report_show_every_cell_of_the_matrices() -> None:
    for graph, a, _ in pairs():
        matrices = a.matrices(graph)
        for most in (3, 99):
            bins = bins_of(graph.n, most)
            side = int(bins[-1]) + 1
            for image, cells in ((computed_image, matrices.R), (held_image, matrices.S)):
                pooled = np.zeros((side, side), bool)
                np.logical_or.at(pooled, (bins[:, None], bins[None, :]), cells)
                assert np.array_equal(image(graph, matrices, most) > 0, pooled)


def test_what_is_shown_and_compared_is_undone_and_done_again(window, exploration, found, qtbot) -> None:
    explorer, stack = window.explorer, window.what_ifs.stack
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_D)
    assert explorer.comparison.other is exploration.plain and stack.undoText() == "Compare schedules"
    explorer.compare_bar.swap.click()
    assert exploration.shown is exploration.plain and stack.undoText() == "Swap A and B"
    undo = (Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(window, *undo)
    assert exploration.shown is found and explorer.comparison.other is exploration.plain
    qtbot.keyClick(window, *undo)
    assert exploration.shown is found and explorer.comparison.other is None and not stack.canUndo()
    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    for _ in range(2):
        qtbot.keyClick(window, Qt.Key.Key_Z, both)
    assert exploration.shown is exploration.plain and explorer.comparison.other is found


def test_a_schedule_chosen_in_the_list_is_undone_with_its_budget(window, exploration, found) -> None:
    stack = window.what_ifs.stack
    exploration.show(exploration.plain)
    before = exploration.asked
    window.explorer.schedules._list.chosen.emit(found)
    assert exploration.shown is found and exploration.asked == before
    stack.undo()
    assert exploration.shown is exploration.plain
    window.explorer.shown_edits.show_with_budget(found)
    assert exploration.shown is found and exploration.budget_bytes == found.peak_bytes
    stack.undo()
    assert exploration.shown is exploration.plain and exploration.asked == before


def test_after_undo_the_screen_follows_the_budget_again(window, exploration, found, qtbot) -> None:
    stack = window.what_ifs.stack
    exploration.set_budget(found.peak_bytes)
    exploration.show_now()
    assert exploration.shown is found and not exploration.by_hand
    window.explorer.shown_edits.show(exploration.plain)
    assert exploration.by_hand
    stack.undo()
    assert exploration.shown is found and not exploration.by_hand
    stack.redo()
    assert exploration.shown is exploration.plain and exploration.by_hand
    qtbot.mouseClick(button(window.explorer.solving, "Show the best that fits"), Qt.MouseButton.LeftButton)
    assert exploration.shown is found and stack.undoText() == "Show the best that fits"
    stack.undo()
    assert exploration.shown is exploration.plain and exploration.by_hand
