from __future__ import annotations

from app.models.exploration import Exploration
from app.theme import CurrentTheme, ThemeChoice
from app.views.panels.solving_panel import SolvingPanel
from checkmate.workers.window_messages import Preparing
from tests import graphs_strategies
from tests.app.windows import training_chain


def test_the_plot_keeps_its_place_while_a_new_solve_knows_nothing_yet(qtbot) -> None:
    exploration = Exploration()
    panel = SolvingPanel(exploration, CurrentTheme(ThemeChoice.LIGHT))
    qtbot.addWidget(panel)
    exploration.set_graph(graphs_strategies.training_chain(6))
    plain = exploration.budget_bytes
    exploration.set_budget(plain // 2)
    exploration.begin_solve(1)
    assert not exploration.solve.best and panel._plot.isHidden()  # nothing was plotted yet
    exploration.set_budget(plain)
    exploration.begin_solve(2)
    assert exploration.solve.best and not panel._plot.isHidden()
    axis = panel._plot.getPlotItem().getAxis("left")
    assert axis._tickLevels
    exploration.set_budget(plain // 2)  # and nothing solves for it yet
    assert not panel._plot.isHidden() and not axis._tickLevels
    exploration.begin_solve(3)
    assert not exploration.solve.best and not panel._plot.isHidden()
    assert panel._best.getData()[0] is None or not len(panel._best.getData()[0])
    assert not axis._tickLevels  # no figures of the solve before
    exploration.solve.status = "limit"
    exploration.solve_changed.emit()
    assert panel._plot.isHidden()


SENTENCE = "compiling the search, once for this machine: 3 s"


def test_the_panel_shows_the_progress(window, qtbot) -> None:
    solving, panel = window.session.solving, window.explorer.solving
    solving._on_received(Preparing(SENTENCE, False))
    assert panel._details.text() == SENTENCE.capitalize()
    solving._on_received(Preparing("compiled the search, once for this machine, in 12 s", True))
    assert "ompiling" not in panel._details.text()
    assert window.statusBar().currentMessage() == "Compiled the search, once for this machine, in 12 s."


def test_a_running_solve_shows_it_beside_its_best_schedule(window, exploration, qtbot) -> None:
    solving = window.session.solving
    exploration.set_graph(training_chain(6))  # without a solver process, so that nothing else happens
    exploration.begin_solve(1)
    solving._on_received(Preparing(SENTENCE, False))
    details = window.explorer.solving._details.text().replace("\u00a0", " ")
    assert details.startswith(f"{SENTENCE.capitalize()}. Until then, simple strategies are tried. Best ")
    solving._on_received(Preparing("compiled the search", True))
    assert "ompiling" not in window.explorer.solving._details.text()
