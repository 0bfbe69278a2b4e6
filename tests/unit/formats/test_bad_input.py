"""Test the exact sentence for each bad graph and schedule file.

The sentence names the file and the field.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkmate.errors import FormatError, SchemaVersionError
from checkmate.formats import read_any_graph, read_schedule
from checkmate.ir import Graph
from tests.graphs_strategies import as_file, training_chain

Edit = Callable[[dict[str, Any]], object]


def op(**fields: Any) -> Edit:
    """Change fields of op 1."""
    return lambda data: data["ops"][1].update(fields)


def value(**fields: Any) -> Edit:
    """Change fields of value 1."""
    return lambda data: data["values"][1].update(fields)


def top(**fields: Any) -> Edit:
    """Change fields of the file."""
    return lambda data: data.update(fields)


def without(*path: Any) -> Edit:
    """Delete the field at ``path``."""

    def edit(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return edit


GRAPHS: list[tuple[str, Edit, str]] = [
    ("another format", top(format="onnx"), "format is 'onnx', not 'checkmate-graph'"),
    ("newer", top(version=2), "version 2 of checkmate-graph is newer than this program reads (1)"),
    ("version 0", top(version=0), "version is 0, not 1"),
    ("no version", without("version"), "version is missing"),
    ("no ops", without("ops"), "ops is missing"),
    ("empty", top(ops=[], values=[]), "ops is empty: there is nothing to schedule"),
    ("ops as object", top(ops={}), "ops is an object, not a list"),
    (
        "op as number",
        lambda data: data["ops"].__setitem__(1, 7),
        "ops[1] must be a JSON object, not a number (7)",
    ),
    ("no name", without("ops", 1, "name"), "ops[1].name is missing"),
    ("no cost", without("ops", 1, "cost"), "ops[1].cost is missing"),
    ("no inputs", without("ops", 1, "inputs"), "ops[1].inputs is missing"),
    ("no bytes", without("values", 1, "bytes"), "values[1].bytes is missing"),
    ("cost as text", op(cost="fast"), 'ops[1].cost is a text ("fast"), not a number'),
    ("cost true", op(cost=True), "ops[1].cost is true, not a number"),
    ("cost null", op(cost=None), "ops[1].cost is null, not a number"),
    ("negative cost", op(cost=-0.5), "ops[1].cost is -0.5, not a finite number of at least 0"),
    ("negative size", value(bytes=-4), "values[1].bytes is negative (-4)"),
    ("half a byte", value(bytes=1.5), "values[1].bytes is 1.5, not a whole number"),
    ("huge size", value(bytes=2**70), "values[1].bytes is too large (1180591620717411303424)"),
    ("negative workspace", op(workspace_bytes=-1), "ops[1].workspace_bytes is negative (-1)"),
    ("negative fixed", top(fixed_bytes=-1), "fixed_bytes is negative (-1)"),
    ("dangling id", op(inputs=[99]), "ops[1].inputs ('f1') names value 99; there are 6"),
    ("negative id", op(inputs=[-1]), "ops[1].inputs ('f1') names value -1; there are 6"),
    ("id as text", op(inputs=["a0"]), 'ops[1].inputs contains "a0", not an id'),
    ("two writers", op(outputs=[0]), "value 0 'a0' is written by op 0 'f0' and again by op 1 'f1'"),
    (
        "cycle",
        lambda data: data["ops"][0].update(inputs=[1]),
        "ops form a cycle (through ops 0 'f0', 1 'f1', 2 'f2', 3 'b2')",
    ),
    (
        "wrong order",
        lambda data: data["ops"].insert(0, data["ops"].pop(1)),
        "ops[0] ('f1') reads value 0 before op 1 ('f0') writes it: the ops are not in an execution order, "
        "or form a cycle",
    ),
    ("phase", op(phase="sideways"), "ops[1].phase is 'sideways', not one of forward, loss, backward, update"),
    ("cost unit", top(cost_unit="euro"), "cost_unit is 'euro', not one of seconds, flop, unit"),
    ("take-over", op(takes_over=[[1]]), "ops[1].takes_over has [1], not a pair of value ids"),
    (
        "take-over of others",
        op(takes_over=[[0, 1]]),
        "ops[1].takes_over ('f1') has [0, 1], not an output and an input of that op",
    ),
    ("keep as number", value(keep=1), "values[1].keep is a number (1), not true or false"),
    ("dangling view", value(alias_of=50), "values[1].alias_of ('a1') is 50; there are 6 values"),
    (
        "view of a stranger",
        value(alias_of=3),
        "values[1].alias_of ('a1') is 3 'g2', which its op 1 'f1' does not read",
    ),
    ("device as text", top(device="gpu"), 'device is a text ("gpu"), not an object'),
    ("fixed", top(fixed={"parameters": -1}), "fixed.parameters is negative (-1)"),
]


@pytest.mark.parametrize(("edit", "sentence"), [row[1:] for row in GRAPHS], ids=[row[0] for row in GRAPHS])
def test_a_broken_graph_file(edit: Edit, sentence: str, tmp_path: Path) -> None:
    data = copy.deepcopy(as_file(training_chain(3)))
    edit(data)
    path = tmp_path / "g.json"
    path.write_text(json.dumps(data))
    with pytest.raises(FormatError) as caught:
        read_any_graph(path)
    assert str(caught.value) == f"{path}: {sentence}"
    assert isinstance(caught.value, SchemaVersionError) == ("newer than" in sentence)


BODIES: list[tuple[str, bytes, str, str]] = [
    (
        "cut off",
        b'{"format": "checkmate-graph", "ops": [',
        "{} is cut off: the JSON ends too early, in line 1",
        "again",
    ),
    ("cut in a text", b'{"format": "checkm', "{} is cut off: the JSON ends too early, in line 1", "again"),
    ("empty", b"", "{} is empty", "again"),
    (
        "no JSON",
        b"{'a': 1}",
        "{} is not valid JSON (line 1, column 2: Expecting property name enclosed in double quotes)",
        "again",
    ),
    ("NaN", b'{"cost": NaN}', "{} contains NaN, which is not a number", "finite"),
    ("infinity", b'{"cost": -Infinity}', "{} contains -Infinity, which is not a number", "finite"),
    ("not UTF-8", b'{"a": "\xff"}', "{} is not a text file: byte 7 is not UTF-8", "again"),
    ("something else", b"[1, 2]", "{} is neither a checkmate graph nor a node-link graph", "profile a model"),
    (
        "not gzip",
        b"\x1f\x8bxx",
        "{} cannot be unpacked: it is cut off or damaged (Compressed file ended before the end-of-stream "
        "marker was reached)",
        "again",
    ),
]


@pytest.mark.parametrize(
    ("body", "sentence", "hint"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES]
)
def test_a_file_that_is_no_graph(body: bytes, sentence: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_bytes(body)
    with pytest.raises(FormatError) as caught:
        read_any_graph(path)
    assert str(caught.value) == sentence.format(path)
    assert hint in caught.value.hint


def test_an_overflowing_cost(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(json.dumps(as_file(training_chain(2))).replace('"cost": 1.0', '"cost": 1e999', 1))
    with pytest.raises(FormatError, match=r"ops\[0\]\.cost is Infinity, not a finite number of at least 0"):
        read_any_graph(path)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no file"):
        read_any_graph(tmp_path / "none.json")
    with pytest.raises(FormatError, match="is a folder, not a file"):
        read_any_graph(tmp_path)


def test_a_file_of_another_kind_says_what_writes_the_right_one(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"format": "onnx"}')
    with pytest.raises(FormatError) as caught:
        read_any_graph(path)
    assert "checkmate profile MODEL" in caught.value.hint
    with pytest.raises(FormatError) as caught:
        read_schedule(path, graph)
    assert "checkmate solve G.json" in caught.value.hint


SCHEDULES: list[tuple[str, Edit, str]] = [
    ("newer", top(version=3), "version 3 of checkmate-schedule is newer than this program reads (1)"),
    ("a graph", top(format="checkmate-graph"), "format is 'checkmate-graph', not 'checkmate-schedule'"),
    ("no steps", without("steps"), "steps is missing"),
    ("empty", top(steps=[]), "holds no schedule (status feasible)"),
    ("infeasible", top(status="infeasible", steps=[]), "holds no schedule (status infeasible)"),
    (
        "status",
        top(status="great"),
        "status is 'great', not one of optimal, feasible, infeasible, limit, cancelled, failed",
    ),
    ("fractional step", top(steps=[0, 1.5]), "steps contains 1.5, not an id"),
    ("dangling step", top(steps=[0, 1, 2, 9]), "steps names op 9; the graph has 6"),
    ("negative step", top(steps=[0, -1]), "steps names op -1; there is no such op"),
    ("budget", top(budget_bytes=-1), "budget_bytes is negative (-1)"),
    ("no fingerprint", without("graph_fingerprint"), "graph_fingerprint is missing"),
]


@pytest.fixture
def graph() -> Graph:
    """Return a graph of three layers."""
    return training_chain(3)


@pytest.mark.parametrize(
    ("edit", "sentence"), [row[1:] for row in SCHEDULES], ids=[row[0] for row in SCHEDULES]
)
def test_a_broken_schedule_file(edit: Edit, sentence: str, graph: Graph, tmp_path: Path) -> None:
    data = {
        "format": "checkmate-schedule",
        "version": 1,
        "graph_fingerprint": graph.fingerprint,
        "steps": list(range(6)),
    }
    edit(data)
    path = tmp_path / "s.json"
    path.write_text(json.dumps(data))
    with pytest.raises(FormatError) as caught:
        read_schedule(path, graph)
    assert str(caught.value) == f"{path}: {sentence}"


NODE_LINKS: list[tuple[str, Edit, str]] = [
    ("no nodes", top(nodes=[]), "nodes is empty"),
    ("no cost", without("nodes", 1, "cost_cpu"), "nodes[1].cost_cpu is missing"),
    (
        "negative size",
        lambda data: data["nodes"][1].update(cost_ram=-1),
        "nodes[1].cost_ram is negative (-1)",
    ),
    ("dangling link", top(links=[{"source": 0, "target": 9}]), "links[0] names node 9, which does not exist"),
    ("no target", top(links=[{"source": 0}]), "links[0].target is missing"),
    ("order", top(graph={"order": [0, 0]}), "graph.order is not a permutation of the nodes"),
    (
        "cycle",
        top(links=[{"source": 1, "target": 0}]),
        "ops[0] ('0') reads value 1 before op 1 ('1') writes it: the ops are not in an execution order, or "
        "form a cycle",
    ),
]


@pytest.mark.parametrize(
    ("edit", "sentence"), [row[1:] for row in NODE_LINKS], ids=[row[0] for row in NODE_LINKS]
)
def test_a_broken_node_link_file(edit: Edit, sentence: str, tmp_path: Path) -> None:
    nodes = [{"id": i, "cost_cpu": 1, "cost_ram": 2, "backward": False} for i in range(2)]
    data = {"nodes": nodes, "links": [{"source": 0, "target": 1}], "graph": {}}
    edit(data)
    path = tmp_path / "n.json"
    path.write_text(json.dumps(data))
    with pytest.raises(FormatError) as caught:
        read_any_graph(path)
    assert str(caught.value) == f"{path}: {sentence}"
