"""Test that recent explorations open again with everything found.

The window says if a file has changed since.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from PySide6.QtWidgets import QPushButton

from app.models.recovery import Recent, Recovery
from app.models.session import Session
from app.theme import CurrentTheme, ThemeChoice
from app.views.window.main_window import MainWindow
from checkmate.formats import write_graph
from checkmate.machine.cost_origin import file_facts
from tests.app.test_recovery import explore
from tests.app.windows import training_chain


def opened(qtbot, folder: Path) -> MainWindow:
    session, recent = Session(), Recent(folder / "recent")
    recovery = Recovery(
        session.exploration, session.solving.graph_body, folder / "sessions", session, recent=recent
    )
    made = MainWindow(session, CurrentTheme(ThemeChoice.LIGHT), recovery=recovery, recent=recent)
    qtbot.addWidget(made, before_close_func=lambda w: w.session.close())
    return made


def test_an_exploration_that_was_closed_opens_from_the_start_page(qtbot, tmp_path: Path) -> None:
    window = opened(qtbot, tmp_path)
    with qtbot.waitSignal(window.recovery.saved, timeout=10000):
        explore(window)
    known = [(found.peak_bytes, found.cost) for found in window.session.exploration.known]
    window.close()
    assert list((tmp_path / "sessions").iterdir()) == []
    other = opened(qtbot, tmp_path)
    link = next(found for found in other.findChildren(QPushButton) if found.accessibleName() == "Open chain")
    link.click()
    assert [(found.peak_bytes, found.cost) for found in other.session.exploration.known] == known


def test_opening_another_graph_keeps_the_one_before(qtbot, tmp_path: Path) -> None:
    window = opened(qtbot, tmp_path)
    with qtbot.waitSignal(window.recovery.saved, timeout=10000):
        explore(window)
    window.session.exploration.set_graph(replace(training_chain(5), name="a/b?"))
    assert [entry.name for entry in Recent(tmp_path / "recent").entries()] == ["chain"]
    qtbot.waitSignal(window.recovery.saved, timeout=10000).wait()
    window.close()
    assert [entry.name for entry in Recent(tmp_path / "recent").entries()] == ["a/b?", "chain"]


def test_the_newest_of_each_name_is_kept(tmp_path: Path) -> None:
    recent = Recent(tmp_path / "recent")
    for number, name in enumerate("abcdefgab"):
        path = tmp_path / "saved"
        path.write_text(f"{number}")
        os.utime(path, (number, number))
        recent.keep(path, name)
        assert not path.exists()
    assert [(entry.name, entry.path.read_text()) for entry in recent.entries()] == [
        ("b", "8"), ("a", "7"), ("g", "6"), ("f", "5"), ("e", "4"), ("d", "3"),
    ]  # fmt: skip


def test_a_file_goes_if_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "recent").write_text("not a folder")
    (tmp_path / "saved").write_text("x")
    Recent(tmp_path / "recent").keep(tmp_path / "saved", "a")
    assert not (tmp_path / "saved").exists()


def test_a_changed_model_has_a_notice_and_can_be_profiled_again(
    window, qtbot, tmp_path: Path, monkeypatch
) -> None:
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
