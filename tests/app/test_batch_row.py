from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from app.state.constraint_targets import ConstraintKind
from app.state.solve import BudgetStanding
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.check import check
from tests.app.windows import at_four, training_chain

PATIENCE_MS = 60_000


@pytest.fixture
def row(window, exploration, qtbot):
    window.session.use_graph(at_four())
    row = window.explorer.batch
    qtbot.waitUntil(lambda: row.isEnabled() and len(exploration.known) > 3, timeout=PATIENCE_MS)
    assert row.isVisible()
    return row


def explored(window, qtbot, batch: int) -> None:
    qtbot.waitUntil(lambda: window.session.exploration.graph.batch_size == batch, timeout=PATIENCE_MS)


@pytest.mark.heavy
def test_another_batch_is_said_at_once_and_then_explored_within_the_same_budget(window, qtbot, row) -> None:
    exploration = window.session.exploration
    own, budget = exploration.graph, exploration.plain.peak_bytes
    row.slider.setValue(8)
    assert row.spin.value() == 8 and "Batch 8: " in row.words.whole and "estimated" in row.words.whole
    assert exploration.graph is own  # the views follow later
    explored(window, qtbot, 8)
    assert exploration.graph.fingerprint == BatchScaling(own).at(8).fingerprint
    assert exploration.budget_bytes == budget < exploration.plain.peak_bytes
    assert len(exploration.known) > 2  # what was known at batch 4 is known here
    for found in exploration.known:
        report = check(exploration.graph, found.schedule.steps.tolist())
        assert not report.violations and report.peak_bytes == found.peak_bytes
    assert "scaled from 4, estimated" in window._facts.text() and "measured" not in window._facts.text()
    assert not window.notice.isVisible()
    qtbot.waitUntil(
        lambda: exploration.solve is not None and not exploration.solve.running, timeout=PATIENCE_MS
    )
    assert exploration.standing.fit is BudgetStanding.BEST and exploration.shown.peak_bytes <= budget
    assert not window._export.isEnabled() and "scaled" in window._export.toolTip()


@pytest.mark.heavy
def test_one_click_leads_back_to_all_that_was_known(window, exploration, qtbot, row) -> None:
    exploration.set_budget(int(0.8 * exploration.plain.peak_bytes))
    own, budget, known = exploration.graph, exploration.budget_bytes, len(exploration.known)
    row.spin.setValue(7)
    explored(window, qtbot, 7)
    row.spin.setValue(12)
    explored(window, qtbot, 12)
    assert row.back.text() == "Back to 4" and row.back.isVisible()
    qtbot.mouseClick(row.back, Qt.MouseButton.LeftButton)
    explored(window, qtbot, 4)
    assert exploration.graph is own and exploration.budget_bytes == budget
    assert len(exploration.known) >= known and not row.back.isVisible() and row.spin.value() == 4


@pytest.mark.heavy
def test_a_budget_holds_for_all_batches_and_constraints_stay(window, exploration, qtbot, row) -> None:
    window.selection.select(2)
    window.what_ifs.switch(ConstraintKind.KEEP)
    constraints, plain = exploration.constraints, exploration.plain.peak_bytes
    row.spin.setValue(2)
    explored(window, qtbot, 2)
    assert exploration.budget_bytes == exploration.plain.peak_bytes < plain  # more is never needed here
    assert exploration.constraints == constraints and not constraints.is_empty
    row.spin.setValue(6)
    explored(window, qtbot, 6)
    assert exploration.budget_bytes == plain


@pytest.mark.heavy
def test_the_slider_goes_past_the_batch_that_fits(window, exploration, qtbot, row) -> None:
    reach = window.batch_scale.reach
    budget = exploration.budget_bytes
    fits = reach.fits(budget)
    assert reach.kept(budget) == 4 <= fits < row.slider.maximum()
    row.spin.setValue(5 * row.slider.maximum())
    explored(window, qtbot, row.spin.value())
    qtbot.waitUntil(lambda: "fits only up to" in row.words.whole, timeout=PATIENCE_MS)
    assert exploration.shown.peak_bytes > budget


def test_the_model_is_profiled_at_the_batch(window, qtbot, monkeypatch) -> None:
    asked = []
    told = {"model": "unet", "batch_size": 4}
    window.session.use_graph(at_four(metadata={"request": told}))
    row = window.explorer.batch
    qtbot.waitUntil(row.isEnabled, timeout=PATIENCE_MS)
    row.spin.setValue(9)
    explored(window, qtbot, 9)
    monkeypatch.setattr(window.session, "profile", asked.append)
    qtbot.mouseClick(row.profile, Qt.MouseButton.LeftButton)
    assert (asked[0].model, asked[0].batch_size) == ("unet", 9)


def test_without_a_batch_there_is_no_slider(window, qtbot) -> None:
    window.session.use_graph(training_chain())
    qtbot.waitUntil(lambda: len(window.session.exploration.known) > 3, timeout=PATIENCE_MS)
    assert not window.explorer.batch.isVisible()


@pytest.mark.heavy
def test_what_is_scaled_from_a_scaled_graph_leads_back_to_the_first(window, exploration, qtbot, row) -> None:
    own = exploration.graph
    row.spin.setValue(8)
    explored(window, qtbot, 8)
    window.session.use_graph(BatchScaling(exploration.graph).at(10))  # as the search's answers are
    assert window.batch_scale.base is own and row.spin.value() == 10
    window.batch_scale.way_back()
    explored(window, qtbot, 4)
    assert exploration.graph is own
