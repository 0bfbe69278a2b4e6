"""Which files belong together: a report with its schedule, a schedule with its graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate.errors import CheckmateError
from checkmate.formats import read_any_graph
from checkmate.formats.files import read_json

REPORT, SCHEDULE, GRAPH = "checkmate-report", "checkmate-schedule", "checkmate-graph"


@dataclass(frozen=True)
class Loaded:
    """``kind``: the file's ``format``. ``data``: its JSON; for JSON lines, the first line."""

    path: Path
    kind: str
    data: Any


def together(loaded: Sequence[Loaded]) -> list[list[Loaded]]:
    """Return groups of files, in the order of their first file.

    A schedule's graph is one of those given, or one in the same folder.
    """
    groups: list[list[Loaded]] = []
    taken: set[Path] = set()
    graphs = [entry for entry in loaded if entry.kind == GRAPH]
    rank = {REPORT: 0, SCHEDULE: 1, GRAPH: 2}
    for entry in sorted(loaded, key=lambda entry: rank.get(entry.kind, 0)):
        if entry.path.resolve() in taken:
            continue
        group = [entry]
        if entry.kind == REPORT:
            group += _beside(entry.path, ("schedule.json",), SCHEDULE)
        if group[-1].kind == SCHEDULE:
            group += _graph_of(group[-1], graphs)
        taken |= {member.path.resolve() for member in group}
        groups.append(group)
    order = {entry.path.resolve(): place for place, entry in enumerate(loaded)}
    return sorted(
        groups, key=lambda group: min(order.get(member.path.resolve(), len(order)) for member in group)
    )


def _graph_of(schedule: Loaded, graphs: Sequence[Loaded]) -> list[Loaded]:
    stem = schedule.path.name.split(".")[0]
    near = _beside(schedule.path, ("graph.json", f"{stem}.graph.json", "graph.json.gz"), GRAPH)
    names = [schedule.data.get(name) for name in ("graph_digest", "graph_fingerprint")]
    stated = {name for name in names if isinstance(name, str)}
    for graph in [*near, *graphs]:
        if str(graph.data.get("fingerprint")) in stated:
            return [graph]
    for graph in [*near, *graphs]:  # a file without a fingerprint, or with a foreign one
        try:
            read = read_any_graph(graph.path)
        except CheckmateError:
            continue
        if stated & {read.fingerprint, read.declared_fingerprint}:
            return [graph]
    return []


def _beside(path: Path, names: Sequence[str], kind: str) -> list[Loaded]:
    found = []
    for name in names:
        other = path.with_name(name)
        if other.is_file() and other != path:
            data: Any = read_json(other)
            if isinstance(data, dict) and data.get("format") == kind:
                found.append(Loaded(other, kind, data))
    return found
