"""Make a small training graph, and open it in a window."""

from __future__ import annotations

from PySide6.QtWidgets import QDialog, QLabel, QPushButton, QWidget

from app.views.window.main_window import MainWindow
from checkmate.ir.graph import Graph, GraphBuilder, Phase


def training_chain(layers: int = 12) -> Graph:
    """Return a training step with a skip over every second layer. It is a chain with its backward pass."""
    builder = GraphBuilder("chain")
    values, ops = [], []
    for i in range(layers):
        inputs = [values[-1]] if values else []
        if i > 2 and i % 2:
            inputs.append(values[-3])
        values.append(builder.value(f"a{i}", 2**20 * (1 + i % 3)))
        ops.append(builder.op(f"f{i}", inputs, [values[-1]], cost=1.0 + i % 2, group=f"layer{i}"))
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


def button(widget: QWidget, text: str) -> QPushButton:
    return next(one for one in widget.findChildren(QPushButton) if one.text() == text)


def said(dialog: QDialog) -> str:
    return " ".join(label.text() for label in dialog.findChildren(QLabel))
