from __future__ import annotations

import dataclasses
import os
import signal

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel

from app.presenters.export_result import problem_report
from app.views.window.start_page import ProfilingPanel
from checkmate.ir import CostOrigin, CostUnit
from checkmate.request import ModelRequest
from checkmate.workers.window_messages import ProfiledGraph
from tests.app.windows import open_chain, training_chain

pytestmark = pytest.mark.heavy  # each opens a window, and a solver with it


def test_a_file_that_does_not_open_is_reported_above_the_exploration(window, qtbot, tmp_path) -> None:
    open_chain(window, qtbot)
    graph, bad = window.session.exploration.graph, tmp_path / "bad.json"
    assert window.notice.isHidden()
    bad.write_text('{"format": "x"}')
    with qtbot.waitSignal(window.session.failed, timeout=20000):
        window.open(str(bad))
    assert window.notice.isVisible() and str(bad) in window.notice.text
    assert window.session.exploration.graph is graph and window.explorer.isVisible()
    window.notice.copy.click()
    report = QApplication.clipboard().text()
    assert report.startswith(f"{bad}: ") and "Checkmate Explorer " in report
    assert f"graph: chain, {graph.n} ops" in report
    window.notice.dismiss.click()
    assert window.notice.isHidden()


def test_costs_from_a_busy_machine_can_be_measured_again(window, qtbot, monkeypatch) -> None:
    reading = {"load": 1.4, "cores": 2, "spread": 0.18, "doubtful_ops": 9, "doubtful_share": 1.0}
    busy = dataclasses.replace(
        training_chain(5),
        cost_unit=CostUnit.SECONDS,
        cost_origin=CostOrigin.MEASURED,
        metadata={"profile": {"reading": reading}, "request": ModelRequest("unet", batch_size=8).to_json()},
    )
    window.session.exploration.set_graph(busy)
    assert window.notice.isVisible()
    assert "other programs took 1.4 of 2 cores, spread 18 %" in window.notice.text
    assert "doubtful" in window._facts.text() and "busy machine" in window._facts.toolTip()
    asked = []
    monkeypatch.setattr(window.session, "profile", lambda request, **_: asked.append(request))
    window.notice.action.click()
    assert [request.model for request in asked] == ["unet"]
    calm = {**reading, "load": 0.0, "spread": 0.02, "doubtful_ops": 0, "doubtful_share": 0.0}
    quiet = {"profile": {"reading": calm}}
    window.session.exploration.set_graph(dataclasses.replace(busy, metadata={**busy.metadata, **quiet}))
    assert window.notice.isHidden() and "doubtful" not in window._facts.text() and not window._facts.toolTip()


def test_the_end_of_the_log_is_part_of_a_report(tmp_path) -> None:
    log = tmp_path / "window.log"
    log.write_text("\n".join(f"line {number}" for number in range(100)))
    report = problem_report("That failed.", "", None, log).splitlines()
    assert report[0] == "That failed." and report[-1] == "line 99" and "line 60" in report
    assert "line 59" not in report
    assert "end of" not in problem_report("That failed.", "", None, tmp_path / "none")


def test_a_cancelled_profile_leaves_the_exploration_on_screen(window, qtbot) -> None:
    pytest.importorskip("tensorflow")
    open_chain(window, qtbot)
    window.open("unet")
    assert not window.explorer.isVisible()
    with qtbot.waitSignal(window.session.device_ended, timeout=60000):
        window.session.cancel_device()
    assert window.explorer.isVisible() and window.session.exploration.graph.name == "chain"


def profiled(window, body: bytes = b"{}") -> None:
    """Act as if the device process had profiled something and sent ``body``."""
    window._stack.setCurrentWidget(window._start)
    window._start.show_work("unet")
    window.session._working, window.session.device.job = True, 7
    window.session.device._on_received(ProfiledGraph(7, False, body))
    assert window.session.device_busy


def test_a_profile_that_is_being_opened_can_be_cancelled(window, qtbot, chain_open) -> None:
    profiled(window)
    window.session.cancel_device()
    assert window.explorer.isVisible() and not window.session.device_busy
    qtbot.wait(100)
    assert window.notice.isHidden()


def test_a_solver_that_dies_does_not_hide_a_first_profile(window, qtbot) -> None:
    window._stack.setCurrentWidget(window._start)
    window._start.show_work("unet")
    window.session._working = True
    window.session.solver.start()
    qtbot.waitUntil(lambda: window.session.solver.pid > 0, timeout=20000)
    with qtbot.waitSignal(window.session.noticed, timeout=20000):
        os.kill(window.session.solver.pid, signal.SIGKILL)
    window.session.failed.emit("That failed.", "Try this.")
    assert window._start.work.isVisible() and window.notice.text == "That failed. Try this."


def test_errors_end_as_the_budget_moves_but_choices_stay(window, exploration, qtbot, chain_open) -> None:
    window.session.failed.emit("That failed.", "Try this.")
    exploration.set_budget(exploration.budget_bytes - 1)
    assert window.notice.isHidden()
    window.notice.say("That has changed.", "", ("Again", window.notice.hide))
    exploration.set_budget(exploration.budget_bytes - 1)
    assert window.notice.isVisible()


def test_a_choice_that_was_dismissed_does_not_come_back_but_failures_do(window, qtbot, chain_open) -> None:
    notice, asked = window.notice, list[str]()

    def offer(sentence: str) -> bool:
        notice.hide()
        notice.say(sentence, "A hint.", ("Again", lambda: asked.append(sentence)))
        return notice.isVisible()

    assert offer("that has changed.") and offer("that has changed.")
    qtbot.mouseClick(notice.dismiss, Qt.MouseButton.LeftButton)
    assert not offer("that has changed.") and offer("this has changed.")
    for _ in range(2):
        window.session.failed.emit("That failed.", "Try this.")
        assert notice.isVisible()
        qtbot.mouseClick(notice.dismiss, Qt.MouseButton.LeftButton)
    assert offer("this has changed.")


def test_the_curve_of_a_solve_that_costs_nothing_extra_has_readable_ticks(window, qtbot, chain_open) -> None:
    window.session.exploration.set_budget(window.session.exploration.plain.peak_bytes)
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        window.session.solve()
    panel = window.explorer.solving
    ticks = panel._plot.getPlotItem().getAxis("left")._tickLevels[0]
    assert "0 %" in [text for _, text in ticks] and not any("e-" in text for _, text in ticks)


def test_each_step_of_a_profile_has_its_seconds(qtbot, monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("app.views.common.phase_list.time.monotonic", lambda: now[0])
    page = ProfilingPanel()
    qtbot.addWidget(page)
    page.begin("unet")
    now[0] = 103.0
    page.phases.show_progress("trace", "tracing", 0, 0)
    now[0] = 110.0
    page.phases.show_progress("measure", "run 1", 1, 4)
    now[0] = 112.0
    page.phases.show_progress("measure", "run 2", 2, 4)
    seconds = [label.text() for label in page.findChildren(QLabel) if label.text().endswith(" s")]
    assert seconds == ["3 s", "7 s", "0 s", "2 s"]


def test_names_in_a_notice_are_text_not_markup(window, qtbot, chain_open) -> None:
    window.session.failed.emit("<i>a&b</i>: no.", "Try <b>.")
    shown = [label.text() for label in window.notice.findChildren(QLabel)]
    assert window.notice.text == "<i>a&b</i>: no. Try <b>."
    assert len(shown) == 1 and "&lt;i&gt;a&amp;b&lt;/i&gt;" in shown[0] and "Try &lt;b&gt;." in shown[0]
