from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from app.presenters.axes import StepAxis
from app.presenters.bands import NOTHING, Bands, PlacedBlocks
from app.presenters.memory_curve import tops_of
from app.theme import CurrentTheme, mixed
from app.views.timeline.plot_legend import Entry

_ROLES = ("forward", "backward", "held", "recomputed", "problem", "freed")
_SHADES = (0.42, 0.54, 0.66)  # of neighbouring bands
_EDGED = 4  # pixels; higher bands are separated by lines


class PictureItem(pg.GraphicsObject):  # type: ignore[misc]
    """A picture over a part of a plot. Its first row is the lowest, as the plot's scale goes up."""

    def __init__(self) -> None:
        super().__init__()
        self._place, self._image = QRectF(), QImage()

    def put(self, place: QRectF, pixels: NDArray[np.uint32]) -> None:
        """Show ARGB values of 0xAARRGGBB."""
        self.prepareGeometryChange()
        height, width = pixels.shape
        pixels = np.ascontiguousarray(pixels)
        made = QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_ARGB32)
        self._place, self._image = place, made.copy()
        self.update()

    def boundingRect(self) -> QRectF:
        return self._place

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None) -> None:
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
        painter.drawImage(self._place, self._image)


class BandsItem(PictureItem):
    """Draws bands; says which of them is where. There is one column of bands for each pixel. It shows its
    step with the most live bytes, as the curve does."""

    def __init__(self, theme: CurrentTheme, *, blocks: bool = False) -> None:
        super().__init__()
        self._theme, self._blocks = theme, blocks
        self._bands: Bands | PlacedBlocks | None = None
        self._owners: NDArray[np.int64] = np.zeros((0, 0), np.int64)
        self._seen: set[int] = set()  # the groups in the image
        self._selected = -1, -1  # an op, and one of its values
        theme.changed.connect(self._color)

    def draw(
        self,
        bands: Bands | PlacedBlocks,
        axis: StepAxis,
        span: tuple[float, float],
        ends: tuple[float, float],
        size: tuple[int, int],
        unit: float,
    ) -> None:
        """Draw what is between two positions and two numbers of bytes into an image of ``size`` pixels. Of
        the steps in a column, the one with the most live bytes is shown. ``unit``: the plot's, in bytes."""
        width, height = (max(1, side) for side in size)
        low, high = axis.place(span)
        first, last = int(span[0]), int(np.ceil(span[1]))
        starts = axis.columns(first, last, width)
        live = bands.shown.timeline.live_bytes.astype(np.float64)
        found = bands.owners(tops_of(live, starts, last), height, ends[1], ends[0])
        middles = low + (np.arange(width) + 0.5) * (high - low) / width
        column = np.searchsorted(axis.edges[starts], middles, side="right") - 1
        self._bands, self._owners = bands, found[np.clip(column, 0, len(starts) - 1)].T
        present = np.bincount(self._owners.ravel() + 1, minlength=2)[1:] > 0
        self._seen = set(self._groups_of(bands)[np.flatnonzero(present)].tolist())
        self.prepareGeometryChange()
        self._place = QRectF(low, ends[0] / unit, high - low, (ends[1] - ends[0]) / unit)
        self._color()

    def clear(self) -> None:
        self._bands, self._owners, self._image = None, np.zeros((0, 0), np.int64), QImage()
        self.update()

    def select(self, op: int, value: int = -1) -> None:
        if (op, value) != self._selected:
            self._selected = op, value
            self._color()

    def _is_selected(self, bands: Bands | PlacedBlocks) -> NDArray[np.bool_]:
        op, value = self._selected
        graph, values = bands.shown.graph, bands.values
        if value >= 0:
            return np.asarray(values == graph.owner[value], np.bool_)
        selected = values >= 0  # what is no value has no producer
        selected[selected] = (graph.producer[values[selected]] == op) & (op >= 0)
        return selected

    def owner_at(self, x: float, y: float) -> int:
        place, (height, width) = self._place, self._owners.shape
        if self._bands is None or not place.contains(x, y):
            return NOTHING
        column = min(width - 1, int((x - place.left()) / place.width() * width))
        row = min(height - 1, int((y - place.top()) / place.height() * height))
        return int(self._owners[row, column])

    def entries(self) -> list[Entry]:
        if self._bands is None:
            return []
        return [
            Entry(name, self._shade(group, 1), edge=self._theme.color(self._role(group)))
            for group, name in enumerate(self._bands.groups)
            if group in self._seen
        ]

    def _color(self) -> None:
        bands, owners = self._bands, self._owners
        if bands is None:
            return
        groups = self._groups_of(bands)
        table = np.array(
            [[self._shade(group, shade).rgba() for shade in range(3)] for group in range(len(bands.groups))],
            np.uint32,
        )
        # Neighbours in the stack have other shades; the last entry is for what is no band.
        number = np.arange(len(groups))
        colors = table[groups, number % 3]
        selected = np.zeros(len(groups), np.bool_)
        selected[: bands.count] = self._is_selected(bands)
        colors[selected] = self._theme.color("accent").rgba()
        colors[-1] = 0
        pixels = colors[owners]
        pixels[_edges(owners)] = self._theme.color("panel").rgba()
        if self._blocks:
            pixels[_edges(owners.T).T] = self._theme.color("panel").rgba()
        if selected.any():
            pixels[_outline(selected[owners])] = self._theme.color("text").rgba()
        self.put(self._place, pixels)

    def _groups_of(self, bands: Bands | PlacedBlocks) -> NDArray[np.int64]:
        return np.concatenate([bands.group, np.arange(len(bands.groups)), [len(bands.groups) - 1]])

    def _role(self, group: int) -> str:
        assert self._bands is not None
        special = {len(self._bands.groups) - 1: "fixed", len(self._bands.groups) - 2: "text"}
        return special.get(group) or _ROLES[min(group, len(_ROLES) - 1)]

    def _shade(self, group: int, shade: int) -> QColor:
        return mixed(self._theme.now, self._role(group), _SHADES[shade])


def _edges(owners: NDArray[np.int64]) -> NDArray[np.bool_]:
    edges = np.zeros(owners.shape, np.bool_)
    if len(owners) <= _EDGED:
        return edges
    own = owners[1 : len(owners) - _EDGED + 1]
    edges[1 : len(owners) - _EDGED + 1] = (own != owners[: len(own)]) & (own == owners[_EDGED:]) & (own >= 0)
    return edges


def _outline(inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    inner = inside.copy()
    inner[1:] &= inside[:-1]
    inner[:-1] &= inside[1:]
    inner[:, 1:] &= inside[:, :-1]
    inner[:, :-1] &= inside[:, 1:]
    return inside & ~inner
