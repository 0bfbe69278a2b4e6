from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QPushButton

from app.presenters.op_page import rows_at_end, rows_of_op, why_nothing_fits
from app.state.solve import Aim, BudgetStanding, Tightest
from app.views.dialogs.export_dialog import ExportDialog
from checkmate.solvers.bounds import op_need, run_once_bound, working_set_bound
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.registry import find_solver
from checkmate.units import format_bytes
from checkmate.workers.window_messages import Preparing
from tests.app.windows import enter_budget, open_chain, training_chain
from tests.generated_graphs import training_dag

pytestmark = pytest.mark.heavy  # each solves in a process of its own

COMPILING = "compiling the search, once for this machine: 3 s"


def solve(window, qtbot, text: str) -> None:
    with qtbot.waitSignal(window.session.settled, timeout=90000):
        enter_budget(window, qtbot, text)


def button(window, text: str) -> QPushButton:
    solving = window.explorer.solving
    return next(one for one in solving.findChildren(QPushButton) if one.text().startswith(text))


def plain(text: str) -> str:
    """Return a text without what keeps a figure and its unit on one line."""
    return text.replace("\u00a0", " ")


def said(window) -> tuple[str, str, str]:
    """The words of the budget's head, the solving panel and the line above the graph."""
    explorer = window.explorer
    above_graph = "" if explorer.standing.isHidden() else explorer.standing.whole
    return explorer.budget._change.text(), explorer.solving._on_screen.text(), above_graph


def test_the_budget_typed_again_brings_its_schedule_back(window, exploration, qtbot, chain_open) -> None:
    panel = window.explorer.solving
    solve(window, qtbot, "70%")
    assert exploration.standing.fit is BudgetStanding.BEST and "step cost" in said(window)[0]
    field = window.explorer.budget._entry
    place = field.mapToGlobal(field.rect().topLeft())
    exploration.show(exploration.plain)  # as a click in the list of schedules does
    assert exploration.standing.fit is BudgetStanding.OVER
    qtbot.wait(50)
    assert field.mapToGlobal(field.rect().topLeft()) == place  # nothing moves under the pointer
    over = format_bytes(exploration.plain.peak_bytes - exploration.budget_bytes)
    assert all(over in text for text in said(window)[:2]) and "Over the budget" in said(window)[2]
    solve(window, qtbot, "70%")
    assert exploration.shown.peak_bytes <= exploration.budget_bytes
    assert exploration.standing.fit is BudgetStanding.BEST and said(window)[1:] == ("", "")
    assert "step cost" in said(window)[0] and panel._on_screen.isHidden()


def test_a_chosen_schedule_stays_until_the_way_back_is_taken(window, exploration, qtbot, chain_open) -> None:
    solve(window, qtbot, "70%")
    best, found = exploration.shown, len(exploration.known)
    exploration.show(exploration.plain)
    qtbot.waitUntil(lambda: len(exploration.known) != found, timeout=60000)  # more is found meanwhile
    assert exploration.shown is exploration.plain
    assert not button(window, "Show the best").isHidden()
    qtbot.mouseClick(button(window, "Show the best"), Qt.MouseButton.LeftButton)
    assert exploration.shown.peak_bytes <= exploration.budget_bytes and exploration.shown.cost <= best.cost
    assert exploration.standing.fit is BudgetStanding.BEST and button(window, "Show the best").isHidden()
    exploration.show(exploration.plain)
    qtbot.mouseClick(button(window, "Use"), Qt.MouseButton.LeftButton)
    assert exploration.budget_bytes == exploration.plain.peak_bytes
    assert exploration.shown is exploration.plain and exploration.standing.fit is BudgetStanding.BEST


def test_a_schedule_that_does_not_fit_is_not_exported(window, exploration, qtbot) -> None:
    graph = replace(training_chain(12), metadata={"request": {"model": "chain"}})
    exploration.set_graph(graph)  # without a solver process
    export = window._export
    assert export.isEnabled()
    exploration.set_budget(exploration.plain.peak_bytes // 2)
    assert exploration.standing.fit is BudgetStanding.UNKNOWN and not export.isEnabled()
    assert "over the budget" in export.toolTip()
    qtbot.keyClick(window, Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier)
    assert "over the budget" in window.statusBar().currentMessage()
    assert not window.findChildren(ExportDialog)
    exploration.set_budget(exploration.plain.peak_bytes)
    assert export.isEnabled()
    qtbot.keyClick(window, Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier)
    (dialog,) = window.findChildren(QDialog)
    dialog.close()


def test_moving_the_slider_leaves_no_word_about_another_budget(window, qtbot) -> None:
    open_chain(window, qtbot)
    exploration, panel = window.session.exploration, window.explorer.solving
    solve(window, qtbot, "70%")
    assert "proved" in panel._status.text()
    assert format_bytes(exploration.budget_bytes) in plain(panel._status.text())
    exploration.set_budget(exploration.plain.peak_bytes * 8 // 10)
    assert format_bytes(exploration.budget_bytes) in plain(panel._status.text())
    assert "not solved" in panel._status.text() and panel.note.text() == ""
    assert "Best known" in panel._details.text()


def test_what_is_found_in_the_background_is_said_of_an_ended_solve(window, exploration, qtbot) -> None:
    panel = window.explorer.solving
    exploration.set_graph(training_chain(12))
    budget = exploration.plain.peak_bytes * 8 // 10
    problem = Problem(exploration.graph, budget)
    found = find_solver("chen-greedy-linear").load().solve(problem, SolveOptions(), Listener())
    exploration.set_budget(budget)
    exploration.begin_solve(1)
    exploration.solve.status = "limit"
    exploration.solve_changed.emit()
    assert "no schedule found yet" in panel._status.text()
    exploration.add(found.require_schedule().steps, budget_bytes=budget, solver="by hand", seconds=0.0)
    assert exploration.shown.peak_bytes <= budget and exploration.standing.fit is BudgetStanding.BEST
    assert "a schedule; no bound says how good" in panel._status.text() and "Best" in panel._details.text()
    exploration.add_bound(budget, exploration.shown.cost)
    assert exploration.shown.optimal and "optimal, proved" in panel._status.text()


def test_the_first_solve_says_what_happens_and_what_is_on_screen(window, exploration, qtbot) -> None:
    panel = window.explorer.solving
    exploration.set_graph(training_chain(12))  # without a solver process, so that nothing else happens
    exploration.set_budget(exploration.plain.peak_bytes // 2)
    exploration.begin_solve(1)
    window.session.solving._on_received(Preparing(COMPILING, False))
    assert exploration.standing.fit is BudgetStanding.SOUGHT
    assert "no schedule known yet" in panel._status.text()
    words = f"{COMPILING.capitalize()}. Until then, simple strategies are tried."
    assert plain(panel._details.text()) == words
    head, below, above = said(window)
    assert "None known yet" in head and below.startswith("On screen: keep everything")
    assert "until one is known that fits" in below and "Over the budget" in above


def test_infeasible_says_every_part_and_leads_out(window, exploration, qtbot, chain_open) -> None:
    panel = window.explorer.solving
    solve(window, qtbot, "5%")
    graph, need = exploration.graph, working_set_bound(exploration.graph)
    assert exploration.standing.fit is BudgetStanding.IMPOSSIBLE and exploration.shown is exploration.known[0]
    text = plain(panel._details.text())
    assert text == why_nothing_fits(graph, exploration.solve.tightest) and "…" not in text
    assert text.endswith(".") and format_bytes(need.bytes) in text
    inside = panel._details
    assert inside.heightForWidth(inside.width()) <= inside.height()  # no line is cut off
    least = exploration.known[0].peak_bytes
    qtbot.mouseClick(button(window, f"Use {format_bytes(least)}"), Qt.MouseButton.LeftButton)
    assert exploration.budget_bytes == least and exploration.standing.fit is BudgetStanding.BEST


def test_show_the_op_lists_its_need_value_by_value(window, exploration, qtbot, chain_open) -> None:
    inspector = window.explorer.inspector
    solve(window, qtbot, "5%")
    tightest = exploration.solve.tightest
    qtbot.mouseClick(button(window, "Show the op"), Qt.MouseButton.LeftButton)
    assert window.selection.op == tightest.op
    rows = inspector.need.rows
    assert sum(row.bytes for row in rows) == tightest.bytes == working_set_bound(exploration.graph).bytes
    assert {exploration.graph.values[value].name for value in tightest.values} <= {row.name for row in rows}
    assert f"{format_bytes(tightest.bytes)}" in inspector.need.title.text()
    qtbot.waitUntil(lambda: not inspector.need.title.visibleRegion().isEmpty())  # scrolled to
    figures = [figure.text() for *_, figure in inspector.need.lines if not figure.isHidden()]
    assert figures == [format_bytes(row.bytes) for row in rows]


def test_the_parts_of_a_need_add_up() -> None:
    for seed in range(6):
        graph = training_dag(seed, 20)
        for bound in (working_set_bound(graph), run_once_bound(replace(graph, ops=_all_once(graph)))):
            tightest = Tightest(bound.op, bound.values, bound.bytes, bound.at_end)
            rows = rows_at_end(graph, tightest) if bound.at_end else rows_of_op(graph, bound.op, tightest)
            assert sum(row.bytes for row in rows) == bound.bytes
        assert max(op_need(graph, op).bytes for op in range(graph.n)) <= working_set_bound(graph).bytes


def _all_once(graph):
    return tuple(replace(op, recomputable=False) for op in graph.ops)


def test_the_plot_of_an_aim_names_its_unit_and_always_has_a_figure(window, exploration) -> None:
    solving = window.explorer.solving
    exploration.set_graph(training_chain(12))
    exploration.set_aim(Aim(0.05))
    exploration.begin_solve(1)
    for first in (166, 178, 192, 230, 310):
        exploration.solve.best = [(0.0, first * 2.0**20), (1.0, 165.5 * 2**20)]
        exploration.solve.bounds = [(0.0, 157.0 * 2**20)]
        exploration.solve_changed.emit()
        (ticks,) = solving._plot.getPlotItem().getAxis("left")._tickLevels
        assert ticks and all(text.endswith(" MiB") for _, text in ticks)
