"""Test that the window says when the search is being compiled.

The message goes when that is over or the process has ended.
"""

from __future__ import annotations

from checkmate.workers.messages import Preparing
from tests.graphs_strategies import training_chain

SENTENCE = "compiling the search, once for this machine: 3 s"


def test_the_panel_shows_the_progress(window, qtbot) -> None:
    solving, panel = window.session.solving, window.explorer.solving
    solving._on_received(Preparing(SENTENCE, False))
    assert panel._details.text() == SENTENCE.capitalize()
    solving._on_received(Preparing("compiled the search, once for this machine, in 12 s", True))
    assert "ompiling" not in panel._details.text()
    assert window.statusBar().currentMessage() == "Compiled the search, once for this machine, in 12 s."


def test_a_running_solve_shows_it_beside_its_best_schedule(window, qtbot) -> None:
    exploration, solving = window.session.exploration, window.session.solving
    exploration.set_graph(training_chain(6))  # without a solver process, so that nothing else happens
    exploration.begin_solve(1)
    solving._on_received(Preparing(SENTENCE, False))
    details = window.explorer.solving._details.text().replace("\u00a0", " ")
    assert details.startswith(f"{SENTENCE.capitalize()}. Until then, simple strategies are tried. Best ")
    solving._on_received(Preparing("compiled the search", True))
    assert "ompiling" not in window.explorer.solving._details.text()
