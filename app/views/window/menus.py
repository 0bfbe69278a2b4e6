from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAction, QActionGroup, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QFrame, QLineEdit, QListWidget, QListWidgetItem, QMenu, QWidget
from shiboken6 import isValid

from app.actions import ACTIONS, PANELS, Action, EnabledIf, Menu, action
from app.models.cursors import Selection
from app.models.exploration import Exploration
from app.models.recovery import RecentRecords
from app.presenters.schedule_rows import grouped
from app.presenters.search import COMMAND, PaletteEntry, search
from app.presenters.wording import NameCut, name_in_model, scope_of_all
from app.state.constraint_targets import ConstraintKind
from app.state.knowledge import ListedSchedule
from app.theme import CurrentTheme
from app.views.common.view_saver import ViewSaver
from app.views.common.widgets import called, in_column, label
from app.views.panels.bar_rows import DETAIL, FIGURE, BarDelegate
from app.views.window.base_window import BaseWindow
from app.workers.background import on
from checkmate.units import format_bytes, plural

Handler = Callable[[], object]
_SWITCHES = {"edit.keep": ConstraintKind.KEEP, "edit.forbid": ConstraintKind.ONCE}


def add_commands(
    window: BaseWindow, run: Mapping[str, Handler], records: RecentRecords
) -> Mapping[str, QAction]:
    """Return the Qt actions by id. ``run`` has a function for each; ``records`` were read lately."""
    recent = _recent_menu(window, records)
    made = {entry.id: _qt_action(window, entry, run[entry.id]) for entry in ACTIONS}
    for menu in Menu:
        _fill_menu(window.menuBar().addMenu(menu.value), menu, made, recent)
    window.addActions([made[entry.id] for entry in ACTIONS if entry.menu is None])

    def refresh() -> None:
        # The session outlives the window, and its last signals may come when Qt has deleted the actions.
        if isValid(window):
            _refresh(window, made)

    on(refresh, window.what_ifs.changed, window.panels_changed, window.theme.chosen)
    window.session.exploration.listing.filling_changed.connect(refresh)
    refresh()
    return made


def _fill_menu(listed: QMenu, menu: Menu, made: Mapping[str, QAction], recent: QMenu) -> None:
    choices: dict[str, tuple[QMenu, QActionGroup]] = {}
    for entry in ACTIONS:
        if entry.menu is not menu:
            continue
        if entry.line_above:
            listed.addSeparator()
        if entry.choice:
            inner = choices.get(entry.choice) or (listed.addMenu(entry.choice), QActionGroup(listed))
            choices[entry.choice] = inner
            inner[0].addAction(inner[1].addAction(made[entry.id]))
        else:
            listed.addAction(made[entry.id])
        if entry.id == "file.open":
            listed.addMenu(recent)


def _recent_menu(window: BaseWindow, records: RecentRecords) -> QMenu:
    menu = QMenu("Open recent", window)

    def fill() -> None:
        menu.clear()
        for explored in window.recent_entries():
            menu.addAction(f"{explored.name}\t{explored.words}", partial(window.open, str(explored.path)))
        read = records.paths()
        if read and not menu.isEmpty():
            menu.addSeparator()
        for path in read:
            menu.addAction(path.name, partial(window.open, str(path))).setToolTip(str(path))
        if menu.isEmpty():
            menu.addAction("Nothing was explored yet").setEnabled(False)

    menu.aboutToShow.connect(fill)
    return menu


def _qt_action(window: BaseWindow, entry: Action, run: Handler) -> QAction:
    # Qt's undo stack enables its own two actions, and adds to their words what they undo.
    stack = window.what_ifs.stack
    if entry.when is EnabledIf.CAN_UNDO:
        made = stack.createUndoAction(window, entry.words)
    elif entry.when is EnabledIf.CAN_REDO:
        made = stack.createRedoAction(window, entry.words)
    else:
        made = QAction(entry.words, window)
        made.triggered.connect(lambda _=False: run())
    made.setShortcuts([QKeySequence(key) for key in entry.keys])
    made.setCheckable(entry.checkable)
    if entry.tip:
        made.setToolTip(entry.tip_with_key)
    return made


def _refresh(window: BaseWindow, made: Mapping[str, QAction]) -> None:
    what_ifs, constraints = window.what_ifs, window.session.exploration.constraints
    allowed = {
        EnabledIf.CAN_KEEP: what_ifs.can_switch(ConstraintKind.KEEP),
        EnabledIf.CAN_FORBID: what_ifs.can_switch(ConstraintKind.ONCE),
        EnabledIf.CONSTRAINED: not constraints.is_empty,
    }
    for entry in ACTIONS:
        if entry.when in allowed:
            made[entry.id].setEnabled(allowed[entry.when])
    for name, kind in _SWITCHES.items():
        made[name].setChecked(what_ifs.is_set(kind, what_ifs.target))
    made["solve.gradients"].setChecked(constraints.recompute_gradients)
    area = window.panel_area
    for name in map(str.lower, PANELS):
        made[f"view.panel_{name}"].setChecked(area is None or area.is_open(name))
    made[f"view.theme_{window.theme.choice.value}"].setChecked(True)
    made["solve.fill"].setChecked(window.session.exploration.listing.fill_wanted)


_WIDTH, _HEIGHT, _EMPTY_HEIGHT, _TOP = 560, 440, 104, 70
_AROUND = 76  # pixels: the field, and the space around it and the list


class Palette(QFrame):
    """A search field and a list over the top of ``parent``. Up and Down choose, Enter runs, Esc or a click
    elsewhere closes it."""

    def __init__(self, entries: list[PaletteEntry], theme: CurrentTheme, parent: QWidget) -> None:
        super().__init__(parent)
        self._over = parent
        self._before: QWidget | None = None
        self.setObjectName("palette")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAccessibleName("Search layers, schedules, commands")
        self._entries, self.found = entries, list[PaletteEntry]()
        self.field = called(
            QLineEdit(placeholderText="Search layers, schedules, commands; > for commands alone"), "Search"
        )
        self.field.textChanged.connect(self._on_text)
        self.field.installEventFilter(self)
        self.list = called(QListWidget(), "Found")
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._delegate = BarDelegate(theme, "accent")
        self.list.setItemDelegate(self._delegate)
        self.list.itemClicked.connect(lambda item: self._run(self.list.row(item)))
        self.said = label("", muted=True, wrap=True)
        self.setLayout(in_column(self.field, (self.list, 1), self.said, gap=6, edges=(10, 10, 10, 8)))
        self._on_text("")

    def _fit(self) -> None:
        width, height = min(_WIDTH, self._over.width() - 40), _EMPTY_HEIGHT
        if self.found:
            rows = len(self.found) * self.list.sizeHintForRow(0)
            height = min(_HEIGHT, self._over.height() - 2 * _TOP, _AROUND + rows)
        self.setGeometry((self._over.width() - width) // 2, _TOP, width, height)

    def open(self) -> None:
        self._before = QApplication.focusWidget()
        self.show()
        self.raise_()
        self.field.setFocus()

    def _on_text(self, text: str) -> None:
        found = search(text, self._entries)
        self.found = list(found.entries)
        self._delegate.names = NameCut([entry.title for entry in self.found])
        self.list.clear()
        for entry in self.found:
            item = QListWidgetItem(entry.title)
            item.setData(FIGURE, entry.hint)
            item.setData(DETAIL, entry.detail or entry.kind)
            self.list.addItem(item)
        self.list.setCurrentRow(0)
        self.list.setVisible(bool(found.entries))
        self.said.setText(found.said)
        self.said.setVisible(bool(found.said))
        self._fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.FocusOut:
            self.close()
        if event.type() in (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress):
            assert isinstance(event, QKeyEvent)
            if event.key() == Qt.Key.Key_Escape:
                event.accept()
                self._leave()
                return True
        if event.type() == QEvent.Type.KeyPress:
            assert isinstance(event, QKeyEvent)
            moves = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 8, Qt.Key.Key_PageUp: -8}
            key = Qt.Key(event.key())
            if key in moves and self.found:
                row = max(0, min(len(self.found) - 1, self.list.currentRow() + moves[key]))
                self.list.setCurrentRow(row)
                return True
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._run(self.list.currentRow())
                return True
        return super().eventFilter(watched, event)

    def _run(self, row: int) -> None:
        if 0 <= row < len(self.found):
            run = self.found[row].run
            self._leave()
            run()

    def _leave(self) -> None:
        self.close()
        if self._before is not None:
            self._before.setFocus()


_MOST_OPS = 20000  # names; more would slow down every letter typed


def commands(actions: Mapping[str, QAction]) -> Iterator[PaletteEntry]:
    for name, qt_action in actions.items():
        if qt_action.isEnabled():
            entry = action(name)
            menu = "" if entry.menu is None else entry.menu.title
            words = entry.full_words if entry.choice else qt_action.text()
            yield PaletteEntry(COMMAND, words, entry.key or menu, qt_action.trigger)


def copy_commands(saver: ViewSaver) -> Iterator[PaletteEntry]:
    for view in saver.views:
        yield PaletteEntry(COMMAND, f"Copy picture of {view.name}", "", partial(saver.copy_picture, view))
        yield PaletteEntry(COMMAND, f"Copy data of {view.name}", "", partial(saver.copy_data, view))


def content(
    exploration: Exploration,
    selection: Selection,
    show: Callable[[ListedSchedule], object],
    zoom: Callable[[int], object],
) -> Iterator[PaletteEntry]:
    graph, what_if, shown = exploration.graph, exploration.what_if, exploration.shown
    if graph is None or what_if is None:
        return
    for rows in grouped(what_if, exploration.listing.own).values():
        for row in rows:
            detail = f"schedule · {row.group.value.lower()}"
            yield PaletteEntry("schedule", row.name, row.figure, partial(show, row.found), detail)

    def go(op: int) -> None:
        selection.select(op)
        zoom(op)

    again = frozenset[int]() if shown is None else shown.recomputed_ops
    for layer in what_if.layers:
        phase = None if layer.has(None) else next(iter(layer.bytes_of))
        phases = ", ".join(layer.bytes_of)
        yield PaletteEntry(
            "layer",
            layer.name,
            format_bytes(layer.bytes(phase)),
            partial(go, layer.op(phase)),
            f"layer · {phases} · {plural(len(layer.ops), 'op')}",
            layer.bytes(phase),
            frozenset(layer.bytes_of),
            not again.isdisjoint(layer.ops),
        )
    model = scope_of_all(graph)
    for index, op in enumerate(graph.ops[:_MOST_OPS]):
        size = sum(graph.values[value].bytes for value in op.outputs)
        more = "recomputed" if index in again else ""
        said = " · ".join(filter(None, ("op", op.group, op.phase.value, more)))
        title = name_in_model(op.name, model)
        yield PaletteEntry(
            "op", title, format_bytes(size), partial(go, index), said, size, frozenset({op.phase}), bool(more)
        )
