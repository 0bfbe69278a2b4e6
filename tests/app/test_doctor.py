from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from PySide6.QtGui import QGuiApplication

from app.theme import CurrentTheme, ThemeChoice
from app.views.dialogs.doctor_dialog import DoctorDialog
from tests.app.windows import button, menu_action, said

pytestmark = pytest.mark.heavy  # looks at the machine in processes

ROOT = Path(__file__).resolve().parents[2]


def tensorflow_that(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make children find a ``tensorflow`` that runs ``code`` when imported."""
    (folder / "tensorflow").mkdir()
    (folder / "tensorflow" / "__init__.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT)]))


def opened(window) -> DoctorDialog:
    menu_action(window, "What this machine can do…").trigger()
    return window.findChild(DoctorDialog)


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "look" in " ".join(child.cmdline())]


def test_lines_are_shown_and_copied(window, qtbot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensorflow_that("import os\nos.abort()\n", tmp_path, monkeypatch)
    dialog = opened(window)
    assert dialog.isVisible() and not button(dialog, "Copy").isEnabled() and "Looking" in said(dialog)
    qtbot.waitUntil(lambda: dialog.found is not None and button(dialog, "Copy").isEnabled(), timeout=120000)
    assert "cannot run here yet: see TensorFlow." in said(dialog)
    assert "ended its process while it was imported (SIGABRT, abort)" in said(dialog)
    assert "→ pip install" in said(dialog)
    button(dialog, "Copy").click()
    assert QGuiApplication.clipboard().text() == dialog.found.text()
    button(dialog, "Look again").click()
    assert dialog.found is None and not button(dialog, "Look again").isEnabled()
    qtbot.waitUntil(lambda: dialog.found is not None and button(dialog, "Copy").isEnabled(), timeout=120000)
    dialog.close()


def test_closing_the_dialog_ends_its_processes(window, qtbot, tmp_path, monkeypatch) -> None:
    tensorflow_that("import time\ntime.sleep(600)\n", tmp_path, monkeypatch)
    dialog = opened(window)
    qtbot.waitUntil(lambda: bool(children()), timeout=60000)
    running = children()
    button(dialog, "Close").click()
    assert not psutil.wait_procs(running, timeout=30)[1]
    assert window.isVisible()


def test_it_does_not_run_during_a_measurement(qtbot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensorflow_that("import os\nos.abort()\n", tmp_path, monkeypatch)
    session = SimpleNamespace(device_busy=True)
    dialog = DoctorDialog(CurrentTheme(ThemeChoice.LIGHT), session)
    qtbot.addWidget(dialog)
    dialog.show()
    assert "A model is being measured" in said(dialog) and not children()
    session.device_busy = False
    button(dialog, "Look again").click()
    qtbot.waitUntil(lambda: dialog.found is not None, timeout=120000)
    dialog.stop()
