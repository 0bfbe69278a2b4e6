from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QRect, QSize, QSizeF, Qt
from PySide6.QtGui import QFont, QPageSize, QPainter, QPdfWriter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from app.models.cursors import Playhead
from app.presenters.paper import WORDS, FigureFile, Paper, Shows
from app.theme import CurrentTheme, ThemeChoice
from app.views.common.painting import sized
from app.views.common.view_models import ViewModels
from app.views.common.view_saver import svg_generator
from app.views.graph.graph_view import GraphView
from app.views.panels.frontier import FrontierView
from app.views.timeline.curve_view import CurveView
from app.views.timeline.matrix_view import MatrixView
from checkmate.errors import UsageError
from checkmate.formats.files import write_bytes

_DOTS = 300.0  # to an inch, of R and S, which are pictures
_SHAPE = {Shows.CURVE: 0.56, Shows.FRONTIER: 0.62}  # height to width of each view
_OTHER_SHAPE = 0.45
_LEAST_HEIGHT = 190  # pixels

_Place = tuple[QWidget, QRect]


class Figures:
    """Draws views of an exploration as the window shows them now. It draws them apart from the window."""

    def __init__(self, models: ViewModels, graph_view: GraphView) -> None:
        self._models, self._exploration, self._graph_view = models, models.exploration, graph_view

    def save(self, wanted: FigureFile) -> None:
        if self._exploration.shown is None:
            raise UsageError("there is nothing to draw yet", hint="open a model or a graph first")
        kind = wanted.path.suffix.lower()
        draw = self.pdf if kind == ".pdf" else self.svg
        write_bytes(wanted.path, draw(wanted.shows, wanted.paper))

    def pdf(self, shows: Shows, paper: Paper) -> bytes:
        places, size = self._places(shows, paper)
        buffer = QBuffer()
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        writer = QPdfWriter(buffer)
        writer.setTitle(self._title(shows))
        writer.setCreator("Checkmate Explorer")
        inches = QSizeF(paper.width.value, size.height() / paper.per_inch)
        match = QPageSize.SizeMatchPolicy.ExactMatch
        writer.setPageSize(QPageSize(inches, QPageSize.Unit.Inch, "", match))
        writer.setPageMargins(QMarginsF())
        writer.setResolution(round(paper.per_inch))
        _paint(writer, places, paper.per_inch / round(paper.per_inch))
        return bytes(buffer.data().data())

    def svg(self, shows: Shows, paper: Paper) -> bytes:
        places, size = self._places(shows, paper)
        generator, buffer = svg_generator(size, self._title(shows))
        generator.setResolution(round(paper.per_inch))
        _paint(generator, places, 1.0)
        return bytes(buffer.data().data())

    def _title(self, shows: Shows) -> str:
        graph = self._exploration.graph
        return shows.words if graph is None else f"{graph.name}: {shows.words}"

    def _places(self, shows: Shows, paper: Paper) -> tuple[list[_Place], QSize]:
        wide, views = paper.pixels, list[QWidget]()
        if shows is Shows.CURVE:
            views.append(self._curve())
        elif shows is Shows.FRONTIER:
            views.append(self._frontier())
        elif shows is Shows.GRAPH:
            views.append(self._graph(wide))
        else:
            titles = ("R", "S") if shows is Shows.BOTH else (shows.name,)
            views += [self._matrix(title, paper) for title in titles]
        high = max(_LEAST_HEIGHT, round(wide * _SHAPE.get(shows, _OTHER_SHAPE)))
        places = [(view, QRect(0, number * high, wide, high)) for number, view in enumerate(views)]
        for view, place in places:
            view.resize(place.size())
        return places, QSize(wide, high * len(views))

    def _light(self) -> ViewModels:
        return replace(self._models, theme=CurrentTheme(ThemeChoice.LIGHT))

    def _curve(self) -> CurveView:
        curve = CurveView(self._light())
        curve.show_cursor(False)
        curve.draw_as_lines(sized(QFont(), round(WORDS)))
        return curve

    def _matrix(self, title: str, paper: Paper) -> MatrixView:
        matrix = MatrixView(title, self._light())
        matrix.show_cursor(False)
        matrix.draw_as_lines(sized(QFont(), round(WORDS)))
        matrix.sharpness = _DOTS / paper.per_inch
        matrix.getPlotItem().showAxis("bottom")  # there is no curve above
        return matrix

    def _frontier(self) -> FrontierView:
        frontier = FrontierView(self._exploration, self._light().theme)
        frontier.has_handle = False
        return frontier

    def _graph(self, wide: int) -> GraphView:
        copy, playhead = self._exploration.frozen_copy(), Playhead()
        graph = GraphView(replace(self._light(), exploration=copy, playhead=playhead), None)
        graph.resize(wide, _LEAST_HEIGHT)
        copy.graph_changed.emit()
        graph.open_as(self._graph_view)
        copy.shown_changed.emit()
        copy.constraints_changed.emit()
        assert copy.shown is not None
        playhead.set_count(len(copy.shown.schedule.steps))
        playhead.seek(self._models.playhead.step, force=True)
        return graph


def _paint(device: QPdfWriter | QSvgGenerator, places: list[_Place], scale: float) -> None:
    painter = QPainter(device)
    try:
        painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering)
        painter.scale(scale, scale)
        for view, place in places:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            QWidget.render(view, painter, place.topLeft(), renderFlags=QWidget.RenderFlag.DrawChildren)
    finally:
        painter.end()
        for view, _ in places:
            view.deleteLater()
