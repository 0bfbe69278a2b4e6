from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import Qt

from app.state.constraint_targets import ConstraintKind
from checkmate.memory.check import check
from checkmate.solvers.constraints import Constraints, constrained
from tests.app.windows import menu_action, open_chain

pytestmark = pytest.mark.heavy  # each solves in a process of its own

KEEP_ONE = Constraints(keep=("a4",))
KEEP_MORE = Constraints(keep=("a4", "a5"), keep_groups=("layer7",))
NO_REPEATS = Constraints(never_recompute_groups=("layer*",))


def solved(window, qtbot, constraints: Constraints, share: float = 0.7):
    """Solve under ``constraints`` and return the solve. The budget is a share of the plain step's peak."""
    exploration = window.session.exploration
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        exploration.set_budget(int(exploration.plain.peak_bytes * share))
        if constraints == exploration.constraints:
            window.session.solve()
        else:
            window.session.constrain(constraints)
    return exploration.solve


def runs(found, op: str) -> int:
    graph = found.graph
    index = next(i for i, entry in enumerate(graph.ops) if entry.name == op)
    return int(np.sum(found.schedule.steps == index))


def test_schedules_of_the_plain_graph_keep_the_constraints(window, exploration, qtbot, chain_open) -> None:
    solve = solved(window, qtbot, KEEP_MORE, 0.75)
    assert solve.status in ("optimal", "feasible")
    graph, limited = exploration.graph, constrained(exploration.graph, KEEP_MORE)
    assert len(exploration.known) > 1
    for found in exploration.known:
        assert [runs(found, op) for op in ("f4", "f5", "f7", "b7")] == [1, 1, 1, 1]
        steps = found.schedule.steps.tolist()
        assert found.schedule.graph_fingerprint == graph.fingerprint
        assert check(graph, steps).ok and check(limited, steps).ok
        assert exploration.unconstrained.best_for(found.peak_bytes).cost <= found.cost
        assert found.result().assumptions == KEEP_MORE.assumptions
    assert exploration.shown in exploration.known


def test_a_bound_under_constraints_is_not_one_without(window, exploration, qtbot, chain_open) -> None:
    budget = int(exploration.plain.peak_bytes * 0.8)
    assert solved(window, qtbot, NO_REPEATS, 0.8).status == "infeasible"
    assert exploration.least_possible > budget
    assert np.isfinite(exploration.unconstrained.frontier.bound(budget))
    assert solved(window, qtbot, Constraints(), 0.8).status in ("optimal", "feasible")
    assert exploration.shown.peak_bytes <= budget
    # A bound that was proved of the plain graph also holds under any constraints.
    proved = exploration.unconstrained.frontier.bounds
    window.session.constrain(KEEP_ONE)
    assert proved and all(exploration.frontier.bound(at) >= bound for at, bound in proved)


def test_earlier_constraints_bring_their_frontier_back(window, exploration, qtbot, chain_open) -> None:
    solved(window, qtbot, KEEP_ONE)
    found, shown = list(exploration.known), exploration.shown
    solved(window, qtbot, Constraints())
    assert exploration.what_if is exploration.unconstrained
    window.session.constrain(KEEP_ONE)
    assert all(exploration.best_for(earlier.peak_bytes).cost <= earlier.cost for earlier in found)
    assert exploration.shown.cost <= shown.cost and exploration.shown.peak_bytes <= exploration.budget_bytes
    # Constraints with the same meaning have the same answers.
    window.session.constrain(Constraints(never_recompute=("f4",)))
    assert exploration.frontier.points and exploration.shown.cost <= shown.cost
    assert exploration.shown.result().assumptions == ("op 'f4' never recomputed",)


def test_late_results_stay_with_their_constraints(window, exploration, qtbot, chain_open) -> None:
    """Test results that arrive after the constraints have changed."""
    for _ in range(4):
        for constraints in (NO_REPEATS, KEEP_MORE, Constraints(), KEEP_ONE):
            window.session.constrain(constraints)
            qtbot.wait(60)
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        window.session.constrain(Constraints())
    for constraints, what_if in exploration._what_ifs.items():
        limited = constrained(exploration.graph, constraints)
        for found in what_if.known:
            assert check(limited, found.schedule.steps.tolist()).ok
            assert found.lower_bound <= found.cost * (1 + 1e-9)
    least = min(found.peak_bytes for found in exploration.known)
    assert exploration.unconstrained.frontier.infeasible_below < least


def test_explorations_keep_their_constraints(window, exploration, qtbot, tmp_path, chain_open) -> None:
    solved(window, qtbot, KEEP_MORE, 0.75)
    shown, known = exploration.shown, len(exploration.known)
    path = tmp_path / "chain.exploration.json"
    assert window.session.save(path)
    solved(window, qtbot, Constraints())
    window.session.open_file(path)
    assert exploration.constraints == KEEP_MORE
    assert len(exploration.known) >= known
    assert exploration.shown.cost <= shown.cost and runs(exploration.shown, "f4") == 1

    data = json.loads(path.read_text())
    assert data["constraints"]["keep"] == ["a4", "a5"]
    for broken, said in (({"keep": ["nothing"]}, "nothing"), ({"kept": []}, "no field 'kept'")):
        path.write_text(json.dumps({**data, "constraints": broken}))
        graph = exploration.graph
        with qtbot.waitSignal(window.session.failed, timeout=5000) as failed:
            window.session.open_file(path)
        assert said in failed.args[0] and exploration.graph is graph
    del data["constraints"]
    path.write_text(json.dumps(data))
    window.session.open_file(path)
    assert exploration.constraints.is_empty


def switch(window, qtbot, run) -> None:
    """Change the constraints with ``run``; wait for the solve that follows."""
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        run()


def select(window, op: str) -> None:
    graph = window.session.exploration.graph
    window.selection.select(next(i for i, entry in enumerate(graph.ops) if entry.name == op))


def test_switches_in_the_inspector_solve_again_and_are_undone(window, exploration, qtbot, chain_open) -> None:
    row = window.explorer.inspector.what_if
    solved(window, qtbot, Constraints())
    assert not row.isVisible()
    select(window, "f4")
    assert row.isVisible() and row.scopes[True].isChecked()
    keep, once = row.switches[ConstraintKind.KEEP], row.switches[ConstraintKind.ONCE]
    switch(window, qtbot, lambda: qtbot.mouseClick(keep, Qt.MouseButton.LeftButton))
    assert exploration.constraints == Constraints(keep_groups=("layer4",))
    assert keep.isChecked() and not once.isChecked() and runs(exploration.shown, "f4") == 1
    qtbot.mouseClick(row.scopes[False], Qt.MouseButton.LeftButton)
    assert not keep.isChecked()
    switch(window, qtbot, lambda: qtbot.mouseClick(once, Qt.MouseButton.LeftButton))
    assert exploration.constraints == Constraints(keep_groups=("layer4",), never_recompute=("f4",))
    assert menu_action(window, "Undo Never recompute f4").shortcut().toString() == "Ctrl+Z"
    switch(window, qtbot, window.what_ifs.stack.undo)
    switch(window, qtbot, lambda: qtbot.keyClick(window, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier))
    assert exploration.constraints.is_empty and not window.what_ifs.stack.canUndo()
    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    switch(window, qtbot, lambda: qtbot.keyClick(window, Qt.Key.Key_Z, both))
    assert exploration.constraints == Constraints(keep_groups=("layer4",))
    assert exploration.solve.budget_bytes == exploration.budget_bytes


def test_keys_switch_what_is_selected_but_are_text_in_a_field(window, exploration, qtbot, chain_open) -> None:
    view = window.explorer.graph_view
    qtbot.keyClick(view, Qt.Key.Key_K)
    assert exploration.constraints.is_empty  # nothing is selected
    select(window, "f6")
    switch(window, qtbot, lambda: qtbot.keyClick(view, Qt.Key.Key_R))
    assert exploration.constraints == Constraints(never_recompute_groups=("layer6",))
    assert menu_action(window, "Never recompute").isChecked()
    assert not menu_action(window, "Keep always").isChecked()
    switch(window, qtbot, lambda: qtbot.keyClick(view, Qt.Key.Key_R))
    assert exploration.constraints.is_empty
    field = window.explorer.layers._filter
    window.explorer.layers.focus_filter()
    qtbot.keyClicks(field, "rk")
    assert field.text() == "rk" and exploration.constraints.is_empty


def test_menu_of_a_box_and_its_lock(window, exploration, qtbot, chain_open) -> None:
    view = window.explorer.graph_view
    box = next(box for box in view.layout_shown.boxes if "layer5" in box.full_name and not box.backward)
    entries = {entry.text(): entry for entry in view.menu_of(box).actions()}
    assert {"Keep layer layer5 always", "Never recompute f5", "Clear the constraints"} <= set(entries)
    assert not entries["Clear the constraints"].isEnabled()
    before = view.grab().toImage()
    switch(window, qtbot, entries["Keep layer layer5 always"].trigger)
    assert exploration.constraints == Constraints(keep_groups=("layer5",))
    number = view.layout_shown.boxes.index(box)
    assert view._locked[number] == 1.0 and np.count_nonzero(view._locked) == 2  # and its gradient's
    assert view.grab().toImage() != before
    assert "2 of 2" not in view._tooltip(box) and "1 of 1 ops locked" in view._tooltip(box)
    entries = {entry.text(): entry for entry in view.menu_of(box).actions()}
    assert entries["Keep layer layer5 always"].isChecked() and not entries["Never recompute f5"].isChecked()


def test_solving_panel_counts_the_constraints_and_clears_them(window, exploration, qtbot, chain_open) -> None:
    panel = window.explorer.solving
    assert not panel.under.isVisible()
    solved(window, qtbot, KEEP_MORE, 0.75)
    assert panel.under.isVisible() and "under 3 constraints" in panel._under_text.text()
    assert "value 'a4' always kept" in panel._under_text.toolTip()
    gradients = menu_action(window, "Recompute gradients")
    assert gradients.isCheckable() and gradients.isChecked()
    switch(window, qtbot, gradients.trigger)
    assert not gradients.isChecked() and not exploration.constraints.recompute_gradients
    assert "under 4 constraints" in panel._under_text.text()
    switch(window, qtbot, lambda: qtbot.mouseClick(panel.clear, Qt.MouseButton.LeftButton))
    assert exploration.constraints.is_empty and gradients.isChecked() and not panel.under.isVisible()
    assert window.what_ifs.stack.undoText() == "Clear the constraints"
    window.session.use_graph(exploration.graph)
    assert not window.what_ifs.stack.canUndo()


def test_infeasible_under_constraints_says_so(window, qtbot, chain_open) -> None:
    solve = solved(window, qtbot, NO_REPEATS, 0.8)
    assert solve.status == "infeasible"
    panel = window.explorer.solving
    assert panel._details.text().startswith("Under these constraints: ")
    assert "layer 'layer*' never recomputed" in panel._under_text.toolTip()
    # Nothing fits, but the schedule on screen keeps the constraints.
    shown = window.session.exploration.shown
    assert len(shown.schedule.steps) == shown.graph.n


def test_texts_of_the_solving_panel_cover_nothing_in_a_small_window(window, qtbot) -> None:
    window.resize(1100, 700)
    open_chain(window, qtbot)
    solved(window, qtbot, KEEP_MORE, 0.75)
    panel = window.explorer.solving
    qtbot.waitUntil(lambda: panel.height() >= panel.body.totalMinimumHeightForWidth(panel.width()))
    texts = (panel._status, panel.under, panel._plot, panel._details)
    shown = sorted((child for child in texts if child.isVisible()), key=lambda child: child.geometry().top())
    for upper, lower in pairwise(shown):
        assert upper.geometry().bottom() < lower.geometry().top()
