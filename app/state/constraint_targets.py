"""What a constraint can be put on, an op or layers, and what constraints become when it is switched; no Qt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from checkmate.ir.graph import Graph
from checkmate.solvers.constraints import Constraints


class Kind(StrEnum):
    """The two ways to say it; the value is the field of ``Constraints``, with ``_groups`` for layers."""

    KEEP = "keep"
    ONCE = "never_recompute"


@dataclass(frozen=True)
class Target:
    """``layers``, or, where there are none, one op by its name and its ``values``. ``title``: as a sentence names it."""

    title: str
    op: str = ""
    values: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()

    def names(self, kind: Kind) -> tuple[str, ...]:
        """What the constraint names."""
        return self.layers or (self.values if kind is Kind.KEEP else (self.op,))

    def field(self, kind: Kind) -> str:
        """Where ``Constraints`` holds them."""
        return f"{kind.value}_groups" if self.layers else kind.value


def op_target(graph: Graph, op: int, title: str) -> Target:
    """The op itself."""
    entry = graph.ops[op]
    return Target(title, entry.name, tuple(graph.values[value].name for value in entry.outputs))


def layer_target(graph: Graph, ops: Iterable[int], title: str = "") -> Target | None:
    """The layers of ``ops``; None where they have none."""
    layers = tuple(dict.fromkeys(graph.ops[op].group for op in ops if graph.ops[op].group))
    if not layers:
        return None
    return Target(title or f"layer {layers[0]}", layers=layers)


def is_set(constraints: Constraints, kind: Kind, target: Target) -> bool:
    """Whether the constraint is among them, under these very names."""
    names = target.names(kind)
    return bool(names) and set(names) <= set(getattr(constraints, target.field(kind)))


def switched(constraints: Constraints, kind: Kind, target: Target) -> Constraints:
    """With the constraint where it was not set, without it where it was. Names are sorted: their order says nothing."""
    names = set(getattr(constraints, target.field(kind)))
    names = (
        names - set(target.names(kind))
        if is_set(constraints, kind, target)
        else names | set(target.names(kind))
    )
    changed: dict[str, Any] = {target.field(kind): tuple(sorted(names))}
    return replace(constraints, **changed)


def sentence(constraints: Constraints, kind: Kind, target: Target) -> str:
    """What switching it does, for the undo menu."""
    if is_set(constraints, kind, target):
        return f"No longer keep {target.title}" if kind is Kind.KEEP else f"Allow recomputing {target.title}"
    return f"Keep {target.title}" if kind is Kind.KEEP else f"Never recompute {target.title}"
