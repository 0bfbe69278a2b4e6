from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QBuffer, QIODevice, QObject, QPoint, QRect, QSize, Signal
from PySide6.QtGui import QGuiApplication, QPainter, QPixmap
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QMenu, QWidget

from app.models.session import Session
from app.presenters.paper import Shows
from app.presenters.view_tables import ViewTable
from app.theme import CurrentTheme, Theme
from app.views.common.paint_turns import PaintTurns
from app.views.common.panel import Panel
from app.views.common.widgets import ask_target, open_below, push_button
from checkmate.errors import UsageError
from checkmate.formats.files import write_bytes

PICTURE_SCALE = 2  # of a PNG: sharp on paper and on dense screens


class HasTable(Protocol):
    def view_table(self) -> ViewTable | None:
        """Return the data on screen; None if there is none yet."""


@dataclass(frozen=True)
class SavableView:
    """A view whose picture and data can be saved. ``figure``: what a figure for a paper shows of it."""

    name: str
    widget: QWidget
    data: HasTable
    figure: Shows | None = None


class ViewSaver(QObject):
    """Copies and saves pictures and data, and adds the menus for it to panels. Signal
    ``figure_wanted(shows)``."""

    figure_wanted = Signal(object)

    def __init__(
        self, session: Session, theme: CurrentTheme, turns: PaintTurns, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._theme, self._turns = session, theme, turns
        self._views: list[SavableView] = []

    @property
    def views(self) -> list[SavableView]:
        """Return the views that are there; others have no picture."""
        return _there(self._views)

    def add_menu(self, panel: Panel, *views: SavableView) -> None:
        def offer() -> None:
            self._menu = self.menu_of(*views)  # kept while it is open
            open_below(self._menu, opener)

        self._views += views
        tip = "Copy or save the picture or the data"
        opener = push_button("⋯", offer, "small", tip=tip)
        opener.setAccessibleName(f"{panel.accessibleName()}: {tip[0].lower()}{tip[1:]}")
        panel.head.addWidget(opener)

    def menu_of(self, *views: SavableView) -> QMenu:
        menu = QMenu()
        there = _there(views)
        for view in there:
            part = menu.addMenu(view.name) if len(there) > 1 else menu
            part.addAction("Copy picture", partial(self.copy_picture, view))
            part.addAction("Save picture…", partial(self._ask_picture, view))
            if view.figure is not None:
                part.addAction("Save for a paper…", partial(self.figure_wanted.emit, view.figure))
            part.addAction("Copy data", partial(self.copy_data, view))
            part.addAction("Save data…", partial(self._ask_data, view))
        return menu

    def copy_picture(self, view: SavableView) -> None:
        self._turns.finish()
        QGuiApplication.clipboard().setPixmap(picture(view.widget, self._theme.now))
        self._session.noticed.emit(f"Copied the picture of {view.name}.")

    def copy_data(self, view: SavableView) -> None:
        table = view.data.view_table()
        if table is None:
            self._session.noticed.emit(f"{view.name} has nothing to copy yet.")
            return
        QGuiApplication.clipboard().setText(table.csv())
        self._session.noticed.emit(f"Copied {len(table.rows)} rows of {view.name}.")

    def save_picture(self, widget: QWidget, path: Path) -> bool:
        self._turns.finish()
        return self._session.attempt(lambda: save_picture(widget, path, self._theme.now), f"Saved {path}.")

    def save_data(self, view: SavableView, path: Path) -> bool:
        table = view.data.view_table()
        if table is None:
            self._session.noticed.emit(f"{view.name} has nothing to save yet.")
            return False
        csv = table.csv().encode("utf-8")
        return self._session.attempt(lambda: write_bytes(path, csv), f"Saved {path}.")

    def _ask_picture(self, view: SavableView) -> None:
        window, kinds = view.widget.window(), "Pictures (*.png *.svg)"
        if path := ask_target(window, "Save the picture", f"{view.name}.png", kinds):
            self.save_picture(view.widget, path)

    def _ask_data(self, view: SavableView) -> None:
        if path := ask_target(view.widget.window(), "Save the data", f"{view.name}.csv", "CSV (*.csv)"):
            self.save_data(view, path)


def _there(views: Sequence[SavableView]) -> list[SavableView]:
    return [view for view in views if not view.widget.isHidden()]


def picture(widget: QWidget, theme: Theme) -> QPixmap:
    """Return the widget as it looks on the panel's colour, sharper than the screen."""
    pixmap = QPixmap(widget.size() * PICTURE_SCALE)
    pixmap.setDevicePixelRatio(PICTURE_SCALE)
    pixmap.fill(theme.color("panel"))
    QWidget.render(widget, pixmap)  # a plot's own render draws its scene alone
    return pixmap


def svg_generator(size: QSize, title: str) -> tuple[QSvgGenerator, QBuffer]:
    generator, buffer = QSvgGenerator(), QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator.setOutputDevice(buffer)
    generator.setSize(size)
    generator.setViewBox(QRect(QPoint(0, 0), size))
    generator.setTitle(title)
    return generator, buffer


def svg_bytes(widget: QWidget, theme: Theme) -> bytes:
    generator, buffer = svg_generator(widget.size(), widget.accessibleName())
    painter = QPainter(generator)
    try:
        painter.fillRect(widget.rect(), theme.color("panel"))
        QWidget.render(widget, painter, QPoint(0, 0))
    finally:
        painter.end()
    return bytes(buffer.data().data())


def save_picture(widget: QWidget, path: Path, theme: Theme) -> None:
    """Write a PNG or SVG, whole or not at all. Raises UsageError where the name ends in neither."""
    kind = path.suffix.lower()
    if kind not in (".png", ".svg"):
        raise UsageError(f"{path.name} is no picture's name", hint="end it in .png or .svg")
    buffer = QBuffer()
    picture(widget, theme).save(buffer, "PNG")
    write_bytes(path, svg_bytes(widget, theme) if kind == ".svg" else bytes(buffer.data().data()))
