"""Test hours of use in short: nothing stays, Qt does not complain."""

from __future__ import annotations

import time

import pytest
from PySide6.QtCore import qWarning
from PySide6.QtWidgets import QApplication

from tests.app.windows import open_chain
from tests.benchmarks.long_use import FEW, Use, fill_tables, grown, measure, slope
from tests.benchmarks.probe import QtLog, StallProbe


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


def test_growth_is_told_from_noise() -> None:
    flat = [{"moves": 10 * k, "rss_mb": 100.0 + k % 2, "widgets": 300 + 15 * (k % 3)} for k in range(40)]
    leak = [{**row, "rss_mb": 100 + 0.05 * row["moves"], "widgets": row["moves"]} for row in flat]
    assert abs(slope(flat, "rss_mb")) < 1 and grown(flat, "widgets") == 0
    assert slope(leak, "rss_mb") == pytest.approx(50) and grown(leak, "widgets") > 100
    assert slope(flat[:1], "rss_mb") == 0


def test_the_probe_sees_a_stall_and_its_cause(qtbot) -> None:
    probe = StallProbe()
    probe.start()
    qtbot.wait(60)
    time.sleep(0.12)  # held up, without work
    qtbot.wait(60)
    waited = probe.stop()
    assert waited["stall_ms"]["worst"] > 100 > waited["own_work_ms"]["worst"] + 20
    probe.start()
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass
    qtbot.wait(60)
    assert probe.stop()["own_work_ms"]["worst"] >= 95


@pytest.mark.qt_log_ignore("said on purpose")
def test_the_log_keeps_warnings(qapp) -> None:
    with QtLog() as log:
        qWarning("said on purpose")
    assert log.warnings == ["said on purpose"]
