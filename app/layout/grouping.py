from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.layout.repeats import BlockRun, block_names, run_name, shared_start
from checkmate.ir import Graph, Phase

_TOKEN = re.compile(r"[A-Za-z]+\d*|\d+")
_MOST_CHILDREN = 8
_FEW = 4  # layers beside equal blocks; so few are not grouped


@dataclass
class Group:
    """Neighbouring layers of the forward pass that share ``name``. They are the layers ``first`` to ``last``
    (excluded). A group with ``children`` can be opened. More than one of ``copies`` says that the children
    are equal blocks."""

    name: str
    first: int
    last: int
    depth: int
    children: list[Group] = field(default_factory=list)
    copies: int = 1

    @property
    def key(self) -> tuple[int, int]:
        """A unique key. A run of equal blocks may span the same layers as another group, so its end is
        negative."""
        return self.first, self.last if self.copies == 1 else -self.last

    @property
    def full_name(self) -> str:
        return self.name if self.copies == 1 else f"{self.name} × {self.copies}"


def group_tree(names: Sequence[str], runs: Sequence[BlockRun] = ()) -> Group:
    """Return a tree of all layers. A group has two to ``_MOST_CHILDREN`` children, or none. Each of ``runs``
    is a group, whose children are its blocks."""
    tokens = [_ends(name) for name in names]
    root = Group("", 0, len(names), 0)
    if not runs:
        _divide(names, tokens, root, root)
        return root
    at, parts = 0, list[Group]()
    for run in runs:
        parts += _between(names, tokens, at, run.first)
        parts.append(_of_run(names, tokens, run))
        at = run.last
    parts += _between(names, tokens, at, len(names))
    root.children = parts if len(parts) == 1 else _gathered(parts, 2 * _MOST_CHILDREN)
    return root


def _between(names: Sequence[str], tokens: Sequence[Sequence[int]], first: int, last: int) -> list[Group]:
    if last - first <= _FEW:
        return [Group(names[layer], layer, layer + 1, 0) for layer in range(first, last)]
    name = shared_start(names, range(first, last)).rstrip("_/ .-")
    part = Group(name or _range_name(names[first], names[last - 1]), first, last, 0)
    _divide(names, tokens, part, part)
    return [part] if part.children else []


def _of_run(names: Sequence[str], tokens: Sequence[Sequence[int]], run: BlockRun) -> Group:
    made = Group(run_name(names, run), run.first, run.last, 0, copies=run.copies)
    for name, block in zip(block_names(names, run), run.blocks(), strict=True):
        inner = Group(name, block.start, block.stop, 0)
        if run.length > 1:
            _divide(names, tokens, inner, None)
        made.children.append(inner)
    return made


def _divide(names: Sequence[str], tokens: Sequence[Sequence[int]], root: Group, wide: Group | None) -> None:
    pending = [root]
    while pending:
        group = pending.pop()
        runs = _runs(names, tokens, group)
        pending += runs
        group.children = _gathered(runs, 2 * _MOST_CHILDREN if group is wide else _MOST_CHILDREN)


def _ends(name: str) -> list[int]:
    ends = [match.end() for match in _TOKEN.finditer(name)] or [len(name)]
    return [*ends[:-1], len(name)]


def _runs(names: Sequence[str], tokens: Sequence[Sequence[int]], group: Group) -> list[Group]:
    """Split a group by the next part of its layers' names that is not the same for all of them."""

    def part(layer: int, depth: int) -> str:
        ends = tokens[layer]
        return names[layer][: ends[min(depth, len(ends)) - 1]]

    layers = range(group.first, group.last)
    for depth in range(group.depth + 1, max(len(tokens[layer]) for layer in layers) + 1 if layers else 0):
        runs: list[Group] = []
        for layer in layers:
            name = part(layer, depth)
            if runs and runs[-1].name == name:
                runs[-1].last = layer + 1
            else:
                runs.append(Group(name, layer, layer + 1, depth))
        if len(runs) > 1:
            for run in runs:
                _name_fully(names, run, part)
            return runs
    return []


def _name_fully(names: Sequence[str], run: Group, part: Callable[[int, int], str]) -> None:
    if run.last - run.first == 1:
        run.name = names[run.first]
        return
    while True:
        longer = {part(layer, run.depth + 1) for layer in range(run.first, run.last)}
        if len(longer) > 1 or longer == {run.name}:
            return
        run.name, run.depth = longer.pop(), run.depth + 1


def _gathered(runs: list[Group], most: int) -> list[Group]:
    while len(runs) > most:
        size = -(-len(runs) // most)
        parts = [runs[at : at + size] for at in range(0, len(runs), size)]
        runs = [
            part[0]
            if len(part) == 1
            else Group(
                _range_name(part[0].name, part[-1].name), part[0].first, part[-1].last, part[0].depth, part
            )
            for part in parts
        ]
    return runs if len(runs) > 1 else []


TO = " – "


def _range_name(first: str, last: str) -> str:
    """Name layers by the first and the last of them: ``stage1/block2 – block4``."""
    begin, end = first.split(TO)[0], last.split(TO)[-1]
    return begin + TO + end.removeprefix(shared_start([begin, end], range(2)))


def opened_by_default(root: Group, most_boxes: int) -> frozenset[tuple[int, int]]:
    """Return the keys of groups to open so that at most ``most_boxes`` are closed: outer ones first, then
    larger ones. Equal blocks stay one box, unless there is room for every layer."""
    every = root.last - root.first <= most_boxes
    opened, shown = {root.key}, [(1, child) for child in root.children] or [(0, root)]
    while True:
        fitting = [
            (level, group)
            for level, group in shown
            if group.children
            and (every or group.copies == 1)
            and len(shown) - 1 + len(group.children) <= most_boxes
        ]
        if not fitting:
            return frozenset(opened)
        level, group = min(
            fitting, key=lambda entry: (entry[0], entry[1].first - entry[1].last, entry[1].first)
        )
        at = shown.index((level, group))
        shown[at : at + 1] = [(level + 1, child) for child in group.children]
        opened.add(group.key)


def visible_groups(root: Group, opened: frozenset[tuple[int, int]]) -> tuple[list[Group], list[Group]]:
    """Return (closed groups from left to right, open groups around them, outermost first). Closed blocks
    between open ones of the same run are one group."""
    closed: list[Group] = []
    around: list[Group] = []
    pending = [root]
    while pending:
        group = pending.pop()
        if not group.children or group.key not in opened:
            parts = pieces(group, opened)
            if len(parts) == 1:
                closed.append(group)
            pending += reversed(parts if len(parts) > 1 else [])
            continue
        if group is not root:
            around.append(group)
        pending += reversed(group.children)
    return closed, around


def pieces(group: Group, opened: frozenset[tuple[int, int]]) -> list[Group]:
    if group.copies == 1 or not any(child.key in opened for child in group.children):
        return [group]
    found: list[Group] = []
    for block in group.children:
        before = found[-1] if found else None
        if block.key in opened or before is None or before.key in opened:
            found.append(block)
        else:
            inner = [*before.children, block] if before.copies > 1 else [before, block]
            found[-1] = Group(group.name, before.first, block.last, group.depth, inner, len(inner))
    return found


@dataclass(frozen=True)
class LayerSizes:
    """A layer, its ops, and the bytes that they write in each phase. ``largest``: by phase, (bytes, op) of
    the op that writes most."""

    name: str
    ops: tuple[int, ...]
    bytes_of: Mapping[Phase, int] = field(default_factory=dict)
    largest: Mapping[Phase, tuple[int, int]] = field(default_factory=dict)

    def bytes(self, phase: Phase | None) -> int:
        """Return what its ops of the phase write; None: its activations."""
        get = self.bytes_of.get
        return get(Phase.FORWARD, 0) + get(Phase.LOSS, 0) if phase is None else get(phase, 0)

    def op(self, phase: Phase | None) -> int:
        largest = self.largest
        if phase is not None:
            return largest[phase][1]
        return max(largest[one] for one in (Phase.FORWARD, Phase.LOSS) if one in largest)[1]

    def has(self, phase: Phase | None) -> bool:
        """Return whether it has ops of the phase; None: of the forward pass."""
        of = self.bytes_of
        return Phase.FORWARD in of or Phase.LOSS in of if phase is None else phase in of


def layers_of(graph: Graph) -> tuple[LayerSizes, ...]:
    ops: dict[str, list[int]] = {}
    for index, op in enumerate(graph.ops):
        ops.setdefault(op.group or op.name, []).append(index)
    return tuple(_layer(graph, name, found) for name, found in ops.items())


def _layer(graph: Graph, name: str, ops: list[int]) -> LayerSizes:
    bytes_of: dict[Phase, int] = {}
    largest: dict[Phase, tuple[int, int]] = {}
    for index in ops:
        op = graph.ops[index]
        written = sum(graph.values[value].bytes for value in op.outputs)
        bytes_of[op.phase] = bytes_of.get(op.phase, 0) + written
        largest[op.phase] = max(largest.get(op.phase, (-1, index)), (written, index))
    return LayerSizes(name, tuple(ops), bytes_of, largest)
