"""Where the boxes of the training graph go; no Qt.

Forward ops stand on the upper rail, and each gradient below its layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.layout.grouping import Group, group_tree, opened_by_default, visible_groups
from checkmate.ir.graph import Graph, Phase

MOST_BOXES = 60
BOX_WIDTH, BOX_HEIGHT, GAP = 64.0, 56.0, 14.0
_LATE = (Phase.BACKWARD, Phase.UPDATE)


@dataclass(frozen=True)
class Box:
    """One group of ops on one rail.

    It has a column, its ops, its name and the bytes that they write. ``key`` is the group that it stands for.
    """

    column: int
    name: str
    full_name: str
    backward: bool
    ops: tuple[int, ...]
    bytes: int
    key: tuple[int, int]
    can_open: bool

    @property
    def x(self) -> float:
        """Return the left edge."""
        return self.column * (BOX_WIDTH + GAP)


@dataclass(frozen=True)
class GroupFrame:
    """An open group of layers, drawn as a frame.

    It covers the columns ``first`` to ``last`` (included). It has its depth, and what it holds.
    """

    name: str
    first: int
    last: int
    depth: int
    ops: int
    bytes: int
    key: tuple[int, int]


@dataclass(frozen=True)
class GraphLayout:
    """The boxes on screen and what connects them.

    ``edges`` are pairs of box indices, ``box_of`` is the box of each op, ``columns`` is the number of
    columns.
    """

    boxes: tuple[Box, ...]
    frames: tuple[GroupFrame, ...]
    edges: tuple[tuple[int, int], ...]
    box_of: tuple[int, ...]
    columns: int

    @property
    def width(self) -> float:
        """Return the width of all columns."""
        return self.columns * (BOX_WIDTH + GAP) - GAP


class Folding:
    """The layers of one graph as a tree, and its layouts.

    There is a layout for any choice of open groups.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._layer_of, names = _layers(graph)
        self._late = [op.phase in _LATE for op in graph.ops]
        self._written = [sum(graph.values[value].bytes for value in op.outputs) for op in graph.ops]
        self.root = group_tree(names)

    def opened_by_default(self, most_columns: int) -> frozenset[tuple[int, int]]:
        """Return the groups to open so that at most ``most_columns`` are shown."""
        return opened_by_default(self.root, max(1, min(most_columns, MOST_BOXES // 2)))

    def layout(self, opened: frozenset[tuple[int, int]]) -> GraphLayout:
        """Lay the boxes out in columns.

        Columns follow the order of the forward pass. The forward ops of a column stand above, its gradients
        and updates below.
        """
        graph = self._graph
        closed, around = visible_groups(self.root, opened)
        column_of_layer = [
            column for column, group in enumerate(closed) for _ in range(group.first, group.last)
        ]
        rails: dict[tuple[bool, int], list[int]] = {}
        for op, layer in enumerate(self._layer_of):
            rails.setdefault((self._late[op], column_of_layer[layer]), []).append(op)
        inside = {child.key: group.name for group in around for child in group.children}
        boxes: list[Box] = []
        box_of = [-1] * graph.n
        for (late, column), ops in sorted(rails.items()):
            group = closed[column]
            name = _short_name(group, inside.get(group.key, ""))
            size = sum(self._written[op] for op in ops)
            boxes.append(
                Box(column, name, group.name, late, tuple(ops), size, group.key, bool(group.children))
            )
            for op in ops:
                box_of[op] = len(boxes) - 1
        frames = tuple(self._frame(group, around, column_of_layer) for group in around)
        return GraphLayout(tuple(boxes), frames, _edges(graph, box_of), tuple(box_of), len(closed))

    def _frame(self, group: Group, around: list[Group], column_of_layer: list[int]) -> GroupFrame:
        ops = [op for op, layer in enumerate(self._layer_of) if group.first <= layer < group.last]
        depth = sum(g.first <= group.first and group.last <= g.last for g in around) - 1
        first, last = column_of_layer[group.first], column_of_layer[group.last - 1]
        size = sum(self._written[op] for op in ops if not self._late[op])
        return GroupFrame(group.name.strip("_/ "), first, last, depth, len(ops), size, group.key)


def _layers(graph: Graph) -> tuple[list[int], list[str]]:
    """Return (layer of each op, layer names), in forward order."""
    first: dict[str, int] = {}
    for op in graph.ops:
        if op.phase not in _LATE:
            first.setdefault(op.group or op.name, len(first))
    if not first:
        first = {name: i for i, name in enumerate(dict.fromkeys(op.group or op.name for op in graph.ops))}
    layer_of = []
    latest = len(first) - 1
    for op in graph.ops:
        # A gradient outside every layer belongs to the layer that the pass has reached.
        latest = first.get(op.group or op.name, latest)
        layer_of.append(latest)
    return layer_of, list(first)


def _short_name(group: Group, parent: str) -> str:
    """Return the group's name without what the frame around it already says."""
    name = group.name.removeprefix(parent).strip("_/ ") if parent else group.name
    name = name or group.name
    return name.rsplit("/", 1)[-1].strip("_ ") or name


def _edges(graph: Graph, box_of: list[int]) -> tuple[tuple[int, int], ...]:
    """Return the edges between boxes, in the order of the ops.

    An edge is a pair of boxes in which one needs what the other writes.
    """
    boxes, before = np.array(box_of, np.int64), graph.predecessors
    source, target = boxes[before.ids], np.repeat(boxes, np.diff(before.starts))
    across = source != target
    source, target = source[across], target[across]
    first = np.sort(np.unique(source * (graph.n + 1) + target, return_index=True)[1])
    return tuple(zip(source[first].tolist(), target[first].tolist(), strict=True))
