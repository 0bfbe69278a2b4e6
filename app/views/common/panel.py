from __future__ import annotations

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QDockWidget, QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.views.common.texts import SteadyLabel
from app.views.common.widgets import ButtonKeys, fill, label, push_button, scrolling

_SIDE, _TOP, _GAP, _BOTTOM = 12, 9, 6, 10  # pixels around and between


class Panel(QFrame):
    """A rounded frame with a title on the left and a muted note on the right."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.setObjectName("panel")
        self.setAccessibleName(title)
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(_SIDE, _TOP, _SIDE, _BOTTOM)
        self.body.setSpacing(_GAP)
        self.title = title
        self.note = SteadyLabel("muted")
        self.head_bar = _Head(self.note)
        self.head = QHBoxLayout(self.head_bar)
        self.head.setContentsMargins(0, 0, 0, 0)
        self.head.setSpacing(7)
        fill(self.head, label(title, name="title"), None, self.note)
        self.body.addWidget(self.head_bar)

    def want_note(self, wanted: bool) -> None:
        self.head_bar.wanted = wanted
        self.head_bar.fit_note()

    def place_in_head(self, widget: QWidget) -> int:
        """The widget's index in the head, or that of an ancestor; the head's length if it is not there."""
        items = (self.head.itemAt(at) for at in range(self.head.count()))
        parts = (None if item is None else item.widget() for item in items)
        held = (part is not None and (part is widget or part.isAncestorOf(widget)) for part in parts)
        return [*held, True].index(True)

    def give_head(self) -> QFrame:
        """Return the head, for a dock that is dragged by it. Above the panel, they look like one frame."""
        self.head_bar.setObjectName("panelhead")
        self.head.setContentsMargins(_SIDE, _TOP, _SIDE, _GAP)
        self.setProperty("headless", True)
        self.body.setContentsMargins(_SIDE, 0, _SIDE, _BOTTOM)
        return self.head_bar


class _Head(QFrame):
    double_clicked = Signal()

    def __init__(self, note: QWidget) -> None:
        super().__init__()
        self._note, self.wanted = note, True

    def fit_note(self) -> None:
        self._note.setVisible(self.wanted)
        self._note.setVisible(self.wanted and self.sizeHint().width() <= self.width())

    def minimumSizeHint(self) -> QSize:
        return QSize(1, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.fit_note()
        super().resizeEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.double_clicked.emit()


_OPEN, _FOLDED = "▾", "▸"
_FRAME = 2  # pixels around a scroll area, for the focus frame (app/theme.py)
_DOCK_GAP = 8  # pixels below the head of a folded panel; Qt leaves none there
_NO_LIMIT = (1 << 24) - 1  # Qt's maximum height of a widget


class PanelDock(QDockWidget):
    """A dock whose title bar is its panel's head, and which is dragged by that, out of the window too.
    ``name`` is its name in saved arrangements. A panel that ``scrolls`` keeps its least
    height in a dock that is lower. Signals: ``folding``: it will be folded or opened; ``fold_changed``: it
    has been."""

    folding = Signal()
    fold_changed = Signal()

    def __init__(self, panel: Panel, name: str, *, scrolls: bool = False) -> None:
        super().__init__(panel.title)
        self.panel = panel
        self.setObjectName(name)
        ButtonKeys(self)  # it may be a window of its own
        self.setAccessibleName(panel.title)
        self._fold = push_button(_OPEN, lambda: self.fold(not self.folded), "fold")
        self._head = panel.give_head()
        panel.head.insertWidget(0, self._fold)
        self.setTitleBarWidget(self._head)
        self._content: QWidget = panel
        if scrolls:
            self._content = scrolling(panel, panel.title)
            self._content.setObjectName("scrolled")  # it takes keys, which its frame shows
        self.setWidget(self._content)
        self._nothing = QWidget(self)
        self._nothing.setMaximumHeight(0)
        self._nothing.hide()
        self.folded, self._least = False, 0
        self.open_height = 0  # pixels, when it was last folded
        self._say()

    @property
    def head_height(self) -> int:
        return self._head.height()

    @property
    def needed_height(self) -> int:
        """Return the height in pixels at which nothing has to be scrolled."""
        around = 0 if self._content is self.panel else 2 * _FRAME
        needed = max(self.panel.minimumHeight(), self.panel.minimumSizeHint().height())
        return self.head_height + needed + around

    def fold(self, folded: bool) -> None:
        if folded == self.folded:
            return
        self.folding.emit()
        self.folded = folded
        if folded:
            self.open_height, self._least = self.height(), self.minimumHeight()
        self.setMinimumHeight(0 if folded else self._least)
        # Hiding the content would let Qt take its width away from the column.
        self.setWidget(self._nothing if folded else self._content)
        self._content.setVisible(not folded)
        self._nothing.setVisible(folded)
        self.setMaximumHeight(self._head.sizeHint().height() + _DOCK_GAP if folded else _NO_LIMIT)
        self._head.setProperty("folded", folded)
        self._head.style().polish(self._head)
        self._say()
        self.fold_changed.emit()

    def set_least_width(self, pixels: int) -> None:
        for part in (self, self._content, self.panel):
            part.setMinimumWidth(pixels)

    def _say(self) -> None:
        words = f"{'Open' if self.folded else 'Fold'} {self.panel.title}"
        self._fold.setText(_FOLDED if self.folded else _OPEN)
        self._fold.setAccessibleName(words)
        self._fold.setToolTip(words)
