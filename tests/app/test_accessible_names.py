from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QFrame,
    QLabel,
    QTabBar,
    QWidget,
)

from app.state.constraint_targets import ConstraintKind
from tests.app.windows import open_chain

LOG = Path(__file__).parents[1] / "unit" / "records" / "data" / "oom_2_21.log"
pytestmark = pytest.mark.heavy


def nameless(top: QWidget) -> list[str]:
    """Return the widgets that take the keys and say nothing of themselves."""
    found = []
    for widget in [top, *top.findChildren(QWidget)]:
        if widget.focusPolicy() == Qt.FocusPolicy.NoFocus or isinstance(widget, QTabBar):
            continue  # of a bar of tabs, each tab has its name
        if isinstance(widget.parentWidget(), QFrame) and widget.window() is not top.window():
            continue  # the list that a box of choices opens: the box has the name
        around = widget.parentWidget()
        if isinstance(around, QComboBox | QAbstractSpinBox):
            continue  # its line of text: the same
        if isinstance(around, QAbstractScrollArea) and widget is around.viewport():
            continue  # the view around it has the name
        words = widget.text() if isinstance(widget, QAbstractButton | QLabel) else ""
        said = widget.accessibleName() or words
        if not any(letter.isalnum() for letter in said):
            inside = "" if around is None else type(around).__name__
            found.append(f"{type(widget).__name__} {widget.objectName()!r} in {inside}")
    return found


def test_the_start_page_and_the_views(window, qtbot) -> None:
    assert nameless(window) == []
    open_chain(window, qtbot)
    window.selection.select(3)
    window.what_ifs.switch(ConstraintKind.KEEP)
    window.explorer.shown_edits.toggle()
    window.explorer.span.toggle_addresses()
    assert nameless(window) == []
    assert all(view.widget.accessibleName() for view in window.explorer.saver.views)


@pytest.mark.parametrize(
    "command", ["file.settings", "file.profile", "help.keys", "help.doctor", "solve.cards"]
)
def test_the_dialogs(window, qtbot, command: str, chain_open) -> None:
    window.commands[command].trigger()
    opened = [one for one in QApplication.topLevelWidgets() if one.isVisible() and one is not window]
    assert opened and [fault for one in opened for fault in nameless(one)] == []
    for one in opened:
        one.close()


def test_the_search(window, qtbot, chain_open) -> None:
    palette = window.open_palette()
    assert nameless(palette) == []
    palette.close()


def test_the_record_of_a_log(window, qtbot) -> None:
    window.open(str(LOG))
    qtbot.waitUntil(lambda: window.records.dialog is not None, timeout=20000)
    assert nameless(window.records.dialog) == []
    window.records.dialog.close()
