from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QPushButton

from app.models.recovery import Recent, Recovery
from app.models.session import Session
from app.presenters.schedule_rows import grouped
from app.state.knowledge import is_baseline
from app.state.saved import OwnSchedule
from app.theme import CurrentTheme, ThemeChoice
from app.views.window.main_window import MainWindow
from checkmate import planning
from checkmate.formats import write_graph
from checkmate.formats.exploration import read_exploration
from checkmate.ir.result import MeasuredSchedule
from checkmate.machine.cost_origin import file_facts
from tests.app.test_window import facts
from tests.app.windows import smaller, training_chain

PATIENCE_S = 60.0


@pytest.fixture
def opened(qtbot):
    def make(folder: Path, recent: Recent | None = None) -> MainWindow:
        session = Session(recent=recent)
        recovery = Recovery(session.exploration, folder, session, recent=recent)
        made = MainWindow(session, CurrentTheme(ThemeChoice.LIGHT), recovery=recovery, recent=recent)
        qtbot.addWidget(made, before_close_func=lambda w: w.session.close())
        return made

    return make


def explore(window: MainWindow) -> None:
    exploration = window.session.exploration
    exploration.set_graph(training_chain())
    smaller(exploration)
    exploration.add_bound(exploration.plain.peak_bytes // 4, None)
    exploration.set_budget(exploration.known[0].peak_bytes)


def test_an_exploration_is_saved_by_itself_until_its_window_is_closed(opened, qtbot, tmp_path: Path) -> None:
    window = opened(tmp_path / "deep" / "folder")
    with qtbot.waitSignal(window.recovery.saved, timeout=10000):
        explore(window)
    assert "Saved" in window._saved.text() and window.recovery.path.is_file()
    saved = read_exploration(window.recovery.path)
    assert saved.budget_bytes == window.session.exploration.budget_bytes and len(saved.schedules) == 2
    window.close()
    assert list((tmp_path / "deep" / "folder").iterdir()) == []


def test_windows_leave_each_other_alone(opened, qtbot, tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    for window in (first, second):
        with qtbot.waitSignal(window.recovery.saved, timeout=10000):
            explore(window)
    assert first.recovery.path != second.recovery.path and second.recovery.orphans() == []
    assert not second.restore() and "nothing to restore" in second.statusBar().currentMessage()


KILLED = """
import sys, os
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from app.models.recovery import Recovery
from app.models.session import Session
from app.theme import CurrentTheme, ThemeChoice
from app.views.window.main_window import MainWindow
application = QApplication([])
session = Session()
recovery = Recovery(session.exploration, Path(sys.argv[1]), session)
window = MainWindow(session, CurrentTheme(ThemeChoice.LIGHT), recovery=recovery)
window.show()
window.open(sys.argv[2])
def on_saved(at):
    print("saved", len(session.exploration.known), session.solver.pid, flush=True)
recovery.saved.connect(on_saved)
application.exec()
"""


@pytest.mark.heavy
def test_killed_window_is_restored_with_all_that_was_known(opened, qtbot, tmp_path: Path) -> None:
    folder, graph = tmp_path / "sessions", tmp_path / "chain.json"
    write_graph(graph, training_chain())
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-c", KILLED, str(folder), str(graph)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        until, known = time.monotonic() + PATIENCE_S, 0
        while known < 3 and time.monotonic() < until:
            _, known, solver = map(int, process.stdout.readline().replace("saved", "0").split())
        os.kill(process.pid, signal.SIGKILL)
    assert known >= 3
    window = opened(folder)
    saved = read_exploration(window.recovery.orphans()[0].path)
    assert window.restore(by_itself=True)
    exploration = window.session.exploration
    assert exploration.graph.name == "chain" and len(exploration.known) >= 3
    saved_costs = {result.cost for result in saved.schedules if not is_baseline(result.solver)}
    assert saved_costs <= {found.cost for found in exploration.known}
    assert "did not close" in window.statusBar().currentMessage()
    # Its solver process ended with it.
    qtbot.waitUntil(lambda: not Path(f"/proc/{solver}").exists(), timeout=10000)
    window.close()
    assert list(folder.iterdir()) == []


def test_restored_exploration_is_the_same(opened, qtbot, tmp_path: Path) -> None:
    first = opened(tmp_path)
    with qtbot.waitSignal(first.recovery.saved, timeout=10000):
        explore(first)
    wanted = facts(first.session.exploration)
    first.recovery._lock.unlock()  # as the system does when a process dies
    second = opened(tmp_path)
    assert second.restore()
    assert facts(second.session.exploration) == wanted


@pytest.mark.heavy
def test_an_exploration_that_kills_windows_is_not_restored_for_ever(opened, qtbot, tmp_path: Path) -> None:
    first = opened(tmp_path)
    with qtbot.waitSignal(first.recovery.saved, timeout=10000):
        explore(first)
    first.recovery._lock.unlock()
    for expected in (True, True, False):
        again = opened(tmp_path)
        assert again.restore(by_itself=True) is expected
        if again.recovery._lock is not None:
            again.recovery._lock.unlock()
    assert opened(tmp_path).restore()  # but a user who asks for it gets it


def test_a_damaged_file_is_one_sentence(opened, tmp_path: Path) -> None:
    (tmp_path / "1-0.exploration.json.gz").write_bytes(b"nonsense")
    window, failures = opened(tmp_path), []
    window.session.failed.connect(lambda sentence, hint: failures.append(sentence))
    assert not window.restore(by_itself=True)
    assert len(failures) == 1


def test_a_folder_that_cannot_be_written_is_reported_once(opened, qtbot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    window, said = opened(tmp_path / "file"), []
    window.recovery.failed.connect(said.append)
    with qtbot.waitSignal(window.recovery.failed, timeout=10000):
        explore(window)
    window.recovery._save()
    assert len(said) == 1 and "cannot be saved" in said[0]


def test_an_exploration_that_was_closed_opens_from_the_start_page(opened, qtbot, tmp_path: Path) -> None:
    window = opened(tmp_path / "sessions", Recent(tmp_path / "recent"))
    with qtbot.waitSignal(window.recovery.saved, timeout=10000):
        explore(window)
    known = [(found.peak_bytes, found.cost) for found in window.session.exploration.known]
    window.close()
    assert list((tmp_path / "sessions").iterdir()) == []
    other = opened(tmp_path / "sessions", Recent(tmp_path / "recent"))
    link = next(found for found in other.findChildren(QPushButton) if found.accessibleName() == "Open chain")
    link.click()
    assert [(found.peak_bytes, found.cost) for found in other.session.exploration.known] == known


def test_opening_another_graph_keeps_the_one_before(opened, qtbot, tmp_path: Path) -> None:
    window = opened(tmp_path / "sessions", Recent(tmp_path / "recent"))
    with qtbot.waitSignal(window.recovery.saved, timeout=10000):
        explore(window)
    assert window._saved.text()
    window.session.exploration.set_graph(replace(training_chain(5), name="a/b?"))
    assert not window._saved.text()  # of this one, nothing is saved yet
    assert [entry.name for entry in Recent(tmp_path / "recent").entries()] == ["chain"]
    qtbot.waitSignal(window.recovery.saved, timeout=10000).wait()
    window.close()
    assert [entry.name for entry in Recent(tmp_path / "recent").entries()] == ["a/b?", "chain"]


def pinned_and_named(window: MainWindow) -> set[tuple[str, bool]]:
    return {(entry.name, entry.pinned) for entry in window.session.exploration.listing.own if entry.touched}


def pin(window: MainWindow, name: str) -> None:
    listing, found = window.session.exploration.listing, window.session.exploration.known[0]
    listing.put(found.key, OwnSchedule(found, name=name, pinned=True))


def test_a_graph_that_is_opened_again_goes_on_where_it_was_left(opened, qtbot, tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    write_graph(one, training_chain())
    write_graph(two, training_chain(7))  # of the same name
    window = opened(tmp_path / "sessions", Recent(tmp_path / "recent"))
    window.open(str(one))
    smaller(window.session.exploration)
    pin(window, "good")
    asked = window.session.exploration.known[0].peak_bytes
    window.session.exploration.set_budget(asked)
    window.open(str(two))  # at once: nothing was saved by itself yet
    assert not pinned_and_named(window) and window.session.exploration.graph.n != training_chain().n
    pin(window, "other")
    window.open(str(one))
    assert pinned_and_named(window) == {("good", True)}
    assert window.session.exploration.budget_bytes == asked
    window.open(str(one))  # it is on screen already
    assert pinned_and_named(window) == {("good", True)}
    window.close()
    assert len(Recent(tmp_path / "recent").entries()) == 2
    other = opened(tmp_path / "sessions", Recent(tmp_path / "recent"))
    other.open(str(two))
    assert pinned_and_named(other) == {("other", True)}
    dearer = training_chain()
    dearer = replace(dearer, ops=tuple(replace(op, cost=2 * op.cost) for op in dearer.ops))
    write_graph(one, dearer)  # it was profiled again
    other.open(str(one))
    assert pinned_and_named(other) == {("good", True)}
    assert other.session.exploration.plain.cost == dearer.base_cost


def marked(window: MainWindow) -> set[int]:
    rows = (row for rows in grouped(window.session.exploration.what_if, []).values() for row in rows)
    return {row.found.peak_bytes for row in rows if row.detail == "over its budget when it was exported"}


def test_the_playhead_and_what_an_export_found_come_back(opened, qtbot, tmp_path: Path) -> None:
    path, folders = tmp_path / "one.json", (tmp_path / "sessions", Recent(tmp_path / "recent"))
    write_graph(path, training_chain())
    window = opened(*folders)
    window.open(str(path))
    exploration = window.session.exploration
    for share in (0.75, 0.6):
        budget = int(share * exploration.plain.peak_bytes)
        found = planning.solve(exploration.graph, budget, solver="greedy")
        exploration.add(found.schedule.steps, budget_bytes=found.budget_bytes, solver="greedy", seconds=0.0)
    small, asked = exploration.known[:2]
    exploration.set_budget(asked.peak_bytes)
    steps = tuple(small.schedule.steps.tolist())
    measured = MeasuredSchedule(steps, (1,) * len(steps), asked.peak_bytes, 1.0, "cpu")
    exploration.take_measured(measured, small.result(), asked, asked.peak_bytes)
    window.commands["playback.first"].trigger()
    window.commands["playback.next"].trigger()
    assert marked(window) == {asked.peak_bytes} and window.playhead.step == 1
    window.close()
    other = opened(*folders)
    other.open(str(path))
    assert marked(other) == {asked.peak_bytes} and other.playhead.step == 1
    assert other.session.exploration.shown.key == small.key
    other.commands["playback.peak"].trigger()
    other.close()
    again = opened(*folders)
    again.open(str(path))
    assert again.playhead.step == again.session.exploration.shown.timeline.peak_step > 1


def test_the_newest_of_each_name_is_kept(tmp_path: Path) -> None:
    recent = Recent(tmp_path / "recent")
    for number, name in enumerate([*"ab", *map(str, range(98)), *"cab"]):
        path = tmp_path / "saved"
        path.write_text(f"{number}")
        os.utime(path, (number, number))
        recent.keep(path, name)
        assert not path.exists()
    entries = [(entry.name, entry.path.read_text()) for entry in recent.entries()]
    assert len(entries) == 100
    assert entries[:3] == [("b", "102"), ("a", "101"), ("c", "100")] and entries[-1] == ("1", "3")


def test_a_file_goes_if_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "recent").write_text("not a folder")
    (tmp_path / "saved").write_text("x")
    Recent(tmp_path / "recent").keep(tmp_path / "saved", "a")
    assert not (tmp_path / "saved").exists()


def test_a_changed_model_has_a_notice_and_can_be_profiled_again(window, qtbot, tmp_path, monkeypatch) -> None:
    model, path = tmp_path / "net.keras", tmp_path / "graph.json"
    model.write_bytes(b"one")
    request = {"model": str(model), "batch_size": 8}
    metadata = {"request": request, "model_file": file_facts(str(model))}
    write_graph(path, replace(training_chain(5), metadata=metadata))
    window.open(str(path))
    assert window.session.exploration.graph is not None and window.notice.isHidden()
    model.write_bytes(b"two")
    window.open(str(path))
    assert window.notice.text.startswith("net.keras has changed since it was profiled.")
    asked = []
    monkeypatch.setattr(window.session, "profile", lambda request: asked.append(request))
    window.notice.action.click()
    assert [(wanted.model, wanted.batch_size) for wanted in asked] == [(str(model), 8)]
    assert window.notice.isHidden() and not window.explorer.isVisible()
