"""Show a window, open a file in it, print the findings.

The window's benchmarks share this.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from app.models.session import Session
from app.theme import LIGHT, CurrentTheme, ThemeChoice, apply_theme, load_fonts
from app.views.window.main_window import MainWindow
from checkmate.bench.common.machine import this_machine
from checkmate.machine.supported import versions
from tests.benchmarks.long_use import wait

_PATIENCE_S = 120.0


def shown_window() -> MainWindow:
    """Return a new window with its own processes, 1400 x 900."""
    application = QApplication.instance() or QApplication([])
    apply_theme(application, LIGHT, load_fonts())
    window = MainWindow(Session(), CurrentTheme(ThemeChoice.LIGHT))
    window.resize(1400, 900)
    window.show()
    window.prepare()
    return window


def open_file(window: MainWindow, path: Path) -> None:
    """Open a file; wait until it is on screen and the solver knows it."""
    before = window.session.exploration.graph
    window.open(str(path))
    assert wait(lambda: window.session.exploration.graph is not before, _PATIENCE_S)
    assert wait(lambda: "bound_bytes" in window.session.exploration.range, _PATIENCE_S)


def print_found(found: dict[str, Any], output: Path | None) -> None:
    """Print ``found`` as JSON; also write it to a named file."""
    text = json.dumps(found, indent=1)
    if output is not None:
        output.write_text(text + "\n")
    print(text)


def begun(kind: str, command: str) -> dict[str, Any]:
    """Return the head of a file of results, with this machine as it is."""
    return {
        "format": f"checkmate-{kind}",
        "version": 1,
        "command": f"python -m tests.benchmarks.{command}",
        "machine": this_machine().to_json(),
        "made_with": versions(("PySide6", "pyqtgraph", "numpy")),
    }
