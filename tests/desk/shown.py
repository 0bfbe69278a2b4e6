"""The window as a user starts it; it writes where its panels are.

``python -m tests.desk.shown STATE.json [FILE] [--theme light]``

The window itself knows nothing of this: a timer beside it looks where its widgets are, ten times a second.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QRect, QTimer
from PySide6.QtWidgets import QApplication, QComboBox, QLineEdit, QPushButton, QWidget

from app import bootstrap
from app.views.common.paint_turns import visible_part
from app.views.dialogs.export_dialog import ExportDialog
from app.views.window.main_window import MainWindow
from app.views.window.menus import Palette

_EVERY_MS = 100
# Where a panel always has content, in pixels: x, y, width, height. Elsewhere it may well be empty.
_ALWAYS = {"schedules": (4, 0, 30, 30), "solving": (0, 0, 340, 56), "inspector": (0, 0, 340, 84)}
SIZE = (1400, 900)


class Reporter(QObject):
    """Writes to ``path`` where the panels are, and what the window shows."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._written = path, ""
        timer = QTimer(self)
        timer.setInterval(_EVERY_MS)
        timer.timeout.connect(self._look)
        timer.start()

    def _look(self) -> None:
        window = next((one for one in QApplication.topLevelWidgets() if isinstance(one, MainWindow)), None)
        if window is None:
            return
        text = json.dumps(state_of(window))
        if text != self._written:
            self._written = text
            other = self._path.with_suffix(".new")
            other.write_text(text)
            os.replace(other, self._path)


def state_of(window: MainWindow) -> dict[str, Any]:
    """Return where the panels are on the screen, and what the window shows."""
    exploration, dialog = window.session.exploration, QApplication.activeModalWidget()
    return {
        "client": _on_screen(window, window.rect()),
        "panels": {
            name: _on_screen(widget, _counted(name, widget)) for name, widget in _panels(window).items()
        },
        "places": {name: _on_screen(widget, visible_part(widget)) for name, widget in _places(window).items()}
        | _plain_row(window),
        "graph": "" if exploration.graph is None else exploration.graph.name,
        "ops": 0 if exploration.graph is None else exploration.graph.n,
        "known": len(exploration.known),
        "ranged": exploration.what_if is not None and exploration.what_if.needed_bytes > 0,
        "fit": "" if exploration.standing is None else exploration.standing.fit.name,
        "theme": window.theme.now.name,
        "shown": 0 if exploration.shown is None else exploration.shown.peak_bytes,
        "selected": window.selection.op,
        "listed": _listed(window),
        "found": [entry.title for one in window.findChildren(Palette) for entry in one.found],
        "solving": exploration.solve is not None and exploration.solve.running,
        "playing": window.playhead.playing,
        "measuring": exploration.passing or window.session.device_busy,
        "focus": _focus(),
        "memory": _memory(window),
        "constrained": not exploration.constraints.is_empty,
        "exporting": _exporting(window),
        "lines": _lines(window),
        "compared": _compared(window),
        "batches": _batches(window),
        "dialog": dialog is not None and dialog is QApplication.activeWindow(),  # it has the keys
    }


def _focus() -> dict[str, Any]:
    """Return what has the keys: its name, its place and what is typed in it."""
    widget = QApplication.focusWidget()
    if widget is None:
        return {"name": "", "place": [0, 0, 0, 0], "typed": ""}
    said = widget.accessibleName() or getattr(widget, "text", str)() or type(widget).__name__
    if isinstance(widget, QComboBox):
        typed = widget.currentText()
    else:
        typed = widget.text() if isinstance(widget, QLineEdit) else ""
    place = _on_screen(widget, visible_part(widget))
    return {"name": f"{type(widget).__name__}: {said}", "place": place, "typed": typed}


def _memory(window: MainWindow) -> dict[str, Any]:
    explorer, shown = window._explorer, window.session.exploration.shown
    if explorer is None or shown is None:
        return {"view": "", "rows": 0, "priced": 0, "busy": True, "at_peak": False}
    page, hotspot = explorer.inspector.memory, explorer.inspector.hotspot
    return {
        "view": page.view.value,
        "rows": len(page.rows),
        "priced": sum("+" in row.detail for row in page.rows),
        "busy": hotspot.busy,
        "at_peak": window.playhead.step == shown.timeline.peak_step,
    }


def _exporting(window: MainWindow) -> bool:
    return any(dialog._running for dialog in window.findChildren(ExportDialog))


def _lines(window: MainWindow) -> list[str]:
    return [] if window._explorer is None else [one.words for one in window._explorer.curve.edge_lines.lines]


def _compared(window: MainWindow) -> dict[str, Any]:
    dialog = window.comparing.dialog
    if dialog is None:
        return {}
    sides = dialog.sides or ()
    return {
        "title": dialog.windowTitle(),
        "layers": len(dialog.pairs),
        "known": [len(side.known) for side in sides],
        "places": {
            "memory": _on_screen(dialog.memory, dialog.memory.rect()),
            "frontier": _on_screen(dialog.frontier, dialog.frontier.rect()),
            "table": _on_screen(dialog.table, dialog.table.rect()),
        },
    }


def _batches(window: MainWindow) -> list[str]:
    dialog = window.batches.dialog
    return [] if dialog is None else [answer.status for answer in dialog.search.answers]


def _listed(window: MainWindow) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in window._explorer.schedules.rows if window._explorer is not None else []:
        found.setdefault(row.group.value, []).append(row.name)
    return found


def _panels(window: MainWindow) -> dict[str, QWidget]:
    if window._explorer is None or not window._explorer.isVisible():
        return {}
    explorer = window._explorer
    found: dict[str, QWidget] = {
        "header": window.omnibox.parentWidget(),
        "graph": explorer.graph_view,
        "R": explorer.matrices[0],
        "S": explorer.matrices[1],
        "curve": explorer.curve,
        "addresses": explorer.allocator,
        "slider": explorer.budget.frontier,
        "solving": explorer.solving,
        "inspector": explorer.inspector,
        "schedules": explorer.schedules._list.viewport(),
        "layers": explorer.layers._list.viewport(),
        "transport": explorer.transport,
    }
    return {name: widget for name, widget in found.items() if not visible_part(widget).isEmpty()}


def _places(window: MainWindow) -> dict[str, QWidget]:
    """Return what else the hand may click. It is the budget's field, and the links of the start page."""
    found: dict[str, QWidget] = {}
    if window._explorer is not None and window._explorer.isVisible():
        found["entry"] = window._explorer.budget._entry
        tabs = window._explorer.inspector.memory.tabs.values()
        found |= {f"tab {one.text()}": one for one in tabs if not visible_part(one).isEmpty()}
    if window._start.isVisible():
        links = window._start.findChildren(QPushButton, "link")
        found |= {f"link {one.text()}": one for one in links}
    return found


def _plain_row(window: MainWindow) -> dict[str, list[int]]:
    explorer, plain = window._explorer, window.session.exploration.plain
    if explorer is None or plain is None or not explorer.isVisible():
        return {}
    listed = explorer.schedules._list
    item = listed.item(plain)
    rect = QRect() if item is None else listed.visualItemRect(item) & visible_part(listed.viewport())
    return {} if rect.isEmpty() else {"keep everything": _on_screen(listed.viewport(), rect)}


def _counted(name: str, widget: QWidget) -> QRect:
    seen = visible_part(widget)
    return seen & QRect(*_ALWAYS[name]).translated(seen.topLeft()) if name in _ALWAYS else seen


def _on_screen(widget: QWidget, part: QRect) -> list[int]:
    corner = widget.mapToGlobal(part.topLeft())
    return [corner.x(), corner.y(), part.width(), part.height()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("state", type=Path)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--theme", default="light")
    options = parser.parse_args()
    application = QApplication(sys.argv[:1])
    reporter = Reporter(options.state)
    code = bootstrap.explore(options.file, theme=options.theme, size=SIZE)
    del reporter, application
    return code


if __name__ == "__main__":
    sys.exit(main())
