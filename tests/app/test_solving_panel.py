"""Test that the solving panel keeps its plot between solves."""

from __future__ import annotations

from app.models.exploration import Exploration
from app.theme import CurrentTheme, ThemeChoice
from app.views.panels.solving_panel import SolvingPanel
from tests.app.windows import training_chain


def test_the_plot_keeps_its_place_while_a_new_solve_knows_nothing_yet(qtbot) -> None:
    exploration = Exploration()
    panel = SolvingPanel(exploration, CurrentTheme(ThemeChoice.LIGHT))
    qtbot.addWidget(panel)
    exploration.set_graph(training_chain(6))
    plain = exploration.budget_bytes
    exploration.set_budget(plain // 2)
    exploration.begin_solve(1)
    assert not exploration.solve.best and panel._plot.isHidden()  # nothing was plotted yet
    exploration.set_budget(plain)
    exploration.begin_solve(2)
    assert exploration.solve.best and not panel._plot.isHidden()
    exploration.set_budget(plain // 2)
    exploration.begin_solve(3)
    assert not exploration.solve.best and not panel._plot.isHidden()
    assert panel._best.getData()[0] is None or not len(panel._best.getData()[0])
    assert not panel._plot.getPlotItem().getAxis("left")._tickLevels  # no figures of the solve before
    exploration.solve.status = "limit"
    exploration.solve_changed.emit()
    assert panel._plot.isHidden()
