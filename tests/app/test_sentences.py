from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QStatusTipEvent
from PySide6.QtWidgets import QApplication, QLabel

from app.presenters.op_page import facts
from app.presenters.wording import as_sentence
from app.views.dialogs.export_dialog import ExportDialog
from checkmate.ir import GraphBuilder, Phase
from checkmate.units import format_bytes, parse_bytes
from tests.app.windows import link_texts, open_chain, training_chain


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("use a smaller batch or budget", "Use a smaller batch or budget."),
        ("cannot write /tmp/x.png", "Cannot write /tmp/x.png."),
        ("op 'a' needs 3 GiB (with b)", "Op 'a' needs 3 GiB (with b)."),
        ("Nothing was lost.", "Nothing was lost."),
        ("working…", "Working…"),
        ("model.keras is not there", "model.keras is not there."),
        ("--allow-code runs it", "--allow-code runs it."),
        ("start the window with: checkmate explore", "Start the window with: checkmate explore"),
        ("pip install 'checkmate-explorer[dask]'", "pip install 'checkmate-explorer[dask]'."),
        ("", ""),
    ],
)
def test_messages_of_the_command_line_become_sentences(message: str, sentence: str) -> None:
    assert as_sentence(message) == sentence


def test_the_export_asks_for_the_budget_as_the_panel_writes_it(window, qtbot) -> None:
    open_chain(window, qtbot)
    exploration, panel = window.session.exploration, window.explorer.budget
    # The next budget that is rounded down: it was written rounded up in the dialog.
    sizes = itertools.count(2 * exploration.plain.peak_bytes)
    budget = next(size for size in sizes if parse_bytes(format_bytes(size)) < size)
    exploration.set_budget(budget)
    dialog = ExportDialog(window.session, window.theme, window)
    assert dialog._budget.text() == f"{panel._figure.text()} {panel._unit.text()}" == format_bytes(budget)
    assert dialog._asked().bytes_ == budget


def test_a_schedule_without_repeats_costs_nothing_more(window, qtbot) -> None:
    """Test that the sum of the costs in another order is not written -0.0 %."""
    graph = training_chain()
    thirds = tuple(dataclasses.replace(op, cost=op.cost / 3) for op in graph.ops)
    window.session.use_graph(dataclasses.replace(graph, ops=thirds))
    plain = window.session.exploration.plain
    assert plain.overhead == 0.0 and math.copysign(1.0, plain.overhead) > 0
    found = dataclasses.replace(plain, point=dataclasses.replace(plain.point, cost=plain.cost * (1 - 1e-15)))
    assert found.cost < plain.cost and f"{found.overhead:+.1f}" == "+0.0"
    dialog = ExportDialog(window.session, window.theme, window)
    said = [label.text() for label in dialog.findChildren(QLabel)]
    assert f"Peak {format_bytes(plain.peak_bytes)} predicted, +0\u00a0% step cost" in said


def test_a_notice_and_a_refusal_are_sentences(window, qtbot) -> None:
    window.session.exploration.set_graph(training_chain(12))
    window.session.failed.emit("cannot write /tmp/x", "choose another place")
    assert window.notice.text == "Cannot write /tmp/x. Choose another place."
    field = window.explorer.budget._entry
    qtbot.keyClicks(field, "much")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    said = window.explorer.budget._problem.text()
    assert said[0].isupper() and said.endswith(".")


def test_a_menu_that_clears_the_status_does_not_lose_the_step(window, qtbot) -> None:
    window.session.exploration.set_graph(training_chain())
    window.playhead.seek(3)
    said = window.statusBar().currentMessage()
    QApplication.sendEvent(window, QStatusTipEvent(""))  # as the pointer over a menu does
    assert window.statusBar().currentMessage() == said and said.startswith("Step 4 of")


def test_an_ops_page_cuts_nothing_and_says_how_much_it_leaves_out(window, exploration, qtbot) -> None:
    builder = GraphBuilder("fan")
    value = builder.value("a_value_with_a_rather_long_name/and_a_scope:0", 2**20)
    builder.op("source/with/a/long/scope/and_a_long_name_of_its_own", [], [value], cost=1.0, group="layer")
    for number in range(9):
        out = builder.value(f"out{number}", 2**20, keep=True)
        name = f"scope{number}/a_reader_with_a_long_name/and_its_own_name_{number}"
        builder.op(name, [value], [out], cost=1.0, phase=Phase.BACKWARD)
    inspector = window.explorer.inspector
    exploration.set_graph(builder.build())
    plain = exploration.plain.schedule.steps.tolist()
    steps = np.asarray([step for reader in plain[1:] for step in (0, reader)])
    again = exploration.what_if.listed(steps, budget_bytes=2**40, solver="by hand", seconds=0.0)
    exploration.show(again)
    window.selection.select(0)
    rows = dict(facts(exploration.shown, 0))
    assert rows["computed"] == "↻ 9 times, at steps 1, 3, 5, 7, 9, 11 and 3 more"
    assert link_texts(inspector.readers)[-1][1] == "3 more times, last at step 18"
    texts = [one for one in inspector._area.findChildren(QLabel) if one.isVisible() and one.wordWrap()]
    assert len(texts) > 3
    qtbot.waitUntil(lambda: all(one.heightForWidth(one.width()) <= one.height() for one in texts))
