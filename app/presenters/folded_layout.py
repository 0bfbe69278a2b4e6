"""Where the boxes of the training graph go: forward on the upper rail, each gradient below its layer; no Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.ir.graph import Graph, Phase

MOST_BOXES = 26
BOX_WIDTH, BOX_HEIGHT, GAP = 68.0, 52.0, 13.0
UPPER, LOWER = 0.0, 168.0


@dataclass(frozen=True)
class Box:
    """One group of ops on one rail: its place, its ops, its name and the bytes it writes."""

    x: float
    y: float
    name: str
    backward: bool
    ops: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Layout:
    """``boxes``; ``edges``: pairs of box indices; ``box_of``: box per op; ``width``, ``height`` of all of it."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    box_of: tuple[int, ...]
    width: float
    height: float


def folded_layout(graph: Graph, *, most_boxes: int = MOST_BOXES) -> Layout:
    """Columns in the order of the forward pass; a column's forward ops above, its gradients and updates below."""
    column_of = _columns(graph, most_boxes)
    count = max(column_of) + 1 if column_of else 0
    upper: list[list[int]] = [[] for _ in range(count)]
    lower: list[list[int]] = [[] for _ in range(count)]
    for op, column in enumerate(column_of):
        late = graph.ops[op].phase in (Phase.BACKWARD, Phase.UPDATE)
        (lower if late else upper)[column].append(op)
    boxes: list[Box] = []
    box_of = [-1] * graph.n
    for rail, y, late in ((upper, UPPER, False), (lower, LOWER, True)):
        for column, ops in enumerate(rail):
            if not ops:
                continue
            written = sum(graph.values[v].bytes for op in ops for v in graph.ops[op].outputs)
            x = column * (BOX_WIDTH + GAP)
            boxes.append(Box(x, y, _box_name(graph, ops), late, tuple(ops), written))
            for op in ops:
                box_of[op] = len(boxes) - 1
    pairs: dict[tuple[int, int], None] = {}
    for op in range(graph.n):
        for before in graph.predecessors[op].tolist():
            if box_of[before] != box_of[op]:
                pairs[box_of[before], box_of[op]] = None
    return Layout(tuple(boxes), tuple(pairs), tuple(box_of), count * (BOX_WIDTH + GAP) - GAP, LOWER + BOX_HEIGHT)


def _columns(graph: Graph, most_boxes: int) -> list[int]:
    """Column per op: layers in the order of their first forward op, neighbours joined until there are few enough."""
    first: dict[str, int] = {}
    for op in graph.ops:
        if op.phase in (Phase.FORWARD, Phase.LOSS):
            first.setdefault(op.group or op.name, len(first))
    if not first:
        first = {op.group or op.name: i for i, op in enumerate(graph.ops)}
    columns = []
    latest = len(first) - 1
    for op in graph.ops:
        # A gradient outside every layer stands where the pass has come to.
        latest = first.get(op.group or op.name, latest)
        columns.append(latest)
    per_box = -(-len(first) * 2 // most_boxes) if 2 * len(first) > most_boxes else 1
    return [column // per_box for column in columns]


def _box_name(graph: Graph, ops: Sequence[int]) -> str:
    names = list(dict.fromkeys((graph.ops[op].group or graph.ops[op].name).rsplit("/", 1)[-1] for op in ops))
    if len(names) == 1:
        return names[0]
    shared = _shared_start(names).rstrip("_0123456789-")
    return shared if len(shared) > 2 else f"{names[0]} …"


def _shared_start(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    length = next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:length]
