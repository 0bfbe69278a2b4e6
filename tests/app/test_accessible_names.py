from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDockWidget,
    QFrame,
    QLabel,
    QProgressBar,
    QTabBar,
    QWidget,
)

from app.state.constraint_targets import ConstraintKind
from app.views.common.panel import Panel, PanelDock
from app.views.common.texts import Link
from tests.app.windows import open_chain

LOG = Path(__file__).parents[1] / "unit" / "records" / "data" / "oom_2_21.log"
pytestmark = pytest.mark.heavy


def says_something(widget: QWidget) -> bool:
    """Whether the user can act on a widget or reads from it what is not text."""
    if widget.testAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents):
        return False
    painted = type(widget).__module__.startswith("app.") and "paintEvent" in vars(type(widget))
    shows = painted or isinstance(widget, QAbstractButton | QDockWidget | QProgressBar)
    return shows or widget.focusPolicy() != Qt.FocusPolicy.NoFocus


def nameless(top: QWidget) -> list[str]:
    """Return the widgets that a user acts on or reads from, and that say nothing of themselves."""
    found = []
    for widget in [top, *top.findChildren(QWidget)]:
        if not says_something(widget) or isinstance(widget, QTabBar):
            continue  # of a bar of tabs, each tab has its name
        if widget.objectName().startswith("qt_") or (
            isinstance(widget, Link) and not widget.isVisibleTo(top)
        ):
            continue  # a corner of a table; a line that has no link now
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


def test_tab_goes_down_each_panel_from_its_head(window, qtbot, chain_open) -> None:
    def panel_of(widget: QWidget) -> str:
        while not isinstance(widget, PanelDock | Panel) and widget is not window:
            widget = widget.parentWidget()
        return widget.accessibleName()

    window.selection.select(9)
    window.activateWindow()
    first = next(one for one in window.findChildren(QWidget) if one.accessibleName() == "Fold Inspector")
    first.setFocus(Qt.FocusReason.TabFocusReason)
    stops = [first]
    for _ in range(120):
        qtbot.keyClick(stops[-1], Qt.Key.Key_Tab)
        if (stop := QApplication.focusWidget()) is first:
            break
        stops.append(stop)
    turns = [name for name, _ in itertools.groupby(stops, panel_of)]
    assert len(stops) > 50 and len(turns) == len({*turns}) == 8, turns  # seven panels, and what is above them
    qtbot.wait(50)  # until all are laid out
    for before, after in itertools.pairwise(stops):
        one, other = (QRect(stop.mapTo(window, QPoint()), stop.size()) for stop in (before, after))
        below, beside = other.top() > one.bottom() - 4, other.left() > one.right() - 4
        follows = one.contains(other) or below or (beside and other.bottom() > one.top())
        assert follows or panel_of(before) != panel_of(after), (before, after)
