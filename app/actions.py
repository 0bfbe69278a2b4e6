"""Every command of the window, once, as data; no Qt.

Menus, palette, buttons, shortcuts and the page ``reference/window-keys.md`` are made from ``ACTIONS``;
``python -m app.actions`` prints that page. ``app/views/window/main_window.py`` says which function runs for
an id.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum


class Menu(Enum):
    """The menus, from left to right. ``&`` stands before the letter that opens a menu with Alt."""

    FILE = "&File"
    EDIT = "&Edit"
    SOLVE = "&Solve"
    PLAYBACK = "&Playback"
    VIEW = "&View"
    HELP = "&Help"

    @property
    def title(self) -> str:
        return self.value.replace("&", "")


class EnabledIf(Enum):
    ALWAYS = "always"
    CAN_UNDO = "there is a change to undo"
    CAN_REDO = "there is a change to redo"
    CAN_KEEP = "the selected op or layer has values that can be kept"
    CAN_FORBID = "the selected op or layer can be recomputed"
    CONSTRAINED = "there are constraints"


@dataclass(frozen=True)
class Action:
    """A command of the window.

    Attributes:
        words: what menus, the palette and the documentation call it.
        shortcuts: as Qt writes them, apart by spaces; the first is the one that is shown.
        menu: the menu that lists it; None if only the palette, a key or a button reaches it.
        tip: what its button says when the mouse rests on it; ``words`` if empty.
        line_above: whether its menu draws a line above it.
        choice: the name of the submenu of mutually exclusive commands that it belongs to; empty for none.
    """

    id: str
    words: str
    shortcuts: str = ""
    menu: Menu | None = None
    tip: str = ""
    when: EnabledIf = EnabledIf.ALWAYS
    checkable: bool = False
    line_above: bool = False
    choice: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.shortcuts.split())

    @property
    def full_words(self) -> str:
        return f"{self.choice}: {self.words}" if self.choice else self.words

    @property
    def key(self) -> str:
        return self.keys[0] if self.keys else ""

    @property
    def tip_with_key(self) -> str:
        tip = self.tip or self.full_words
        return f"{tip} ({self.key})" if self.key else tip


@dataclass(frozen=True)
class ViewKeys:
    """The keys that one view reads itself while it has the focus; for the documentation."""

    view: str
    keys: tuple[str, ...]
    words: str


PANELS = ("Layers", "Schedules", "Timeline", "Budget", "Solving", "Inspector")  # that can be closed

_PANEL = "Close this panel, or open it again"


def _listed(menu: Menu | None, *entries: Action) -> Iterator[Action]:
    return (replace(entry, menu=menu) for entry in entries)


ACTIONS: tuple[Action, ...] = (
    *_listed(
        Menu.FILE,
        Action("file.open", "Open…", "Ctrl+O"),
        Action(
            "file.profile",
            "Profile a model…",
            "Ctrl+Shift+O",
            tip="Choose batch size, input shape, optimizer, precision and device",
        ),
        Action(
            "file.explain",
            "Explain an out-of-memory log or a profile…",
            tip="What filled the memory, from a log or a profile that TensorFlow wrote",
        ),
        Action(
            "file.compare",
            "Compare with…",
            "Ctrl+Shift+D",
            tip="Another graph beside this one: facts, memory curves, frontiers and layers",
        ),
        Action("file.start", "Start page", "Ctrl+W", tip="Samples, and what you explored lately"),
        Action("file.save", "Save exploration…", "Ctrl+S"),
        Action("file.save_schedule", "Save this schedule…", "Ctrl+Shift+S"),
        Action(
            "file.certify",
            "Save a certificate…",
            tip="A proof that others can check: how near this schedule is to the best",
        ),
        Action("file.export", "Export training graph…", "Ctrl+E"),
        Action("file.picture", "Save a picture of the window…", "Ctrl+Shift+P"),
        Action("file.figure", "Save a figure for a paper…", tip="A PDF or SVG at the width of a column"),
        Action("file.report", "Save a report…", "Ctrl+Shift+E"),
        Action(
            "file.copy_command",
            "Copy as commands",
            "Ctrl+Shift+C",
            tip="The commands that lead to what is on screen, for a terminal",
            line_above=True,
        ),
        Action("file.copy_python", "Copy as Python", tip="The same as Python"),
        Action("file.restore", "Restore after a crash", line_above=True),
        Action("file.settings", "Settings…", "Ctrl+,", tip="Theme, solves, and where files are"),
        Action("file.quit", "Quit", "Ctrl+Q", line_above=True),
    ),
    *_listed(
        Menu.EDIT,
        Action("edit.undo", "Undo", "Ctrl+Z", when=EnabledIf.CAN_UNDO),
        Action("edit.redo", "Redo", "Ctrl+Shift+Z", when=EnabledIf.CAN_REDO),
        Action(
            "edit.keep",
            "Keep always",
            "K",
            tip="Its values stay in memory from when they are made to their last use",
            when=EnabledIf.CAN_KEEP,
            checkable=True,
            line_above=True,
        ),
        Action(
            "edit.forbid",
            "Never recompute",
            "R",
            tip="It runs once",
            when=EnabledIf.CAN_FORBID,
            checkable=True,
        ),
        Action(
            "edit.clear", "Clear the constraints", tip="Solve without constraints", when=EnabledIf.CONSTRAINED
        ),
        Action(
            "edit.none",
            "Select nothing, or stop solving",
            "Esc",
            tip="Leave the tour; share a panel's room; select no steps; then no op; then stop solving",
        ),
        Action("schedule.pin", "Pin this schedule", "Ctrl+D", tip="Pin or unpin it", line_above=True),
        Action("schedule.rename", "Rename this schedule", "F2"),
        Action("schedule.note", "Note on this schedule…"),
        Action("schedule.remove", "Remove this schedule from Mine"),
    ),
    *_listed(
        Menu.SOLVE,
        Action("solve.budget", "Solve for this budget", "Ctrl+R"),
        Action("solve.stop", "Stop here", "Ctrl+.", tip="Stop solving, and keep the best so far"),
        Action("solve.longer", "Solve for a minute", "Ctrl+Shift+R"),
        Action(
            "solve.least_at_cost",
            "Least memory at this extra cost",
            "M",
            tip="The smallest peak at this extra cost",
            line_above=True,
        ),
        Action("solve.least", "Least possible memory", "Shift+M", tip="The smallest peak at any cost"),
        Action(
            "solve.gradients",
            "Recompute gradients",
            tip="Whether ops of the backward pass may run more than once",
            checkable=True,
            line_above=True,
        ),
        Action(
            "solve.fill",
            "Solve other budgets",
            tip="Whether other budgets are solved while nothing is asked",
            checkable=True,
        ),
        Action(
            "solve.cards",
            "Which card do I need…",
            tip="Common cards, and what the step costs on each",
            line_above=True,
        ),
        Action(
            "solve.batch",
            "Largest batch…",
            "Ctrl+B",
            tip="The largest batch within a budget or on a card, found by scaling this graph",
        ),
    ),
    *_listed(
        Menu.PLAYBACK,
        Action("playback.play", "Play or pause", "Space"),
        Action("playback.next", "Next step", "."),
        Action("playback.previous", "Previous step", ","),
        Action("playback.peak", "Go to the peak", "P"),
    ),
    *_listed(
        None,
        Action("playback.first", "First step"),
        Action("playback.last", "Last step"),
    ),
    *_listed(
        Menu.VIEW,
        Action("view.search", "Search everything", "Ctrl+K"),
        Action("view.fit", "Fit the graph", "F", tip="Show all of it"),
        Action(
            "view.blocks",
            "Open or fold repeated blocks",
            "Shift+F",
            tip="Draw each of the graph's equal blocks, or one box for all of them",
        ),
        Action("view.filter", "Filter layers", "/"),
        Action(
            "view.whole_step",
            "Show the whole step",
            "Ctrl+0",
            tip="Show every step, every cell and every byte (double click)",
            line_above=True,
        ),
        Action("view.zoom_range", "Zoom to the selected steps", "Z", tip="Show the selected steps alone"),
        Action(
            "view.range_table",
            "Table of the selected steps…",
            "Ctrl+T",
            tip="List what is in memory in the selected steps, or in all: bytes x time, and what less costs",
        ),
        Action("view.clear_range", "Select no steps", tip="Select no steps (Esc)"),
        Action(
            "view.step_axis",
            "Memory curve by step or by time",
            "T",
            tip="Let the memory curve's axis count steps, or what they cost",
        ),
        Action(
            "view.bands",
            "Memory curve with a band for each value",
            "V",
            tip="Stack the values in memory by layer, kind, dtype or reason",
        ),
        Action(
            "view.allocator",
            "Addresses below the memory curve",
            "Shift+V",
            tip="Show where the allocator puts the values, and what is free between them",
        ),
        Action(
            "view.lines",
            "Lines across the memory curve…",
            "L",
            tip="Show the requested and the allocated peak, the least possible memory, or a card's capacity",
        ),
        Action(
            "view.compare",
            "Compare A | B",
            "D",
            tip="Compare the schedule on screen (A) with keeping everything, or with one that you Ctrl+click "
            "(B)",
            line_above=True,
        ),
        Action("view.compare_shown", "Compare the next schedules with this one", "B"),
        *(
            Action(
                f"view.panel_{name.lower()}",
                f"{name} panel",
                tip=_PANEL,
                checkable=True,
                line_above=name == PANELS[0],
            )
            for name in PANELS
        ),
        Action(
            "view.preset_tune",
            "Panels to tune a budget",
            "1",
            tip="Memory, budget, schedules and what helps",
            line_above=True,
        ),
        Action(
            "view.preset_debug",
            "Panels to find what fills memory",
            "2",
            tip="The memory curve large, between layers and inspector",
        ),
        Action(
            "view.preset_explain",
            "Panels to see what runs when",
            "3",
            tip="The graph as large as the memory curve, and the inspector",
        ),
        Action("view.panels_reset", "Put the panels back", tip="Where they were at first"),
        Action("view.theme_light", "Light", checkable=True, line_above=True, choice="Theme"),
        Action("view.theme_dark", "Dark", checkable=True, choice="Theme"),
        Action("view.theme_system", "As the system", checkable=True, choice="Theme"),
    ),
    *_listed(
        None,
        Action("view.focus_graph", "Go to the graph", "Ctrl+1"),
        Action("view.focus_budget", "Go to the budget", "Ctrl+2"),
        Action("view.zoom_in", "Zoom in", "+"),
        Action("view.zoom_out", "Zoom out", "-"),
        Action("view.zoom_reset", "Zoom to 100 %", tip="Back to 100 %"),
    ),
    *_listed(
        Menu.HELP,
        Action(
            "help.tour",
            "Take the tour",
            "Shift+F1",
            tip="Five steps through the window, from the budget to the export; Esc leaves it",
        ),
        Action("help.keys", "Commands and keys…", "F1"),
        Action("help.doctor", "What this machine can do…"),
        Action("help.desktop", "Add to the applications menu"),
    ),
)

VIEW_KEYS: tuple[ViewKeys, ...] = (
    ViewKeys("Graph", ("Left", "Right"), "Select the box before or after this one"),
    ViewKeys("Graph", ("Up", "Down"), "Go between the forward and the backward pass"),
    ViewKeys("Graph", ("Enter",), "Open the selected group, or one of equal blocks"),
    ViewKeys("Graph", ("Shift+Enter",), "Open all of the equal blocks"),
    ViewKeys("Graph", ("Backspace",), "Fold the group around the selected box"),
    ViewKeys("Layers", ("Enter",), "Zoom to the layer"),
    ViewKeys("Memory curve, R, S", ("W", "S"), "Show fewer steps, or more"),
    ViewKeys("Memory curve, R, S", ("A", "D"), "Go back, or on, where not all steps are on screen"),
    ViewKeys(
        "Memory curve, R, S",
        ("Shift+W", "Shift+S"),
        "Show fewer bytes or ops, or more (Ctrl and the wheel)",
    ),
    ViewKeys("Memory curve, R, S", ("Up", "Down"), "Go up or down, where not all bytes or ops are on screen"),
    ViewKeys("Memory curve, R, S", ("Home",), "Show the whole step"),
    ViewKeys("Memory curve, R, S", ("Esc",), "Select no steps"),
    ViewKeys("Memory budget", ("Left", "Right"), "Change the budget by 1 %; with Shift by 10 %"),
    ViewKeys("Memory budget", ("Home", "End"), "Go to the least memory known, or to keeping everything"),
    ViewKeys("Exact budget", ("Esc",), "Empty the field and leave it"),
    ViewKeys("Extra cost", ("Up", "Down"), "Change the extra cost by one percent"),
    ViewKeys("Search", ("Up", "Down", "PgUp", "PgDown"), "Choose an entry"),
    ViewKeys("Search", ("Enter",), "Run the chosen entry; zoom to a layer or an op"),
    ViewKeys("Search", ("Esc",), "Close the search"),
    ViewKeys("Schedules", ("Ctrl+click",), "Compare the schedule on screen with this one"),
    ViewKeys("Schedules", ("Up", "Down"), "Go to the schedule before or after this one"),
    ViewKeys("Schedules", ("Left", "Right"), "Fold or open the group"),
    ViewKeys("Schedules", ("Enter",), "Show this schedule"),
    ViewKeys("Schedules", ("Del",), "Remove this schedule from Mine"),
)

_BY_ID = {entry.id: entry for entry in ACTIONS}


def action(name: str) -> Action:
    return _BY_ID[name]


def keys_page() -> str:
    lines = [
        "# Keys of the window",
        "",
        f"`{action('view.search').key}` searches everything: all commands, layers, ops and schedules.",
        "",
        "This page is written by `python -m app.actions > docs/pages/reference/window-keys.md`.",
        "",
        "| Command | Keys | Menu |",
        "|---|---|---|",
    ]
    for entry in filter(lambda each: each.keys, ACTIONS):
        menu = "–" if entry.menu is None else entry.menu.title
        lines.append(f"| {_cell(entry.full_words)} | {_key_cells(entry.keys)} | {menu} |")
    lines += [
        "",
        "Some views read keys of their own while they have the focus:",
        "",
        "| View | Keys | What they do |",
        "|---|---|---|",
    ]
    for own in VIEW_KEYS:
        lines.append(f"| {own.view} | {_key_cells(own.keys)} | {own.words} |")
    return "\n".join(lines) + "\n"


def _key_cells(keys: tuple[str, ...]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(keys_page())
