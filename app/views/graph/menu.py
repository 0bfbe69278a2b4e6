"""The graph's context menu.

Its entries are to keep a box, or its largest op, or never to recompute it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from PySide6.QtWidgets import QMenu, QWidget

from app.actions import action
from app.layout.folded import Box, GroupFrame
from app.models.undo import UndoCommands
from app.presenters.memory_curve import largest_op
from app.presenters.wording import short_name
from app.state.constraint_targets import ConstraintKind, ConstraintTarget, layer_target, op_target
from checkmate.ir.graph import Graph


def what_if_menu(
    parent: QWidget, graph: Graph, box: Box, what_ifs: UndoCommands, *, can_clear: bool
) -> QMenu:
    """Return a menu of switches. ``can_clear`` says that there are constraints to clear."""
    menu, op = QMenu(parent), largest_op(graph, box)
    op_name, layers = short_name(graph.ops[op].name), layer_target(graph, box.ops)
    entries: list[tuple[ConstraintTarget | None, str]] = [
        (layers, box.full_name.strip("_/ ")),
        (op_target(graph, op, op_name), op_name),
    ]
    for target, name in entries:
        if target is not None:
            menu.addSeparator()
            _add_switches(menu, target, name, what_ifs)
    menu.addSeparator()
    clear = menu.addAction(action("edit.clear").words, what_ifs.clear)
    clear.setEnabled(can_clear)
    return menu


def add_block_entries(
    menu: QMenu,
    box: Box,
    frame: GroupFrame | None,
    open_box: Callable[..., None],
    fold: Callable[[GroupFrame], None],
) -> None:
    """Add entries that open what a box stands for, and fold what it is in."""
    menu.addSeparator()
    if box.copies > 1:
        menu.addAction("Open one block", partial(open_box, box))
        menu.addAction(f"Open all {box.copies} blocks", partial(open_box, box, every=True))
    elif box.can_open:
        menu.addAction(f"Open {box.full_name.strip('_/ ')}", partial(open_box, box))
    if frame is not None:
        menu.addAction(f"Fold {frame.name}", partial(fold, frame))


def _add_switches(menu: QMenu, target: ConstraintTarget, name: str, what_ifs: UndoCommands) -> None:
    title = f"layer {name}" if target.layers and len(target.layers) == 1 else name
    title = f"all of {name}" if len(target.layers) > 1 else title
    for kind, text in (
        (ConstraintKind.KEEP, f"Keep {title} always"),
        (ConstraintKind.ONCE, f"Never recompute {title}"),
    ):
        named = replace(target, title=title)
        switch = menu.addAction(text)
        switch.setCheckable(True)
        switch.setChecked(what_ifs.is_set(kind, named))
        switch.setEnabled(bool(named.names(kind)))
        switch.triggered.connect(lambda _=False, k=kind, t=named: what_ifs.switch(k, t))
