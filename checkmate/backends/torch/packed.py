"""FX graphs as plain data, which another process reads. PyTorch's own pickles trace a module's code again,
and what reads no input (``arange``, a draw) would become a constant there.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate


@dataclass(frozen=True)
class _Node:
    name: str


@dataclass(frozen=True)
class _OfTorch:
    """What ``torch`` has under a dotted name."""

    name: str


def packed(module: fx.GraphModule) -> tuple[list[tuple[Any, ...]], dict[str, torch.Tensor]]:
    """Return of each node its kind, name, target and arguments, and the constants by name."""
    nodes = [
        (node.op, node.name, *map_aggregate((node.target, node.args, dict(node.kwargs)), _named))
        for node in module.graph.nodes
    ]
    held = {node.target: getattr(module, node.target) for node in module.graph.find_nodes(op="get_attr")}
    return nodes, held


def _named(each: Any) -> Any:
    if isinstance(each, fx.Node):
        return _Node(each.name)
    if isinstance(each, torch._ops.OpOverload):
        return _OfTorch(f"ops.{each}")
    if isinstance(each, torch._ops.HigherOrderOperator):
        return _OfTorch(f"ops.higher_order.{each.name()}")
    if isinstance(each, torch.dtype | torch.layout | torch.memory_format):
        return _OfTorch(str(each).removeprefix("torch."))
    return each


def unpacked(nodes: list[tuple[Any, ...]], held: dict[str, torch.Tensor]) -> fx.GraphModule:
    graph, known = fx.Graph(), dict[str, fx.Node]()

    def found(each: Any) -> Any:
        if isinstance(each, _Node):
            return known[each.name]
        return attrgetter(each.name)(torch) if isinstance(each, _OfTorch) else each

    for kind, name, *rest in nodes:
        target, args, kwargs = map_aggregate(tuple(rest), found)
        known[name] = graph.create_node(kind, target, tuple(args), dict(kwargs), name=name)
    return fx.GraphModule(held, graph)
