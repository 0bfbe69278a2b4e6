"""Test the window's list of what fills memory, and of what would help.

Both are about the step at the playhead.
"""

from __future__ import annotations

import dataclasses
import time

import pytest
from PySide6.QtCore import Qt

from app.presenters.hotspot_rows import View, as_table, help_rows, share_rows
from checkmate.memory.check import check
from checkmate.memory.hotspot import moment
from checkmate.memory.suggestions import SuggestionKind
from checkmate.units import format_bytes
from tests.app.windows import training_chain

pytestmark = pytest.mark.heavy  # many windows, a second each


def opened(window, layers: int = 12):
    """Open a graph without a solver process; put the playhead on its peak. Nothing else moves then."""
    window.session.exploration.set_graph(training_chain(layers))
    window.explorer.transport.go_to_peak()
    return window.session.exploration, window.explorer.inspector


def test_rows_of_every_view_add_up_and_the_first_is_the_largest(window) -> None:
    exploration, _ = opened(window)
    shown = exploration.shown
    now = moment(shown.graph, shown.schedule, shown.timeline, shown.timeline.peak_step)
    for view, shares in (
        (View.VALUES, now.by_value()),
        (View.LAYERS, now.by_layer()),
        (View.REASONS, now.by_reason()),
    ):
        rows = share_rows(now, view)
        assert sum(share.bytes for share in shares) == shown.peak_bytes
        assert len(rows) == len(shares) and rows[0].share == 1.0
        assert [row.figure for row in rows] == [format_bytes(share.bytes) for share in shares]
    assert as_table(share_rows(now, View.REASONS))[0][0].startswith("for the backward pass (")


def test_views_follow_the_playhead_and_a_row_selects_its_op(window, qtbot) -> None:
    _, inspector = opened(window)
    page = inspector.memory
    assert page.isVisible() and "· peak" in inspector.note.text()
    for view in (View.VALUES, View.LAYERS, View.REASONS):
        qtbot.mouseClick(page.tabs[view], Qt.MouseButton.LeftButton)
        assert page.view is view and page._list.model().rowCount() == len(page.rows) > 2
    before = [row.figure for row in page.rows]
    window.playhead.seek(2)
    assert [row.figure for row in page.rows] != before and "· peak" not in inspector.note.text()
    page.show_view(View.VALUES)
    at = next(i for i, row in enumerate(page.rows) if row.op >= 0)
    page._list.clicked.emit(page._list.model().index(at, 0))
    assert window.selection.op == page.rows[at].op and not page.isVisible() and inspector.back.isVisible()
    qtbot.mouseClick(inspector.back, Qt.MouseButton.LeftButton)
    assert window.selection.op == -1 and page.isVisible()


def test_suggestions_are_worked_out_in_the_background_and_hold(window, qtbot) -> None:
    exploration, inspector = opened(window, layers=40)
    page, hotspot = inspector.memory, inspector.hotspot
    started = time.perf_counter()
    page.show_view(View.HELPS)
    assert time.perf_counter() - started < 0.25 and hotspot.busy
    qtbot.waitUntil(lambda: not hotspot.busy, timeout=30000)
    shown, found = exploration.shown, [r for r in hotspot.remedies if r.kind is SuggestionKind.RECOMPUTE]
    assert found
    for remedy in found:
        report = check(exploration.graph, remedy.steps.tolist())
        assert report.valid and report.peak_bytes == remedy.peak_bytes <= shown.peak_bytes
        assert report.cost == pytest.approx(shown.cost + remedy.cost)
    names = [row.name for row in page.rows]
    assert any(name.startswith("Recompute ") for name in names) and not any(
        "replaying" in name for name in names
    )
    assert page.rows == help_rows(exploration.graph, shown, exploration.known, hotspot.remedies)
    window.playhead.seek(0)
    assert hotspot.remedies == []


def test_nothing_is_worked_out_while_the_page_is_hidden(window, qtbot) -> None:
    _, inspector = opened(window)
    inspector.memory.show_view(View.HELPS)
    window.selection.select(3)
    qtbot.wait(300)
    assert not inspector.hotspot.busy and inspector.hotspot.remedies == []
    window.selection.select(-1)
    qtbot.waitUntil(lambda: len(inspector.hotspot.remedies) > 0, timeout=20000)


def test_of_known_schedules_whose_peaks_read_the_same_the_cheapest_is_listed(window) -> None:
    exploration, _ = opened(window)
    graph, shown = exploration.graph, exploration.shown
    peak = shown.peak_bytes // 2
    known = [
        dataclasses.replace(shown, point=dataclasses.replace(shown.point, peak_bytes=peak + more, cost=cost))
        for more, cost in ((0, 130.0), (1, 110.0), (2, 120.0), (peak // 3, 105.0))
    ]
    rows = help_rows(graph, shown, known, [])
    assert [row.found for row in rows] == [known[3], known[1]]


def test_known_smaller_schedules_come_first_and_a_click_shows_them(window, qtbot) -> None:
    exploration, inspector = opened(window)
    inspector.memory.show_view(View.HELPS)
    qtbot.waitUntil(lambda: not inspector.hotspot.busy, timeout=20000)
    best = min((r for r in inspector.hotspot.remedies if r.steps is not None), key=lambda r: r.peak_bytes)
    assert exploration.add(
        best.steps, budget_bytes=exploration.plain.peak_bytes, solver="by hand", seconds=0.0
    )
    exploration.show(exploration.plain)
    row = inspector.memory.rows[0]
    assert row.found is exploration.known[0] and "by hand" in row.detail
    inspector.memory._list.clicked.emit(inspector.memory._list.model().index(0, 0))
    assert exploration.shown is row.found and exploration.budget_bytes == best.peak_bytes
