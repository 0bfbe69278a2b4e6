"""Test that damaged files end in a sentence with every reader.

Damages are cuts, flipped bytes, and fields that are gone or replaced.
"""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from checkmate.errors import CheckmateError
from checkmate.formats import read_any_graph, read_schedule, write_graph, write_schedule
from checkmate.ir import Graph
from checkmate.planning import solve
from tests.graphs_strategies import random_graph, training_chain

JUNK: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    1e300,
    10**30,
    10**400,
    "",
    "x",
    "0",
    [],
    [[]],
    [1, 2],
    {},
    {"a": 1},
    [None],
    [10**30],
    ["a"],
    [{}],
    [[0, 0]],
    [[0, "a"]],
    -0.0,
    [True],
]

NODE_LINK: dict[str, Any] = {
    "nodes": [{"id": i, "cost_cpu": 1, "cost_ram": 2, "backward": i > 1} for i in range(4)],
    "links": [{"source": i, "target": i + 1} for i in range(3)],
    "graph": {"name": "g", "order": [0, 1, 2, 3]},
}


def damaged(random: Random, data: Any) -> Any:
    """Return ``data`` with one thing inside it removed or replaced."""
    data = copy.deepcopy(data)
    place = data
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return data
        key = random.choice(keys)
        inner = place[key]
        if isinstance(inner, (dict, list)) and inner and random.random() < 0.8:
            place = inner
            continue
        if random.random() < 0.2:
            del place[key]
        else:
            place[key] = random.choice(JUNK)
        return data


def write(path: Path, content: bytes) -> None:
    """Write a new file. Some file systems wait for the disk when a file is written over."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def outcome(read: Any) -> str:
    """Return ``read``, or the kind of sentence it ended with."""
    try:
        read()
    except CheckmateError as error:
        return "refused" if str(error) and "\n" not in str(error) else f"no sentence: {error}"
    return "read"


@pytest.mark.parametrize("seed", range(4))
def test_damaged_graphs(seed: int, tmp_path: Path) -> None:
    random, path, outcomes = Random(seed), tmp_path / "g.json", set()
    for _ in range(400):
        path.unlink(missing_ok=True)
        write_graph(path, random_graph(random))
        write(path, json.dumps(damaged(random, json.loads(path.read_text()))).encode())
        outcomes.add(outcome(lambda: read_any_graph(path)))
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize("seed", range(2))
def test_damaged_node_link_graphs(seed: int, tmp_path: Path) -> None:
    random, path, outcomes = Random(seed), tmp_path / "g.json", set()
    for _ in range(600):
        write(path, json.dumps(damaged(random, NODE_LINK)).encode())
        outcomes.add(outcome(lambda: read_any_graph(path)))
    assert outcomes == {"read", "refused"}


def _schedule(path: Path) -> Graph:
    graph = training_chain(4)
    write_schedule(path, graph, solve(graph, 50, solver="keep-all"))
    return graph


def test_damaged_schedules(tmp_path: Path) -> None:
    random, path, outcomes = Random(0), tmp_path / "s.json", set()
    graph = _schedule(path)
    data = json.loads(path.read_text())
    for _ in range(1500):
        write(path, json.dumps(damaged(random, data)).encode())
        outcomes.add(outcome(lambda: read_schedule(path, graph)))
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_cut_off_and_flipped_bytes(ending: str, tmp_path: Path) -> None:
    random, path = Random(0), tmp_path / f"g{ending}"
    write_graph(path, training_chain(6))
    whole = path.read_bytes()
    for length in range(len(whole) - 2):
        write(path, whole[:length])
        assert outcome(lambda: read_any_graph(path)) == "refused", length
    for _ in range(500):
        body = bytearray(whole)
        body[random.randrange(len(body))] ^= 1 << random.randrange(8)
        write(path, bytes(body))
        outcome(lambda: read_any_graph(path))


def test_bytes_that_are_not_json(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    for body in (
        b"",
        b"\x00" * 100,
        b"[" * 100_000,
        b"\x1f\x8b",
        gzip.compress(b"\xff\xfe"),
        b"1" * 5000,
        b'"x"',
    ):
        write(path, body)
        assert outcome(lambda: read_any_graph(path)) == "refused", body[:10]
