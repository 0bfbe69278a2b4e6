"""``checkmate-graph`` version 1 as JSON; ``checkmate.ir.graph`` says what fields mean."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from checkmate.errors import FormatError, GraphError, SchemaVersionError
from checkmate.formats.files import Fields, read_json, write_json
from checkmate.ir import CostOrigin, CostUnit, Device, Graph, Op, Phase, Value

FORMAT, VERSION = "checkmate-graph", 1
ENDINGS = (".json", ".json.gz")  # of the names of graph files
_WRITTEN_BY = (
    "checkmate profile MODEL -o G.json writes a graph; a .keras or .h5 model can be given in its place"
)


def read_graph(path: Path) -> Graph:
    return graph_from_json(path, read_json(path))


def write_graph(path: Path, graph: Graph) -> None:
    write_json(path, graph_to_json(graph))


def require_version(fields: Fields, expected: str, version: int, written_by: str = "") -> None:
    """Raise FormatError for another format, SchemaVersionError for a newer version."""
    found = fields.get("format", str)
    if found != expected:
        raise FormatError(f"{fields.path}: format is {found!r}, not {expected!r}", hint=written_by)
    number = fields.whole("version")
    if number > version:
        raise SchemaVersionError(
            f"{fields.path}: version {number} of {expected} is newer than this program reads ({version})",
            hint="update checkmate",
        )
    if number < 1:
        raise FormatError(f"{fields.path}: version is {number}, not {version}")


def graph_from_json(path: Path, data: Any) -> Graph:
    fields = Fields(path, data)
    require_version(fields, FORMAT, VERSION, _WRITTEN_BY)
    ops = [_op(entry) for entry in fields.entries("ops")]
    values = [_value(index, entry) for index, entry in enumerate(fields.entries("values"))]
    fixed = fields.inner("fixed", {})
    _refuse_cycle(path, ops)
    try:
        return Graph(
            name=fields.get("name", str, path.name.split(".")[0]),
            ops=tuple(ops),
            values=tuple(values),
            fixed_bytes=fields.whole("fixed_bytes", 0),
            fixed={name: fixed.whole(name) for name in fixed.data},
            batch_size=fields.whole("batch_size", None),
            device=_device(fields),
            cost_unit=fields.choice("cost_unit", CostUnit, CostUnit.UNIT),
            cost_origin=fields.choice("cost_origin", CostOrigin, CostOrigin.GIVEN),
            metadata=fields.get("metadata", dict, {}),
            declared_fingerprint=fields.get("fingerprint", str, None),
        )
    except GraphError as error:
        raise FormatError(f"{path}: {error}", hint=error.hint) from error


def graph_to_json(graph: Graph) -> dict[str, Any]:
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "batch_size": graph.batch_size,
        "fingerprint": graph.declared_fingerprint or graph.fingerprint,
        "cost_unit": graph.cost_unit.value,
        "cost_origin": graph.cost_origin.value,
        "fixed_bytes": graph.fixed_bytes,
        "fixed": dict(graph.fixed),
        "ops": [_op_json(op) for op in graph.ops],
        "values": [_value_json(value) for value in graph.values],
    }
    if graph.device is not None:
        data["device"] = asdict(graph.device)
    if graph.metadata:
        data["metadata"] = dict(graph.metadata)
    return data


def pack_graph(graph: Graph) -> bytes:
    """Return a graph file's JSON, for another process."""
    return json.dumps(graph_to_json(graph)).encode("utf-8")


def unpack_graph(body: bytes) -> Graph:
    return graph_from_json(Path("graph"), json.loads(body))


def _op_json(op: Op) -> dict[str, Any]:
    pairs = {"takes_over": [list(pair) for pair in op.takes_over]} if op.takes_over else {}
    data = {**vars(op), "phase": op.phase.value, "inputs": list(op.inputs), "outputs": list(op.outputs)}
    del data["takes_over"]
    return {**data, **pairs}


def _value_json(value: Value) -> dict[str, Any]:
    data: dict[str, Any] = {"name": value.name, "bytes": value.bytes, "keep": value.keep}
    shape = None if value.shape is None else list(value.shape)
    more = {"shape": shape, "dtype": value.dtype, "alias_of": value.alias_of}
    return {**data, **{name: told for name, told in more.items() if told is not None}}


def _op(fields: Fields) -> Op:
    pairs = fields.get("takes_over", list, [])
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(v) is int for v in pair):
            raise FormatError(
                f"{fields.path}: {fields.name('takes_over')} has {pair!r}, not a pair of value ids"
            )
    return Op(
        name=fields.get("name", str),
        type=fields.get("type", str, ""),
        phase=fields.choice("phase", Phase, Phase.FORWARD),
        group=fields.get("group", str, "") or "",
        cost=fields.number("cost"),
        workspace_bytes=fields.whole("workspace_bytes", 0),
        recomputable=fields.get("recomputable", bool, True),
        inputs=fields.ids("inputs"),
        outputs=fields.ids("outputs"),
        takes_over=tuple((pair[0], pair[1]) for pair in pairs),
    )


def _value(index: int, fields: Fields) -> Value:
    return Value(
        name=fields.get("name", str, f"value {index}"),
        bytes=fields.whole("bytes"),
        shape=fields.ids("shape", None),
        dtype=fields.get("dtype", str, None),
        keep=fields.get("keep", bool, False),
        alias_of=fields.whole("alias_of", None),
    )


def _device(fields: Fields) -> Device | None:
    if fields.get("device", dict, None) is None:
        return None
    told = fields.inner("device")
    return Device(told.get("name", str, ""), told.get("kind", str, ""), told.whole("memory_bytes", 0))


def _refuse_cycle(path: Path, ops: list[Op]) -> None:
    """Raise if the ops have a cycle; a mere wrong order is reported by the graph itself."""
    producer: dict[int, int] = {}
    for index, op in enumerate(ops):
        for value in op.outputs:
            producer.setdefault(value, index)  # the graph itself reports a second writer
    reads = {
        index: {producer[value] for value in op.inputs if value in producer} for index, op in enumerate(ops)
    }
    sorter, stuck = TopologicalSorter(reads), set(range(len(ops)))
    with suppress(CycleError):
        sorter.prepare()
    while ready := sorter.get_ready():
        sorter.done(*ready)
        stuck.difference_update(ready)
    if stuck:
        names = ", ".join(f"{index} {ops[index].name!r}" for index in sorted(stuck)[:4])
        raise FormatError(
            f"{path}: ops form a cycle (through ops {names})", hint="a training step's graph has no cycles"
        )
