"""networkx node-link graphs as published with MOCCASIN (ICML 2023), in both shapes found there.

Training graphs have nodes with ``cost_cpu``, ``cost_ram``, ``backward``, ``id`` and links
``source``/``target``, in execution order. Random layered graphs have ``duration``, ``out_cost``, ``name``,
links keyed ``"0"``/``"1"`` and the execution order in ``graph.order``. A node has one value, and only the
last node's is kept.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from checkmate.errors import FormatError, GraphError
from checkmate.formats.files import Fields
from checkmate.ir import CostOrigin, CostUnit, Graph, Op, Phase, Value

_NUMBER = re.compile("[0-9]{1,18}")


def looks_like_node_link(data: Any) -> bool:
    return isinstance(data, dict) and "nodes" in data and ("links" in data or "edges" in data)


def graph_from_node_link(path: Path, data: Any) -> Graph:
    fields = Fields(path, data)
    nodes = fields.entries("nodes")
    if not nodes:
        raise FormatError(f"{path}: nodes is empty")
    trained = "cost_ram" in nodes[0].data
    names = [_key(node, "id" if "id" in node.data else "name") for node in nodes]
    order = [_plain(name) for name in _order(fields, names)]
    position = {name: i for i, name in enumerate(order)}
    if len(order) != len(names) or set(position) != set(names):
        raise FormatError(f"{path}: graph.order is not a permutation of the nodes")
    inputs: list[list[int]] = [[] for _ in nodes]
    key = "links" if "links" in data else "edges"
    for entry in fields.entries(key):
        source, target = ("source", "target") if "source" in entry.data else ("0", "1")
        ends = _plain(entry.get(source, (int, str))), _plain(entry.get(target, (int, str)))
        for end in ends:
            if end not in position:
                raise FormatError(f"{path}: {entry.where} names node {end!r}, which does not exist")
        inputs[position[ends[1]]].append(position[ends[0]])
    by_name = dict(zip(names, nodes, strict=True))
    ops, values = [], []
    for i, name in enumerate(order):
        node = by_name[name]
        label = str(node.data.get("name", name))
        backward = bool(node.data.get("backward", False))
        phase = Phase.BACKWARD if backward else Phase.FORWARD
        cost = node.number("cost_cpu" if trained else "duration")
        ops.append(
            Op(label, "node", phase, label, cost, inputs=tuple(dict.fromkeys(inputs[i])), outputs=(i,))
        )
        size = node.whole("cost_ram" if trained else "out_cost")
        values.append(Value(f"{label}:0", size, keep=i == len(order) - 1))
    try:
        name = str((data.get("graph") or {}).get("name", path.stem))
        unit = CostUnit.UNIT
        return Graph(name, tuple(ops), tuple(values), cost_unit=unit, cost_origin=CostOrigin.GIVEN)
    except GraphError as error:
        raise FormatError(f"{path}: {error}") from error


def _order(fields: Fields, names: list[Any]) -> list[Any]:
    graph = fields.get("graph", dict, {})
    order = graph.get("order")
    if not isinstance(order, list):
        return names
    for entry in order:
        if isinstance(entry, bool) or not isinstance(entry, (int, str)):
            raise FormatError(f"{fields.path}: graph.order contains {entry!r}, not a node")
    return list(order)


def _key(node: Fields, field: str) -> Any:
    return _plain(node.get(field, (int, str)))


def _plain(name: Any) -> Any:
    return int(name) if isinstance(name, str) and _NUMBER.fullmatch(name) else name
