"""Which layers share a box; no Qt.

Neighbours whose names begin alike share one. Groups are opened until as many boxes are shown as fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_TOKEN = re.compile(r"[A-Za-z]+\d*|\d+")
_MOST_CHILDREN = 8


@dataclass
class Group:
    """Neighbouring layers of the forward pass that share ``name``.

    They are the layers ``first`` to ``last`` (excluded). A group with ``children`` can be opened.
    """

    name: str
    first: int
    last: int
    depth: int
    children: list[Group] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, int]:
        """Return the group's identity within its graph."""
        return self.first, self.last


def group_tree(names: Sequence[str]) -> Group:
    """Return all layers as one tree.

    A node has no children or at least two, and at most ``_MOST_CHILDREN``.
    """
    tokens = [_ends(name) for name in names]
    root = Group("", 0, len(names), 0)
    pending = [root]
    while pending:
        group = pending.pop()
        runs = _runs(names, tokens, group)
        pending += runs
        group.children = _gathered(runs, 2 * _MOST_CHILDREN if group is root else _MOST_CHILDREN)
    return root


def _ends(name: str) -> list[int]:
    """Return where each part of a name ends; the last part ends with the name."""
    ends = [match.end() for match in _TOKEN.finditer(name)] or [len(name)]
    return [*ends[:-1], len(name)]


def _runs(names: Sequence[str], tokens: Sequence[Sequence[int]], group: Group) -> list[Group]:
    """Return the runs of layers that agree in one more part of their name.

    Look deeper if that part tells no layers apart.
    """

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
    """Return as much of the name as all layers of the run share."""
    if run.last - run.first == 1:
        run.name = names[run.first]
        return
    while True:
        longer = {part(layer, run.depth + 1) for layer in range(run.first, run.last)}
        if len(longer) > 1 or longer == {run.name}:
            return
        run.name, run.depth = longer.pop(), run.depth + 1


def _gathered(runs: list[Group], most: int) -> list[Group]:
    """Join neighbouring ``runs`` if there are too many to show side by side."""
    while len(runs) > most:
        size = -(-len(runs) // most)
        parts = [runs[at : at + size] for at in range(0, len(runs), size)]
        runs = [
            part[0]
            if len(part) == 1
            else Group(f"{part[0].name} …", part[0].first, part[-1].last, part[0].depth, part)
            for part in parts
        ]
    return runs if len(runs) > 1 else []


def opened_by_default(root: Group, most_boxes: int) -> frozenset[tuple[int, int]]:
    """Return the groups to open, with at most ``most_boxes`` closed ones left.

    Outer groups are opened before inner ones, and larger before smaller ones.
    """
    opened, shown = {root.key}, [(1, child) for child in root.children] or [(0, root)]
    while True:
        fitting = [
            (level, group)
            for level, group in shown
            if group.children and len(shown) - 1 + len(group.children) <= most_boxes
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
    """Return (closed groups, open groups around them).

    The closed ones are listed from left to right, the open ones outermost first.
    """
    closed: list[Group] = []
    around: list[Group] = []
    pending = [root]
    while pending:
        group = pending.pop()
        if not group.children or group.key not in opened:
            closed.append(group)
            continue
        if group is not root:
            around.append(group)
        pending += reversed(group.children)
    return closed, around
