from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from tests.app.windows import open_chain
from tests.benchmarks.long_use import FEW, Use, fill_tables, measure


@pytest.mark.heavy
def test_use_leaves_nothing_in_memory(qapp) -> None:
    found = measure(Use(moves=40, solves=3, opens=10))
    assert (found["moves"], found["solves"], found["opens"]) == (40, 3, 10)
    assert found["warnings"] == [] and found["problems"] == []
    assert found["verdict"]["no_orphans"] and found["verdict"]["every_solve_settled"]
    assert max(found["grown"].values()) <= FEW, found["grown"]


def test_no_op_adds_a_row_to_full_tables(window, qtbot) -> None:
    open_chain(window, qtbot)
    shown = window.session.exploration.shown
    fill_tables(window)
    window.selection.select(shown.graph.n - 1)
    rows = len(QApplication.allWidgets())
    for op in range(shown.graph.n):
        window.selection.select(op)
    assert len(QApplication.allWidgets()) == rows
