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
    return lambda data: data.update(fields)


def without(*path: Any) -> Edit:
    """Delete the field at ``path``."""

    def edit(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return edit


GRAPHS: list[tuple[Edit, str]] = [
    (top(format="onnx"), "format is 'onnx', not 'checkmate-graph'"),
    (top(version=2), "version 2 of checkmate-graph is newer than this program reads (1)"),
    (top(version=0), "version is 0, not 1"),
    (without("version"), "version is missing"),
    (without("ops"), "ops is missing"),
    (top(ops=[], values=[]), "ops is empty: there is nothing to schedule"),
    (top(ops={}), "ops is an object, not a list"),
    (lambda data: data["ops"].__setitem__(1, 7), "ops[1] must be a JSON object, not a number (7)"),
    (without("ops", 1, "name"), "ops[1].name is missing"),
    (without("ops", 1, "cost"), "ops[1].cost is missing"),
    (without("ops", 1, "inputs"), "ops[1].inputs is missing"),
    (without("values", 1, "bytes"), "values[1].bytes is missing"),
    (op(cost="fast"), 'ops[1].cost is a text ("fast"), not a number'),
    (op(cost=True), "ops[1].cost is true, not a number"),
    (op(cost=None), "ops[1].cost is null, not a number"),
    (op(cost=-0.5), "ops[1].cost is -0.5, not a finite number of at least 0"),
    (value(bytes=-4), "values[1].bytes is negative (-4)"),
    (value(bytes=1.5), "values[1].bytes is 1.5, not a whole number"),
    (value(bytes=2**70), "values[1].bytes is too large (1180591620717411303424)"),
    (op(workspace_bytes=-1), "ops[1].workspace_bytes is negative (-1)"),
    (top(fixed_bytes=-1), "fixed_bytes is negative (-1)"),
    (op(inputs=[99]), "ops[1].inputs ('f1') names value 99; there are 6"),
    (op(inputs=[-1]), "ops[1].inputs ('f1') names value -1; there are 6"),
    (op(inputs=["a0"]), 'ops[1].inputs contains "a0", not an id'),
    (op(outputs=[0]), "value 0 'a0' is written by op 0 'f0' and again by op 1 'f1'"),
    (
        lambda data: data["ops"][0].update(inputs=[1]),
        "ops form a cycle (through ops 0 'f0', 1 'f1', 2 'f2', 3 'b2')",
    ),
    (
        lambda data: data["ops"].insert(0, data["ops"].pop(1)),
        "ops[0] ('f1') reads value 0 before op 1 ('f0') writes it: the ops are not in an execution order, "
        "or form a cycle",
    ),
    (op(phase="sideways"), "ops[1].phase is 'sideways', not one of forward, loss, backward, update"),
    (top(cost_unit="euro"), "cost_unit is 'euro', not one of seconds, flop, unit"),
    (op(takes_over=[[1]]), "ops[1].takes_over has [1], not a pair of value ids"),
    (op(takes_over=[[0, 1]]), "ops[1].takes_over ('f1') has [0, 1], not an output and an input of that op"),
    (value(keep=1), "values[1].keep is a number (1), not true or false"),
    (value(alias_of=50), "values[1].alias_of ('a1') is 50; there are 6 values"),
    (value(alias_of=3), "values[1].alias_of ('a1') is 3 'g2', which its op 1 'f1' does not read"),
    (top(device="gpu"), 'device is a text ("gpu"), not an object'),
    (top(fixed={"parameters": -1}), "fixed.parameters is negative (-1)"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "sentence"), GRAPHS)
def test_a_broken_graph_file(edit: Edit, sentence: str, tmp_path: Path) -> None:
    data = copy.deepcopy(as_file(training_chain(3)))
    edit(data)
    path = tmp_path / "g.json"
    path.write_text(json.dumps(data))
    with pytest.raises(FormatError) as caught:
        read_any_graph(path)
    assert str(caught.value) == f"{path}: {sentence}"
    assert isinstance(caught.value, SchemaVersionError) == ("newer than" in sentence)


BODIES: list[tuple[bytes, str, str]] = [
    (b'{"format": "checkmate-graph", "ops": [', "{} is cut off: the JSON ends too early, in line 1", "again"),
    (b'{"format": "checkm', "{} is cut off: the JSON ends too early, in line 1", "again"),
    (b"", "{} is empty", "again"),
    (
        b"{'a': 1}",
        "{} is not valid JSON (line 1, column 2: Expecting property name enclosed in double quotes)",
        "again",
    ),
    (b'{"cost": NaN}', "{} contains NaN, which is not a number", "finite"),
    (b'{"cost": -Infinity}', "{} contains -Infinity, which is not a number", "finite"),
    (b'{"a": "\xff"}', "{} is not a text file: byte 7 is not UTF-8", "again"),
    (b"[1, 2]", "{} is neither a checkmate graph nor a node-link graph", "profile a model"),
    (
        b"\x1f\x8bxx",
        "{} cannot be unpacked: it is cut off or damaged (Compressed file ended before the end-of-stream "
        "marker was reached)",
        "again",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "sentence", "hint"), BODIES)
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


SCHEDULES: list[tuple[Edit, str]] = [
    (top(version=3), "version 3 of checkmate-schedule is newer than this program reads (1)"),
    (top(format="checkmate-graph"), "format is 'checkmate-graph', not 'checkmate-schedule'"),
    (without("steps"), "steps is missing"),
    (top(steps=[]), "holds no schedule (status feasible)"),
    (top(status="infeasible", steps=[]), "holds no schedule (status infeasible)"),
    (
        top(status="great"),
        "status is 'great', not one of optimal, feasible, infeasible, limit, cancelled, failed",
    ),
    (top(steps=[0, 1.5]), "steps contains 1.5, not an id"),
    (top(steps=[0, 1, 2, 9]), "steps names op 9; the graph has 6"),
    (top(steps=[0, -1]), "steps names op -1; there is no such op"),
    (top(budget_bytes=-1), "budget_bytes is negative (-1)"),
    (without("graph_fingerprint"), "graph_fingerprint is missing"),
]  # fmt: skip


@pytest.fixture
def graph() -> Graph:
    return training_chain(3)


@pytest.mark.parametrize(("edit", "sentence"), SCHEDULES)
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


NODE_LINKS: list[tuple[Edit, str]] = [
    (top(nodes=[]), "nodes is empty"),
    (without("nodes", 1, "cost_cpu"), "nodes[1].cost_cpu is missing"),
    (lambda data: data["nodes"][1].update(cost_ram=-1), "nodes[1].cost_ram is negative (-1)"),
    (top(links=[{"source": 0, "target": 9}]), "links[0] names node 9, which does not exist"),
    (top(links=[{"source": 0}]), "links[0].target is missing"),
    (top(graph={"order": [0, 0]}), "graph.order is not a permutation of the nodes"),
    (
        top(links=[{"source": 1, "target": 0}]),
        "ops[0] ('0') reads value 1 before op 1 ('1') writes it: the ops are not in an execution order, "
        "or form a cycle",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "sentence"), NODE_LINKS)
def test_a_broken_node_link_file(edit: Edit, sentence: str, tmp_path: Path) -> None:
    nodes = [{"id": i, "cost_cpu": 1, "cost_ram": 2, "backward": False} for i in range(2)]
    data = {"nodes": nodes, "links": [{"source": 0, "target": 1}], "graph": {}}
    edit(data)
    path = tmp_path / "n.json"
    path.write_text(json.dumps(data))
    with pytest.raises(FormatError) as caught:
        read_any_graph(path)
    assert str(caught.value) == f"{path}: {sentence}"
