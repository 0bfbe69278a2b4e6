from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QEvent, QObject, QPoint, QRectF, Qt
from PySide6.QtGui import QKeyEvent, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QBoxLayout,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.actions import action
from app.views.common.painting import smooth

Item = QWidget | QLayout
Part = Item | tuple[Item, int] | int | None
Named = TypeVar("Named", bound=QWidget)
Edges = tuple[int, int, int, int]  # pixels: left, above, right, below
NO_EDGES = 0, 0, 0, 0


if TYPE_CHECKING:
    WidgetMixin = QWidget
else:
    WidgetMixin = object  # Qt allows no two widget classes as bases


def in_row(*parts: Part, gap: int | None = None, edges: Edges | None = None) -> QHBoxLayout:
    """Return ``parts`` from left to right. A part is a widget or a layout, perhaps with its stretch, a number
    of pixels to leave free, or None for all space that is left. ``gap``: pixels between parts; ``edges``:
    around them, if not as the style has it."""
    return _filled(QHBoxLayout(), parts, gap, edges)


def in_column(*parts: Part, gap: int | None = None, edges: Edges | None = None) -> QVBoxLayout:
    return _filled(QVBoxLayout(), parts, gap, edges)


Box = TypeVar("Box", bound=QBoxLayout)


def _filled(box: Box, parts: tuple[Part, ...], gap: int | None, edges: Edges | None) -> Box:
    if edges is not None:
        box.setContentsMargins(*edges)
    if gap is not None:
        box.setSpacing(gap)
    fill(box, *parts)
    return box


def fill(box: QBoxLayout, *parts: Part) -> None:
    """Add parts at the end of a box, as in ``in_row``."""
    for part in parts:
        if part is None:
            box.addStretch(1)
        elif isinstance(part, int):
            box.addSpacing(part)
        else:
            item, share = part if isinstance(part, tuple) else (part, 0)
            if isinstance(item, QLayout):
                box.addLayout(item, share)
            else:
                box.addWidget(item, share)


def label(text: str, *, muted: bool = False, name: str | None = None, wrap: bool = False) -> QLabel:
    made = QLabel(text)
    if muted or name:
        made.setObjectName(name or "muted")
    made.setWordWrap(wrap)
    return made


def called(widget: Named, name: str, tip: str = "") -> Named:
    """Give a widget its name for assistive technology, and a tooltip. Return it."""
    widget.setAccessibleName(name)
    if tip:
        widget.setToolTip(tip)
    return widget


def filter_field(name: str, words: str) -> QLineEdit:
    field = called(QLineEdit(placeholderText=words, clearButtonEnabled=True), name)
    for clear in field.findChildren(QToolButton):
        clear.setAccessibleName(f"{name}: clear")
    return field


def push_button(text: str, run: Callable[[], object], style: str = "", *, tip: str = "") -> QPushButton:
    made = QPushButton(text)
    made.setObjectName(style)
    made.setToolTip(tip)
    made.clicked.connect(lambda _=False: run())
    return made


def scrolling(content: QWidget, name: str) -> QScrollArea:
    area = called(QScrollArea(widgetResizable=True), name)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(content)
    return area


class Dialog(QDialog):
    """A dialog; if it is opened but ``once``, it is deleted when it is closed. ``size`` is in pixels."""

    def __init__(
        self, parent: QWidget | None, title: str, size: tuple[int, int] | None = None, *, once: bool = False
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, once)
        if size is not None:
            self.resize(*size)


def closing(dialog: QDialog, *actions: QPushButton) -> QDialogButtonBox:
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    for one in actions:
        buttons.addButton(one, QDialogButtonBox.ButtonRole.ActionRole)
    buttons.rejected.connect(dialog.reject)
    return buttons


def bring_up(window: QWidget) -> None:
    window.show()
    window.raise_()
    window.activateWindow()


def open_below(menu: QMenu, widget: QWidget) -> None:
    menu.popup(widget.mapToGlobal(QPoint(0, widget.height())))


def ask_source(parent: QWidget, title: str, kinds: str) -> Path | None:
    """Ask for a file to read; None: nothing was chosen."""
    name, _ = QFileDialog.getOpenFileName(parent, title, "", kinds)
    return Path(name) if name else None


def ask_target(parent: QWidget, title: str, suggested: str, kinds: str) -> Path | None:
    """Ask for a file to write; None: nothing was chosen. A name without a suffix gets the suffix of its kind,
    unless that file exists: the dialog has not asked whether to overwrite it."""
    name, kind = QFileDialog.getSaveFileName(parent, title, suggested, kinds)
    ending = "" if Path(name).suffix else kind.partition("*")[2].partition(" ")[0].rstrip(")")
    if not name or Path(name + ending).exists():
        return Path(name) if name else None
    return Path(name + ending)


def command_button(name: str, run: Callable[[], object] | None = None, text: str = "") -> QPushButton:
    """Return a button for the action ``name``. ``text`` is a shorter label or a symbol in place of the
    action's words."""
    entry = action(name)
    button = QPushButton(text or entry.words)
    if text:
        button.setAccessibleName(entry.words)
    button.setToolTip(entry.tip_with_key)
    button.setCheckable(entry.checkable)
    if run is not None:
        button.clicked.connect(lambda _=False: run())
    return button


class ButtonKeys(QObject):
    """An event filter that lets the space bar and Enter press the focused button of ``window``. The space bar
    is also a command's shortcut; accepting the ShortcutOverride gives it to the button. Enter reaches this
    filter because only buttons of dialogs handle it themselves; auto-repeat is ignored."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        button = self._window.focusWidget() if isinstance(event, QKeyEvent) else None
        if isinstance(event, QKeyEvent) and isinstance(button, QAbstractButton):
            if event.type() == QEvent.Type.ShortcutOverride and event.key() == Qt.Key.Key_Space:
                event.accept()
                return True
            enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
            plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier and not event.isAutoRepeat()
            if event.type() == QEvent.Type.KeyPress and enter and plain and button.hasFocus():
                button.click()
                return True
        return super().eventFilter(watched, event)


_WIDTH, _ROUND = 2.0, 3.0  # pixels


class _FocusRing(WidgetMixin):
    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.hasFocus():
            painter, inset = smooth(self), _WIDTH / 2
            painter.setPen(QPen(self.palette().color(QPalette.ColorRole.Highlight), _WIDTH))
            ring = QRectF(self.rect()).adjusted(inset, inset, -inset, -inset)
            painter.drawRoundedRect(ring, _ROUND, _ROUND)
            painter.end()


class ChoiceBox(_FocusRing, QComboBox):
    """Offers a few choices."""


class NumberBox(_FocusRing, QSpinBox):
    """Asks for a whole number."""


class DecimalBox(_FocusRing, QDoubleSpinBox):
    """Asks for a number."""
