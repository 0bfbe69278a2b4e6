from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QMainWindow

from app.views.common.texts import Link
from app.views.common.widgets import ask_target


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space])
def test_a_key_follows_a_link_on_any_desktop(qtbot, key) -> None:
    window, link = QMainWindow(), Link()
    window.setCentralWidget(link)
    qtbot.addWidget(window)
    window.show()
    with qtbot.waitSignal(link.clicked, timeout=2000):
        qtbot.keyClick(link, key)


def test_an_ending_is_added_where_that_replaces_no_file(qtbot, monkeypatch, tmp_path) -> None:
    window, given = QMainWindow(), tmp_path / "plot"
    qtbot.addWidget(window)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(given), "Pictures (*.png *.svg)"))
    assert ask_target(window, "Save", "plot.png", "") == tmp_path / "plot.png"
    (tmp_path / "plot.png").touch()
    assert ask_target(window, "Save", "plot.png", "") == given
    given = tmp_path / "plot.svg"
    assert ask_target(window, "Save", "plot.png", "") == given
