"""The files of the documented formats; never pickle."""

from __future__ import annotations

from pathlib import Path

from checkmate.errors import FormatError
from checkmate.formats.exploration import is_exploration
from checkmate.formats.files import read_json
from checkmate.formats.graph import graph_from_json, read_graph, write_graph
from checkmate.formats.moccasin import graph_from_node_link, looks_like_node_link
from checkmate.formats.schedule import read_schedule, write_matrices, write_report, write_schedule
from checkmate.hlo.graph import read_dump_graph
from checkmate.hlo.read import is_dump
from checkmate.ir import Graph

__all__ = [
    "read_any_graph",
    "read_graph",
    "read_schedule",
    "write_graph",
    "write_matrices",
    "write_report",
    "write_schedule",
]


def read_any_graph(path: Path) -> Graph:
    """Return the graph in ``path``, by its content: native, node-link, of a saved exploration, or what a dump
    of XLA's tells.
    """
    if is_dump(path, of_module=True):
        return read_dump_graph(path)
    data = read_json(path)
    if looks_like_node_link(data):
        return graph_from_node_link(path, data)
    if is_exploration(data):
        return graph_from_json(path, data.get("graph"))
    if not isinstance(data, dict) or "format" not in data:
        raise FormatError(
            f"{path} is neither a checkmate graph nor a node-link graph",
            hint="profile a model to make a graph file",
        )
    return graph_from_json(path, data)
