from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.layout.grouping import TO, Group, group_tree, opened_by_default, visible_groups
from app.layout.repeats import find_runs
from checkmate.ir import Graph, Phase

MOST_BOXES = 60
Opened = frozenset[tuple[int, int]]  # the keys of groups
_LATE = (Phase.BACKWARD, Phase.UPDATE)


@dataclass(frozen=True)
class Box:
    """One box of the picture: a group of ops on one rail. ``bytes``: what they write, each once. ``key``: its
    group. ``copies``: how many equal blocks it stands for."""

    column: int
    name: str
    full_name: str
    backward: bool
    ops: tuple[int, ...]
    bytes: int
    key: tuple[int, int]
    can_open: bool
    copies: int = 1


@dataclass(frozen=True)
class GroupFrame:
    """An open group of layers, drawn as a frame around the columns ``first`` to ``last`` (included)."""

    name: str
    first: int
    last: int
    depth: int
    ops: int
    key: tuple[int, int]


@dataclass(frozen=True)
class GraphLayout:
    """The boxes on screen and what connects them. ``edges`` are pairs of box indices, ``box_of`` is the box
    of each op, ``columns`` is the number of columns."""

    boxes: tuple[Box, ...]
    frames: tuple[GroupFrame, ...]
    edges: tuple[tuple[int, int], ...]
    box_of: tuple[int, ...]
    columns: int

    @property
    def frames_deep(self) -> int:
        """How many frames are inside each other."""
        return 1 + max((frame.depth for frame in self.frames), default=-1)


class Folding:
    """The layers of one graph as a tree, and a layout for any choice of open groups."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._layer_of, names = _layers(graph)
        self._late = [op.phase in _LATE for op in graph.ops]
        self._written = [sum(graph.values[value].bytes for value in op.outputs) for op in graph.ops]
        self.root = group_tree(names, find_runs(graph, self._layer_of, names))

    def opened_by_default(self, most_columns: int) -> Opened:
        return opened_by_default(self.root, max(1, min(most_columns, MOST_BOXES // 2)))

    def groups_around(self, op: int) -> Opened:
        layer, group, around = self._layer_of[op], self.root, set()
        while group.children:
            inner = next(child for child in group.children if child.first <= layer < child.last)
            around.add((group if group.copies == 1 else inner).key)
            group = inner
        return frozenset(around)

    @property
    def runs(self) -> list[Group]:
        found, pending = list[Group](), [self.root]
        while pending:
            group = pending.pop()
            if group.copies > 1:
                found.append(group)
            else:
                pending += reversed(group.children)
        return found

    def opening(self, opened: Opened, box: Box, op: int, *, every: bool) -> Opened:
        """Open ``box``. If it stands for equal blocks, open the block of ``op`` (else the first), or
        ``every`` one."""
        run = self._run_of(box)
        if run is None:
            return opened | {box.key}
        if every:
            return self._folded(opened, run) | {run.key}
        layer = self._layer_of[op if op in box.ops else box.ops[0]]
        return opened | {block.key for block in run.children if block.first <= layer < block.last}

    def folding(self, opened: Opened, key: tuple[int, int]) -> Opened:
        run = next((run for run in self.runs if run.key == key), None)
        return opened - {key} if run is None else self._folded(opened, run)

    def turning_blocks(self, opened: Opened) -> Opened:
        """Open all equal blocks, or fold them all where some are open."""
        without = opened
        for run in self.runs:
            without = self._folded(without, run)
        return without | {run.key for run in self.runs} if without == opened else without

    def _run_of(self, box: Box) -> Group | None:
        layer = self._layer_of[box.ops[0]]
        inside = (run for run in self.runs if run.first <= layer < run.last)
        return next(inside, None) if box.copies > 1 else None

    def _folded(self, opened: Opened, run: Group) -> Opened:
        inside = {key for key in opened if run.first <= key[0] and abs(key[1]) <= run.last}
        return opened - inside | (inside & {self.root.key})

    def layout(self, opened: Opened) -> GraphLayout:
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
            boxes.append(
                Box(
                    column=column,
                    name=_short_name(group, inside.get(group.key, "")),
                    full_name=group.full_name,
                    backward=late,
                    ops=tuple(ops),
                    bytes=sum(self._written[op] for op in ops),
                    key=group.key,
                    can_open=bool(group.children),
                    copies=group.copies,
                )
            )
            for op in ops:
                box_of[op] = len(boxes) - 1
        frames = tuple(self._frame(group, around, column_of_layer) for group in around)
        return GraphLayout(tuple(boxes), frames, _edges(graph, box_of), tuple(box_of), len(closed))

    def _frame(self, group: Group, around: list[Group], column_of_layer: list[int]) -> GroupFrame:
        ops = [op for op, layer in enumerate(self._layer_of) if group.first <= layer < group.last]
        depth = sum(g.first <= group.first and group.last <= g.last for g in around) - 1
        first, last = column_of_layer[group.first], column_of_layer[group.last - 1]
        return GroupFrame(group.full_name.strip("_/ "), first, last, depth, len(ops), group.key)


def _layers(graph: Graph) -> tuple[list[int], list[str]]:
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
    name = group.name.removeprefix(parent).strip("_/ ") if parent else group.name
    name = name or group.name
    return TO.join(end.rsplit("/", 1)[-1].strip("_ ") or end for end in name.split(TO))


def _edges(graph: Graph, box_of: list[int]) -> tuple[tuple[int, int], ...]:
    boxes, before = np.array(box_of, np.int64), graph.predecessors
    source, target = boxes[before.ids], np.repeat(boxes, np.diff(before.starts))
    across = source != target
    source, target = source[across], target[across]
    first = np.sort(np.unique(source * (graph.n + 1) + target, return_index=True)[1])
    return tuple(zip(source[first].tolist(), target[first].tolist(), strict=True))
