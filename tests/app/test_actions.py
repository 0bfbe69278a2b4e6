from __future__ import annotations

import re
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence

from app.actions import ACTIONS, VIEW_KEYS, Menu, action, keys_page
from app.presenters.search import COMMAND, search

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "pages"


def test_ids_words_and_shortcuts_are_unique() -> None:
    for values in (
        [entry.id for entry in ACTIONS],
        [entry.words for entry in ACTIONS],
        [QKeySequence(key).toString() for entry in ACTIONS for key in entry.keys],
    ):
        assert len(values) == len(set(values)) and all(values)


def test_every_shortcut_is_written_as_qt_writes_it() -> None:
    """Test that palette, tips and page name the keys as the menu does."""
    keys = [key for entry in ACTIONS for key in entry.keys]
    assert [QKeySequence(key).toString() for key in keys] == keys


def test_every_action_has_a_handler_and_every_handler_an_action(window) -> None:
    assert sorted(window.handlers()) == sorted(entry.id for entry in ACTIONS)
    assert list(window.commands) == [entry.id for entry in ACTIONS]


def test_menus_list_the_table_in_its_order(window) -> None:
    for menu, shown in zip(Menu, window.menuBar().actions(), strict=True):
        assert shown.text() == menu.value
        every = shown.menu().actions()
        choices = {found.menu().title(): found.menu() for found in every if found.menu() is not None}
        entries = [found for found in every if not found.isSeparator() and found.menu() is None]
        listed = [entry for entry in ACTIONS if entry.menu is menu and not entry.choice]
        for choice in {entry.choice for entry in ACTIONS if entry.menu is menu and entry.choice}:
            inner = [entry for entry in ACTIONS if entry.choice == choice]
            assert [found.text() for found in choices[choice].actions()] == [entry.words for entry in inner]
            assert sum(found.isChecked() for found in choices[choice].actions()) == 1
        assert [found.text() for found in entries] == [entry.words for entry in listed]
        for found, entry in zip(entries, listed, strict=True):
            assert [key.toString() for key in found.shortcuts()] == list(entry.keys)


def test_the_palette_finds_every_action(window, exploration, qtbot, chain_open) -> None:
    window.selection.select(1)
    what_ifs = window.what_ifs
    what_ifs.recompute_gradients(False)
    what_ifs.recompute_gradients(True)
    what_ifs.recompute_gradients(False)
    what_ifs.stack.undo()
    what_ifs.stack.undo()  # now there is a change to undo, there are two to redo, and a constraint
    assert not exploration.constraints.is_empty
    palette = window.open_palette()
    for entry in ACTIONS:
        found = search(f">{entry.full_words}", palette._entries).entries
        assert found and found[0].kind == COMMAND and found[0].title.startswith(entry.full_words), entry.id
    palette.close()


def test_shortcuts_outside_the_menus_run(window, qtbot, chain_open) -> None:
    window.activateWindow()
    qtbot.keyClick(window, Qt.Key.Key_1, Qt.KeyboardModifier.ControlModifier)
    assert window.focusWidget() is window.explorer.graph_view
    qtbot.keyClick(window, Qt.Key.Key_2, Qt.KeyboardModifier.ControlModifier)
    assert window.focusWidget() is window.explorer.budget


@pytest.mark.parametrize("name", ["playback.first", "playback.last", "view.zoom_in", "view.zoom_reset"])
def test_commands_without_a_menu_run(window, qtbot, name: str, chain_open) -> None:
    playhead, view = window.playhead, window.explorer.graph_view
    playhead.seek(3)
    before = view.zoom_percent
    window.commands[name].trigger()
    done = {
        "playback.first": playhead.step == 0,
        "playback.last": playhead.step == playhead.count - 1,
        "view.zoom_in": view.zoom_percent > before,
        "view.zoom_reset": view.zoom_percent == 100,
    }
    assert done[name]


def test_the_documentation_is_the_table() -> None:
    assert (PAGES / "reference" / "window-keys.md").read_text(encoding="utf-8") == keys_page()


def test_pages_name_only_keys_of_the_table() -> None:
    keys = (
        r"(?:Ctrl|Shift|Alt)\+[^`]+|[A-Z0-9.,/]|F\d+|Space|Esc|Enter|Tab|Home|End|Left|Right|Up|Down|PgUp"
        r"|PgDown"
    )
    page, tutorial = (
        (PAGES / name).read_text(encoding="utf-8") for name in ("window.md", "tutorial/hotspot.md")
    )
    named = set(re.findall(rf"`({keys})`", page))
    explained = ("view.search", "playback.play", "playback.peak", "playback.next")
    assert {action(name).key for name in explained} <= named
    assert named | set(re.findall(rf"`({keys})`", tutorial)) <= {
        key for entry in (*ACTIONS, *VIEW_KEYS) for key in entry.keys
    }
    rows = re.search(r"^\| key \| .*\n\|---.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert rows, "the page has no table of keys"
    listed = {key for row in rows[1].splitlines() for key in re.findall(r"`([^`]+)`", row.split(" | ")[0])}
    assert len(listed) > 15 and listed <= named  # so that a key of another form is not overlooked
