from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPoint, QPointF, Qt
from PySide6.QtGui import QAction, QImage
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from app.models.exploration import Exploration
from app.models.session import Session
from app.state.knowledge import ListedSchedule
from app.theme import CurrentTheme, ThemeChoice
from app.views.panels.op_tables import LinkTable
from app.views.timeline.matrix_view import MatrixView
from app.views.timeline.pointed_plot import PointedPlot
from app.views.window.main_window import MainWindow
from checkmate import planning
from checkmate.ir import Graph, GraphBuilder, Phase


def training_chain(layers: int = 12) -> Graph:
    """A chain with a skip over every second layer, and its backward pass."""
    builder = GraphBuilder("chain")
    values: list[int] = []
    for i in range(layers):
        inputs = [values[-1]] if values else []
        if i > 2 and i % 2:
            inputs.append(values[-3])
        values.append(builder.value(f"a{i}", 2**20 * (1 + i % 3)))
        builder.op(f"f{i}", inputs, [values[-1]], cost=1.0 + i % 2, group=f"layer{i}")
    gradient = None
    for i in reversed(range(layers)):
        new = builder.value(f"g{i}", 2**20 * (1 + i % 3), keep=i == 0)
        inputs = [values[i], *([values[i - 1]] if i else []), *([gradient] if gradient is not None else [])]
        builder.op(f"b{i}", inputs, [new], cost=2.0, phase=Phase.BACKWARD, group=f"layer{i}")
        gradient = new
    return builder.build(fixed_bytes=2**20)


def open_chain(window: MainWindow, qtbot, layers: int = 12) -> None:
    with qtbot.waitSignal(window.session.exploration.known_changed, timeout=20000):
        window.session.use_graph(training_chain(layers))
    qtbot.waitUntil(lambda: window.session.exploration.what_if.needed_bytes > 0, timeout=60000)


def exploration_of(graph: Graph) -> Exploration:
    exploration = Exploration()
    exploration.set_graph(graph)
    return exploration


def smaller(exploration: Exploration, share: float = 0.8) -> ListedSchedule:
    """Add a schedule with a smaller peak, and show it."""
    budget = int(exploration.plain.peak_bytes * share)
    steps = planning.solve(exploration.graph, budget).require_schedule().steps
    exploration.add(np.asarray(steps), budget_bytes=exploration.plain.peak_bytes, solver="auto", seconds=0.0)
    exploration.show(exploration.known[0])
    return exploration.known[0]


def new_window(qtbot, theme: ThemeChoice = ThemeChoice.LIGHT, **options) -> MainWindow:
    made = MainWindow(Session(), CurrentTheme(theme), **options)
    qtbot.addWidget(made, before_close_func=lambda window: window.session.close())
    return made


def button(widget: QWidget, text: str) -> QPushButton:
    return next(one for one in widget.findChildren(QPushButton) if one.text() == text)


def menu_action(window: MainWindow, text: str) -> QAction:
    menus = [entry.menu() for entry in window.menuBar().actions()]
    (found,) = (entry for menu in menus for entry in menu.actions() if entry.text() == text)
    return found


def said(widget: QWidget) -> str:
    return " ".join(label.text() for label in widget.findChildren(QLabel))


def enter_budget(window: MainWindow, qtbot, text: str) -> None:
    field = window.explorer.budget._entry
    field.setFocus()
    field.selectAll()
    qtbot.keyClicks(field, text)
    qtbot.keyClick(field, Qt.Key.Key_Return)


def pixels(widget: QWidget) -> NDArray[np.uint32]:
    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    return np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), image.width()).copy()


def at_four(**more) -> Graph:
    """A chain whose sizes are those of batch 4."""
    return dataclasses.replace(training_chain(), batch_size=4, **more)


def larger(graph: Graph, times: int = 2) -> Graph:
    """Another graph of the same name, with as many ops, values and batch; only its sizes differ."""
    values = (dataclasses.replace(one, bytes=times * one.bytes) for one in graph.values)
    return dataclasses.replace(graph, values=tuple(values))


def link_texts(table: LinkTable) -> list[tuple[str, str, str, str]]:
    """Role, name, figure and detail of each link in a table of the inspector."""
    lines = table.lines[: len(table.links)]
    return [(one.role.text(), one.name.whole, one.figure.text(), one.detail.text()) for one in lines]


def cursor_line(plot: PointedPlot, step: int) -> QLineF:
    """Return where the line of ``step`` is, in the plot's pixels."""
    box = plot.getPlotItem().vb
    x = plot.mapFromScene(box.mapViewToScene(QPointF(plot._place_of(step), 0.0))).x()
    area = plot.mapFromScene(box.sceneBoundingRect()).boundingRect()
    return QLineF(x, area.top(), x, area.bottom())


def cell_place(matrix: MatrixView, step: int, op: int) -> QPoint:
    """Return where an op's row is below a step, in pixels of the view that shows R or S."""
    row = matrix._row_of(op)
    assert row is not None
    scene = matrix.getPlotItem().vb.mapViewToScene(QPointF(matrix._place_of(step), row))
    return matrix.mapFromScene(scene)


def click_op(window: MainWindow, qtbot, op: int, number: int = 0) -> None:
    """Click an op's first computation in R, or with ``number`` 1 what is held after it in S."""
    matrix, shown = window.explorer.matrices[number], window.session.exploration.shown
    step = int(np.flatnonzero(shown.schedule.steps == op)[0]) + number
    qtbot.mouseClick(matrix.viewport(), Qt.MouseButton.LeftButton, pos=cell_place(matrix, step, op))
