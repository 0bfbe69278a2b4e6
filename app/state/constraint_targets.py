"""The op or the layers that a constraint is put on, and how it is switched. No Qt here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from checkmate.ir import Graph
from checkmate.solvers.constraints import Constraints


class ConstraintKind(StrEnum):
    """The window's two constraints: fields of ``Constraints``, with ``_groups`` at the end for layers."""

    KEEP = "keep"
    ONCE = "never_recompute"


# The sentence for each kind of constraint, by whether it is set now.
_SENTENCES = {
    (ConstraintKind.KEEP, False): "Keep",
    (ConstraintKind.KEEP, True): "No longer keep",
    (ConstraintKind.ONCE, False): "Never recompute",
    (ConstraintKind.ONCE, True): "Allow recomputing",
}


@dataclass(frozen=True)
class ConstraintTarget:
    """What a constraint is put on: ``layers``, or one ``op`` and its ``values``. ``title``: in a sentence."""

    title: str
    op: str = ""
    values: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()

    def names(self, kind: ConstraintKind) -> tuple[str, ...]:
        return self.layers or (self.values if kind is ConstraintKind.KEEP else (self.op,))

    def field(self, kind: ConstraintKind) -> str:
        return f"{kind.value}_groups" if self.layers else kind.value


def op_target(graph: Graph, op: int, title: str) -> ConstraintTarget:
    entry = graph.ops[op]
    return ConstraintTarget(title, entry.name, tuple(graph.values[value].name for value in entry.outputs))


def layer_target(graph: Graph, ops: Iterable[int]) -> ConstraintTarget | None:
    layers = tuple(dict.fromkeys(graph.ops[op].group for op in ops if graph.ops[op].group))
    if not layers:
        return None
    return ConstraintTarget(f"layer {layers[0]}", layers=layers)


def is_set(constraints: Constraints, kind: ConstraintKind, target: ConstraintTarget) -> bool:
    names = target.names(kind)
    return bool(names) and set(names) <= set(getattr(constraints, target.field(kind)))


def switched(constraints: Constraints, kind: ConstraintKind, target: ConstraintTarget) -> Constraints:
    """Return ``constraints`` with the constraint added, or removed if it was there. The names are sorted."""
    names, own = set(getattr(constraints, target.field(kind))), set(target.names(kind))
    names = names - own if is_set(constraints, kind, target) else names | own
    changed: dict[str, Any] = {target.field(kind): tuple(sorted(names))}
    return replace(constraints, **changed)


def sentence(constraints: Constraints, kind: ConstraintKind, target: ConstraintTarget) -> str:
    return f"{_SENTENCES[kind, is_set(constraints, kind, target)]} {target.title}"
