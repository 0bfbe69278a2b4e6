"""Test that no bytes break a reader.

It reads them, or refuses them in a short sentence.

``pytest -m long tests/fuzz`` tries a hundred thousand of each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkmate.cli import common_options as options
from checkmate.errors import LONGEST, CheckmateError, FormatError
from checkmate.formats import read_any_graph
from checkmate.formats.exploration import read_exploration
from checkmate.formats.files import read_json
from checkmate.ir import GraphBuilder
from checkmate.machine.cost_store import CostStore, KnownCost
from checkmate.processes.messages import MessageError, MessageTable
from checkmate.reports.gather import gather
from tests.fuzz.judge import judged, tried
from tests.fuzz.readers import READERS, opened, reframed
from tests.unit.sweeps.counting import read_entries

EACH = 60  # seconds for all of them
OFTEN = {"graph": 400, "node-link": 400, "schedule": 400, "exploration": 200}  # quick, and users edit them


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("count", "seed"),
    [
        (EACH, 1),
        pytest.param(1000, 1, marks=pytest.mark.heavy),  # a minute
        pytest.param(100_000, 2, marks=pytest.mark.long),
    ],
)
def test_nothing_breaks_a_reader(
    name: str, count: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # and back afterwards
    count = OFTEN.get(name, EACH) if count == EACH else count
    verdict = tried(*opened(name, tmp_path), count, seed)
    assert verdict.breaks == {}, dict(verdict.times)
    assert verdict.tried == count
    assert count == EACH or name in OFTEN or verdict.outcomes["refused"] > 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FORMATS = st.sampled_from(
    ["checkmate-graph", "checkmate-exploration", "checkmate-frontier", "checkmate-paper", "checkmate-sweep"]
)


@settings(max_examples=60, deadline=None)
@given(data=JSON, kind=FORMATS)
def test_any_json_is_read_or_refused(data: Any, kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    whole = {**data, "format": kind, "version": 1} if isinstance(data, dict) else data
    path.write_text(json.dumps(whole))
    for read in (read_any_graph, read_exploration, read_entries, lambda path: gather([path])):
        assert judged(lambda _, read=read: read(path), b"") in ("read", "refused")


@settings(max_examples=100, deadline=None)
@given(text=st.text() | st.text("0123456789.eE+-%xGiBkm, ²٣", max_size=30))
def test_any_text_is_a_value_or_refused(text: str) -> None:
    for read in (options.budget, options.overhead, options.positive, options.shape, options.window_size):
        assert judged(lambda _, read=read: read(text), b"") in ("read", "refused")


# What fuzzing broke, one by one.


def refused(path: Path, text: str, read: Any = read_any_graph) -> str:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CheckmateError) as caught:
        read(path)
    assert len(str(caught.value)) <= LONGEST and str(caught.value).isprintable()
    return str(caught.value)


def test_long_names_and_line_breaks_are_cut_out_of_sentences(tmp_path: Path) -> None:
    told = refused(tmp_path / "g.json", json.dumps({"format": "x" * 5000 + "\n\u202e", "version": 1}))
    assert "…" in told and told.endswith("not 'checkmate-graph'")


def test_half_a_character_is_refused_before_it_is_written(tmp_path: Path) -> None:
    assert "half of a character" in refused(tmp_path / "g.json", '{"format": "checkmate-graph\\ud800"}')
    (tmp_path / "whole.json").write_text('{"a": "\\ud83d\\ude00"}')
    assert read_json(tmp_path / "whole.json") == {"a": "😀"}


@pytest.mark.parametrize("name", ["²", "٣", "9" * 5000])
def test_node_names_that_only_look_like_numbers(name: str, tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    nodes = [{"id": name, "cost_cpu": 1, "cost_ram": 2, "backward": False}]
    path.write_text(json.dumps({"nodes": nodes, "links": []}))
    assert read_any_graph(path).n == 1


def test_an_order_that_names_a_node_twice(tmp_path: Path) -> None:
    nodes = [{"id": i, "cost_cpu": 1, "cost_ram": 2, "backward": False} for i in range(2)]
    data = {"nodes": nodes, "links": [{"source": 0, "target": 1}], "graph": {"order": [0, 0, 1]}}
    assert "not a permutation" in refused(tmp_path / "n.json", json.dumps(data))


def test_a_journal_with_a_line_that_is_nested_deeply_or_holds_no_number(tmp_path: Path) -> None:
    head = '{"format":"checkmate-sweep","version":1}\n'
    for line in ("[" * 100_000, '{"key":"a","name":"a","data":{"cost":NaN}}'):
        assert "line 2 is not a finished task" in refused(
            tmp_path / "j.jsonl", f"{head}{line}\n", read_entries
        )


def test_a_frame_that_is_nested_deeply() -> None:
    deep = b"[" * 100_000
    with pytest.raises(MessageError):
        list(MessageTable().reader().feed(reframed(len(deep).to_bytes(4, "little") + bytes(12) + deep)))


def test_many_bounds_and_many_schedules_are_compared_quickly(tmp_path: Path) -> None:
    from tests.fuzz.readers import explorations

    path = tmp_path / "e.json"
    data = json.loads(explorations(tmp_path)[1])
    data["schedules"] *= 1000
    data["bounds"] = [{"budget_bytes": budget, "lower_bound": 0.0} for budget in range(20_000)]
    path.write_text(json.dumps(data))
    assert judged(lambda _: read_exploration(path), path.read_bytes()) == "read"
    data["bounds"][-1]["lower_bound"] = 1e9
    path.write_text(json.dumps(data))
    with pytest.raises(FormatError, match="the bound for 19999 bytes contradicts a schedule of"):
        read_exploration(path)


def test_an_op_with_very_many_outputs_is_checked_quickly() -> None:
    def build(_: bytes) -> object:
        builder = GraphBuilder()
        first = builder.value("in", 1)
        outputs = [builder.value(f"v{i}", 1, alias_of=first + i) for i in range(30_000)]
        builder.op("split", [first], outputs, takes_over=tuple((value, first) for value in outputs))
        return builder.build().fingerprint

    assert judged(build, b"") == "read"


def test_a_cost_cache_that_is_no_database_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(b"x" * 4096)
    store = CostStore(path)
    assert store.look_up(["a"]) == {} and "damaged" in store.problem and not path.exists()


def test_a_cost_cache_whose_damage_has_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    CostStore(path).keep({"a": KnownCost(0.5, 0.1, 5, 0, 1.0, "cpu", "2.21", "2026-01-01", 0.1, 2, 0.1, 1)})
    path.write_bytes(path.read_bytes().replace(b"tablecostscosts", b"table\nost\ncosts"))
    store = CostStore(path)
    assert store.look_up(["a"]) == {} and store.problem.isprintable() and "damaged" in store.problem
