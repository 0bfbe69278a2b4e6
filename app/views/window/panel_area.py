from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QByteArray, QEvent, QSettings, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QMainWindow, QTabWidget, QWidget

from app.views.common.panel import Panel, PanelDock

_VERSION = 2  # of saved arrangements; an older one is not used
_STACKED_FROM = 700  # pixels of height that budget, solving and schedules need above each other
_LEFT, _RIGHT = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
_TOP = Qt.DockWidgetArea.TopDockWidgetArea
_NARROW = 1280  # pixels; below it the columns have their least widths
_LEAST_WIDTHS, _WIDTHS = (250, 290), (316, 340)  # of the left and of the right column
_LEAST_TIMELINE = 230  # pixels of height
_LEAST_MIDDLE = (300, 180)  # pixels
_MIDDLE = 236  # pixels of height that the graph has by itself
_HEIGHTS = {"layers": 330, "schedules": 400, "budget": 350, "solving": 0, "inspector": 430}  # in proportion
_MOST_BUDGET = 0.55  # of the height
_BORDER = 8  # pixels between two docks, as in the style sheet
_WITH_ADDRESSES = 0.1  # of the height: so much higher is the timeline with two plots over the steps


@dataclass(frozen=True)
class Preset:
    """The docks of the left and of the right column from above, and the timeline's share of the height. The
    others are closed."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    timeline: float


PRESETS = {
    "tune": Preset(("inspector", "layers"), ("budget", "solving", "schedules"), 0.66),
    "debug": Preset(("inspector",), ("layers",), 0.76),
    "explain": Preset(("inspector",), (), 0.5),
}


class PanelArea(QMainWindow):
    """The timeline above the graph, and columns of docks beside them. Until they are moved by hand, they are
    arranged by a preset for the height that there is. An arrangement can be kept in settings. A double click
    on a panel's head gives it all the room, and takes that back. Signals: ``changed``: a panel was closed,
    opened or moved."""

    changed = Signal()

    def __init__(self, middle: Panel, docks: Mapping[str, PanelDock], parent: QWidget | None = None) -> None:
        """Put docks named layers, schedules, timeline, budget, solving and inspector around ``middle``."""
        super().__init__(parent)
        self.setWindowFlags(Qt.WindowType.Widget)
        self.docks = dict(docks)
        self._own, self._moving, self._stacked = False, False, True
        self._middle, self._preset, self._with_addresses = middle, "tune", False
        self._before: QByteArray | None = None  # the arrangement, while one panel has all the room
        self._sizes: list[tuple[PanelDock, int, int]] = []
        self._pressed: list[tuple[int, int]] = []  # the docks' sizes when the mouse button went down
        middle.setMinimumSize(*_LEAST_MIDDLE)
        self.setCentralWidget(middle)
        self.setAnimated(False)
        self.setDockNestingEnabled(True)
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        for corner, area in (
            (Qt.Corner.TopLeftCorner, _LEFT),
            (Qt.Corner.BottomLeftCorner, _LEFT),
            (Qt.Corner.TopRightCorner, _RIGHT),
            (Qt.Corner.BottomRightCorner, _RIGHT),
        ):
            self.setCorner(corner, area)
        for column, least in zip((PRESETS["tune"].left, PRESETS["tune"].right), _LEAST_WIDTHS, strict=True):
            for name in column:
                self.docks[name].set_least_width(least)
        self.docks["timeline"].setMinimumHeight(_LEAST_TIMELINE)
        self._arrange()
        for dock in self.docks.values():
            dock.topLevelChanged.connect(self._on_moved)
            dock.dockLocationChanged.connect(self._on_moved)
            dock.folding.connect(self._on_folding)
            dock.fold_changed.connect(self._on_folded)
            dock.panel.head_bar.double_clicked.connect(partial(self._on_head, dock))
        middle.head_bar.double_clicked.connect(partial(self._on_head, middle))

    @property
    def enlarged(self) -> bool:
        """Whether one panel has all the room."""
        return self._before is not None

    def enlarge(self, part: QWidget) -> None:
        """Give all the room to the middle or a dock."""
        if isinstance(part, PanelDock):
            part.fold(False)
        self._before = self.saveState(_VERSION)
        with self._by_itself():
            for dock in self.docks.values():
                if dock is not part and not dock.isFloating():
                    dock.hide()
            self._middle.setVisible(part is self._middle)
        self._lay_out()

    def share_room(self) -> None:
        """Put all panels back where they were before one of them had all the room."""
        if self._before is not None:
            before, self._before = self._before, None
            self._middle.show()
            with self._by_itself():
                self.restoreState(before, _VERSION)
            self.fit()

    def _on_head(self, part: QWidget) -> None:
        if isinstance(part, PanelDock) and part.isFloating():
            part.setFloating(False)
        elif self.enlarged:
            self.share_room()
        else:
            self.enlarge(part)

    def is_open(self, name: str) -> bool:
        return not self.docks[name].isHidden()

    def toggle(self, name: str) -> None:
        self.share_room()
        dock = self.docks[name]
        dock.setVisible(dock.isHidden())
        if not dock.isHidden():
            dock.fold(False)
            dock.raise_()
        self._on_moved()

    def show_panel(self, name: str) -> None:
        dock = self.docks[name]
        if dock.isHidden():
            self.share_room()
        dock.fold(False)
        if dock.isHidden():
            self.toggle(name)
        dock.raise_()

    def turn_to(self, name: str) -> None:
        """Bring a panel to the front where it is a tab."""
        dock = self.docks[name]
        if not dock.isHidden() and self.tabifiedDockWidgets(dock):
            dock.raise_()

    def give_room(self, name: str, below: str, pixels: int) -> None:
        """Take room from the panel below. What lies above stays where it is, under the pointer."""
        high, low = self.docks[name], self.docks[below]
        if low.isVisible() and not low.isFloating() and low.x() == high.x() and low.y() > high.y():
            both, wanted = high.height() + low.height(), pixels + high.head_height
            if wanted > high.height():
                self.resizeDocks([high, low], [wanted, max(0, both - wanted)], Qt.Orientation.Vertical)

    def want_high_timeline(self, high: bool) -> None:
        self._with_addresses = high
        self.fit()

    def choose(self, preset: str) -> None:
        """Arrange the panels by one of ``PRESETS``."""
        self._preset = preset
        self.reset()

    def reset(self) -> None:
        self.share_room()
        self._own = False
        for dock in self.docks.values():
            dock.fold(False)
        self._arrange()
        self.changed.emit()

    def keep(self, settings: QSettings) -> None:
        settings.setValue("panels/own", self._own)
        settings.setValue("panels/preset", self._preset)
        settings.setValue("panels/folded", [name for name, dock in self.docks.items() if dock.folded])
        settings.setValue("panels/state", self._before or self.saveState(_VERSION))

    def restore(self, settings: QSettings) -> None:
        """Read the arrangement; without a sound one, nothing changes."""
        state, folded = settings.value("panels/state"), settings.value("panels/folded", [], list)
        own = settings.value("panels/own", False, bool) is True and isinstance(state, QByteArray)
        if (preset := settings.value("panels/preset")) in PRESETS:
            self._preset = str(preset)
            self._arrange()
        with self._by_itself():
            self._own = own and self.restoreState(state, _VERSION)
        for name in folded if isinstance(folded, list) else ():
            if name in self.docks:
                self.docks[name].fold(True)
        self.changed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if not self._own and not self.enlarged and self._stacked != (self.height() >= _STACKED_FROM):
            self._arrange()
        self.fit()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        QTimer.singleShot(0, self, self.fit)  # only then do the docks have sizes

    def event(self, event: QEvent) -> bool:
        # A drag of a border between panels begins and ends here; so may a click that no panel wants.
        if event.type() == QEvent.Type.MouseButtonPress:
            self._pressed = self._dock_sizes()
            self.docks["budget"].setMinimumHeight(0)  # the hand may make it lower
        done = super().event(event)
        if event.type() == QEvent.Type.MouseButtonRelease:
            if self._dock_sizes() != self._pressed:
                self._on_moved()
            elif not self._own:
                self._hold_budget()
        return done

    def _dock_sizes(self) -> list[tuple[int, int]]:
        return [(dock.width(), dock.height()) for dock in self.docks.values()]

    @contextlib.contextmanager
    def _by_itself(self) -> Iterator[None]:
        self._moving = True
        try:
            yield
        finally:
            self._moving = False

    def _on_moved(self) -> None:
        if not self._moving:
            self._own = True
            self.changed.emit()

    def _on_folding(self) -> None:
        docks = [dock for dock in self.docks.values() if dock.isVisible() and not dock.isFloating()]
        self._sizes = [
            (dock, dock.width(), dock.open_height if dock.folded else dock.height()) for dock in docks
        ]

    def _on_folded(self) -> None:
        if self._sizes and self.isVisible():
            docks, widths, heights = (list(part) for part in zip(*self._sizes, strict=True))
            self._lay_out()
            self.resizeDocks(docks, widths, Qt.Orientation.Horizontal)
            self.resizeDocks(docks, heights, Qt.Orientation.Vertical)
            self._lay_out()
        self.fit()

    def _arrange(self) -> None:
        self._stacked = self.height() >= _STACKED_FROM
        docks, preset = self.docks, PRESETS[self._preset]
        with self._by_itself():
            for dock in docks.values():
                dock.setFloating(False)
                self.removeDockWidget(dock)
            self.addDockWidget(_TOP, docks["timeline"])
            docks["timeline"].show()
            for area, column in ((_LEFT, preset.left), (_RIGHT, preset.right)):
                for name in column:
                    self.addDockWidget(area, docks[name], Qt.Orientation.Vertical)
                    docks[name].show()
            for name in docks.keys() - {"timeline", *preset.left, *preset.right}:  # where they open
                self.addDockWidget(_LEFT if name in PRESETS["tune"].left else _RIGHT, docks[name])
                docks[name].hide()
            if self._tabbed:
                self.tabifyDockWidget(docks["schedules"], docks["solving"])
                docks["schedules"].raise_()
        self._lay_out()  # Qt gives new docks their least sizes
        self.fit()

    @property
    def _tabbed(self) -> bool:
        """Whether solving is a tab beside the schedules: in low windows."""
        return not self._stacked and "solving" in PRESETS[self._preset].right

    @property
    def _columns(self) -> list[list[str]]:
        preset = PRESETS[self._preset]
        both = [list(column) for column in (preset.left, preset.right) if column]
        return [[name for name in names if not (self._tabbed and name == "solving")] for names in both]

    def _lay_out(self) -> None:
        layout = self.layout()
        assert layout is not None
        layout.activate()

    def _heights(self, names: list[str], room: int) -> list[int]:
        """Share a column's height, tabs included. Solving has what its words need, and the first panel at
        least what its content needs."""
        fixed = {name: self.docks[name].needed_height for name in names if not _HEIGHTS[name]}
        room -= sum(fixed.values())
        free = [name for name in names if name not in fixed]
        wanted = [_HEIGHTS[name] for name in free]
        shares = [round(each * room / sum(wanted)) for each in wanted]
        if shares and shares[0] < self.docks[free[0]].needed_height:
            shares[0] = min(self.docks[free[0]].needed_height, room)
            rest = sum(wanted[1:]) or 1
            shares[1:] = [round(each * (room - shares[0]) / rest) for each in wanted[1:]]
        found = fixed | dict(zip(free, shares, strict=True))
        return [max(1, found[name]) for name in names]

    def _hold_budget(self) -> None:
        budget = self.docks["budget"]
        if not budget.folded:
            budget.setMinimumHeight(min(budget.needed_height, round(_MOST_BUDGET * self.height())))

    def fit(self) -> None:
        if self._own or self.enlarged:
            return
        self._hold_budget()
        docks, across, down = self.docks, Qt.Orientation.Horizontal, Qt.Orientation.Vertical
        widths = _WIDTHS if self.width() >= _NARROW else _LEAST_WIDTHS
        preset = PRESETS[self._preset]
        sides = [
            (side[0], wide) for side, wide in zip((preset.left, preset.right), widths, strict=True) if side
        ]
        self.resizeDocks([docks[name] for name, _ in sides], [wide for _, wide in sides], across)
        for column in self._columns:
            folded = [docks[name].head_height for name in column if docks[name].folded]
            room = self.height() - sum(folded) - _BORDER * (len(column) - 1)
            free = [name for name in column if not docks[name].folded]
            self.resizeDocks([docks[name] for name in free], self._heights(free, room), down)
        share = preset.timeline + _WITH_ADDRESSES * self._with_addresses
        high = max(1, min(round(share * self.height()), self.height() - _MIDDLE))
        self.resizeDocks([docks["timeline"]], [high], down)
        self._lay_out()
