from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from app.presenters.bands import Grouping
from app.state.constraint_targets import ConstraintKind
from app.theme import DARK, LIGHT, ThemeChoice, apply_theme, color_application, load_fonts
from app.views.dialogs.settings_dialog import SettingsDialog
from app.views.window.main_window import MainWindow
from app.views.window.preferences import kept_theme
from tests.app.windows import new_window, pixels, training_chain

pytestmark = pytest.mark.heavy  # whole windows are drawn in both themes


@pytest.fixture(autouse=True)
def light(qapp: QApplication) -> Iterator[None]:
    """Begin and end with the light theme, which all windows share."""
    apply_theme(qapp, LIGHT, load_fonts())
    yield
    color_application(qapp, LIGHT)


def opened(qtbot, choice: ThemeChoice, settings: QSettings | None = None) -> MainWindow:
    """Return a window that solves nothing by itself, so two look the same."""
    window = new_window(qtbot, choice, settings=settings)
    window.session.exploration.listing.fill(False)
    window.resize(1400, 900)
    window.show()
    window.prepare()
    window.session.use_graph(training_chain())
    qtbot.waitUntil(lambda: window.session.exploration.what_if.needed_bytes > 0, timeout=60000)
    qtbot.waitUntil(lambda: not window.session.exploration.preparing, timeout=180000)
    window.playhead.seek(9)
    window.selection.select(3)
    window.notice.say("This was not done.", "Do that.")
    window.statusBar().clearMessage()
    qtbot.wait(300)
    window.explorer.turns.finish()
    return window


def trigger(window: MainWindow, qtbot, words: str) -> None:
    palette = window.open_palette()
    qtbot.keyClicks(palette.focusWidget(), words)
    qtbot.keyClick(palette.focusWidget(), Qt.Key.Key_Return)


@pytest.mark.parametrize("grouping", [None, Grouping.LAYER])
def test_a_window_looks_as_one_that_was_opened_in_the_theme(qtbot, grouping: Grouping | None) -> None:
    window = opened(qtbot, ThemeChoice.LIGHT)
    window.explorer.span.group_by(grouping)
    window.explorer.budget.setFocus()
    qtbot.wait(100)
    light = pixels(window)
    trigger(window, qtbot, ">dark")
    qtbot.wait(100)
    dark = pixels(window)
    other = opened(qtbot, ThemeChoice.DARK)
    other.explorer.span.group_by(grouping)
    other.explorer.budget.setFocus()
    qtbot.wait(100)
    differ = dark != pixels(other)
    where = np.argwhere(differ)
    assert not differ.any(), (differ.sum(), where.min(axis=0), where.max(axis=0))
    other.close()
    trigger(window, qtbot, ">light")
    window.activateWindow()
    window.explorer.budget.setFocus()
    qtbot.wait(100)
    assert (pixels(window) == light).all()


def test_nothing_else_changes_with_the_theme(window, exploration, qtbot, chain_open) -> None:
    window.selection.select(4)
    window.what_ifs.switch(ConstraintKind.KEEP)
    window.explorer.area.toggle("layers")
    window.playhead.seek(7)
    window.explorer.span.choose((2, 5))

    def state() -> tuple[object, ...]:
        return (
            *(exploration.graph, exploration.budget_bytes, exploration.constraints),
            *(window.selection.op, window.playhead.step, window.explorer.span.chosen),
            *(window.what_ifs.stack.undoText(), window.explorer.area.is_open("layers")),
            window.explorer,
            [(dock.size().toTuple()) for dock in window.explorer.area.docks.values()],
        )

    before = state()
    for choice in (ThemeChoice.DARK, ThemeChoice.LIGHT):
        window.commands[f"view.theme_{choice.value}"].trigger()
        assert window.theme.choice is choice and window.commands[f"view.theme_{choice.value}"].isChecked()
        qtbot.wait(50)
        assert state() == before
    window.what_ifs.stack.undo()
    assert exploration.constraints.is_empty


def test_the_theme_is_there_again_in_the_next_window(qtbot, settings: QSettings) -> None:
    assert kept_theme(settings) is ThemeChoice.SYSTEM
    window = new_window(qtbot, kept_theme(settings), settings=settings)
    window.commands["view.theme_dark"].trigger()
    window.close()
    settings.sync()
    again = QSettings(settings.fileName(), QSettings.Format.IniFormat)
    assert kept_theme(again) is ThemeChoice.DARK
    again.setValue("appearance/theme", "mauve")
    assert kept_theme(again) is ThemeChoice.SYSTEM


def test_the_system_decides_unless_a_theme_is_chosen(window, qtbot) -> None:
    changed = QGuiApplication.styleHints().colorSchemeChanged
    changed.emit(Qt.ColorScheme.Dark)  # as Qt does when the system's scheme is another
    assert window.theme.now is LIGHT
    window.commands["view.theme_system"].trigger()
    assert window.theme.now is DARK
    changed.emit(Qt.ColorScheme.Light)
    assert window.theme.now is LIGHT
    assert QApplication.palette().window().color().name() == LIGHT.tokens["window"]


def test_settings_apply_at_once_and_stay(qtbot, settings: QSettings) -> None:
    window = new_window(qtbot, settings=settings)
    window.show()
    window.prepare()
    window.explorer.area.toggle("layers")
    with qtbot.waitActive(window):
        window.activateWindow()
    qtbot.keyClick(window, Qt.Key.Key_Comma, Qt.KeyboardModifier.ControlModifier)
    dialog = window.findChild(SettingsDialog)
    qtbot.keyClick(dialog.theme, Qt.Key.Key_Down)
    assert window.theme.now is DARK and dialog.theme.currentText() == "Dark"
    assert dialog.fill.isChecked()
    qtbot.mouseClick(dialog.fill, Qt.MouseButton.LeftButton, pos=dialog.fill.rect().center() / 4)
    assert not window.session.exploration.listing.fill_wanted
    assert not window.explorer.schedules.findChild(type(dialog.fill)).isChecked()
    assert dialog.seconds.value() == 10
    qtbot.keyClick(dialog.seconds, Qt.Key.Key_Up)
    assert window.session.solving.seconds == 11
    qtbot.mouseClick(dialog.reset, Qt.MouseButton.LeftButton)
    assert window.explorer.area.is_open("layers")
    window.close()
    other = new_window(qtbot, kept_theme(settings), settings=settings)
    assert other.theme.now is DARK and other.session.solving.seconds == 11
    assert not other.session.exploration.listing.fill_wanted


@pytest.mark.parametrize("kept", ["abc", "-3", "1e9", ""])
def test_damaged_settings_are_not_used(qtbot, settings: QSettings, kept: str) -> None:
    settings.setValue("solving/seconds", kept)
    settings.setValue("solving/fill", kept)
    window = new_window(qtbot, settings=settings)
    assert 1 <= window.session.solving.seconds <= 60
