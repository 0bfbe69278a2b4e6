from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from checkmate.errors import ExportError, FingerprintMismatchError, FormatError, NoScheduleError
from checkmate.formats import (
    read_any_graph,
    read_graph,
    read_schedule,
    write_graph,
    write_matrices,
    write_report,
    write_schedule,
)
from checkmate.formats.files import require_output_folder, require_writable, write_bytes
from checkmate.formats.schedule import result_facts
from checkmate.ir import (
    CostOrigin,
    CostUnit,
    Device,
    Graph,
    Phase,
    SolveResult,
    SolveStatus,
    VerificationReport,
)
from checkmate.planning import keep_everything_peak, solve
from tests.graphs_strategies import published_graphs, random_graph, training_chain


def same(a: Graph, b: Graph) -> bool:
    return (a.name, a.ops, a.values, a.fixed_bytes, dict(a.fixed), a.batch_size, a.device, a.cost_unit) == (
        b.name, b.ops, b.values, b.fixed_bytes, dict(b.fixed), b.batch_size, b.device, b.cost_unit,
    ) and dict(a.metadata) == dict(b.metadata)  # fmt: skip


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_random_graphs_read_back_the_same(ending: str, tmp_path: Path) -> None:
    random, path = Random(1), tmp_path / f"g{ending}"
    for _ in range(100):
        graph = random_graph(random)
        write_graph(path, graph)
        again = read_graph(path)
        assert same(graph, again) and again.fingerprint == graph.fingerprint
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == ending.endswith(".gz")


def test_every_field_of_a_graph_survives(tmp_path: Path) -> None:
    chain = training_chain(2)
    graph = replace(
        chain,
        fixed_bytes=30,
        fixed={"parameters": 20, "inputs": 10},
        batch_size=8,
        device=Device("a device", "gpu", 80 * 2**30),
        cost_unit=CostUnit.SECONDS,
        cost_origin=CostOrigin.MEASURED,
        metadata={"request": {"model": "unet"}, "notes": ["ünïcode"]},
        values=(replace(chain.values[0], shape=(2, 5), dtype="float32"), *chain.values[1:]),
    )
    path = tmp_path / "g.json"
    write_graph(path, graph)
    again = read_graph(path)
    assert same(graph, again) and again.cost_origin is CostOrigin.MEASURED
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert (stored["format"], stored["version"]) == ("checkmate-graph", 1)
    assert stored["fingerprint"] == graph.fingerprint
    assert stored["device"] == {"name": "a device", "kind": "gpu", "memory_bytes": 85899345920}


def test_only_required_fields_have_to_be_there(tmp_path: Path) -> None:
    path = tmp_path / "least.json"
    op = {"name": "a", "cost": 1, "inputs": [], "outputs": [0]}
    data = {
        "format": "checkmate-graph",
        "version": 1,
        "ops": [op],
        "values": [{"bytes": 3}],
        "unknown": {"x": 1},
    }
    path.write_text(json.dumps(data))
    graph = read_graph(path)
    assert (graph.name, graph.ops[0].recomputable, graph.ops[0].phase) == ("least", True, Phase.FORWARD)
    assert (graph.cost_unit, graph.cost_origin, graph.values[0].name) == (
        CostUnit.UNIT,
        CostOrigin.GIVEN,
        "value 0",
    )


def test_a_foreign_fingerprint_is_kept_and_accepted(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    graph = replace(training_chain(2), declared_fingerprint="sha256:theirs")
    write_graph(path, graph)
    assert json.loads(path.read_text())["fingerprint"] == "sha256:theirs"
    assert read_graph(path).accepts_fingerprint("sha256:theirs")


def test_a_schedule_reads_back_the_same(tmp_path: Path) -> None:
    graph, path = training_chain(8), tmp_path / "s.json.gz"
    result = solve(graph, 60, solver="greedy")
    write_schedule(path, graph, result)
    again = read_schedule(path, graph)
    assert result.schedule is not None and again.schedule is not None
    assert again.schedule.steps.tolist() == result.schedule.steps.tolist()
    for name in ("status", "solver", "budget_bytes", "peak_bytes", "cost", "base_cost", "lower_bound", "gap"):
        assert getattr(again, name) == getattr(result, name), name
    stored = json.loads(gzip.decompress(path.read_bytes()))
    assert stored["format"] == "checkmate-schedule" and stored["graph_fingerprint"] == graph.fingerprint
    assert set(stored) >= {"steps", "solver", "status", "lower_bound", "gap", "solve_seconds", "assumptions"}


def test_a_schedule_for_another_graph_is_refused(tmp_path: Path) -> None:
    graph, path = training_chain(4), tmp_path / "s.json"
    write_schedule(path, graph, solve(graph, 50, solver="keep-all"))
    with pytest.raises(FingerprintMismatchError, match="not for 'chain'") as caught:
        read_schedule(path, training_chain(5))
    assert "solve this graph again" in caught.value.hint


def test_a_result_without_a_schedule_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    with pytest.raises(NoScheduleError):
        write_schedule(path, training_chain(2), SolveResult(SolveStatus.LIMIT, "greedy", 10, 1.0))
    assert not list(tmp_path.iterdir())


def test_matrices(tmp_path: Path) -> None:
    graph, path = training_chain(2), tmp_path / "m.npz"
    result = solve(graph, 30, solver="keep-all")
    assert result.schedule is not None
    write_matrices(path, graph, result.schedule)
    with np.load(path, allow_pickle=False) as stored:
        assert stored["R"].dtype == stored["S"].dtype == bool
        assert np.array_equal(stored["R"], np.eye(4, dtype=bool))
        assert stored["S"].astype(int).tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]]
        assert stored["order"].tolist() == [0, 1, 2, 3]


def test_a_report_has_the_fields_of_its_format(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    found = VerificationReport(
        "unet", "cpu", 8, 100, {"equal": True}, {"plain": 1.0}, {"measured": 90}, {}, 4, 12
    )
    write_report(path, found)
    stored = json.loads(path.read_text())
    assert (stored["format"], stored["version"], stored["ok"], stored["problems"]) == (
        "checkmate-report",
        1,
        True,
        [],
    )
    write_report(path, replace(found, problems=("the peak is over the budget",)))
    assert json.loads(path.read_text())["ok"] is False


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    write_graph(path, training_chain(2))
    before = path.read_bytes()
    blocked = tmp_path / "folder"
    blocked.mkdir()
    with pytest.raises(FormatError, match=f"cannot write {blocked}"):
        write_bytes(blocked, b"x")
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "g.json"]


def test_a_folder_that_is_a_file_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "g.json"
    with pytest.raises(FormatError, match=r"cannot write .*: Not a directory"):
        write_graph(target, training_chain(2))
    with pytest.raises(FormatError, match="there is no folder"):
        require_writable(target)
    with pytest.raises(FormatError, match="it is a folder"):
        require_writable(tmp_path)


def test_an_output_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match=r"file is a file, not a folder"):
        require_output_folder(tmp_path / "file")
    with pytest.raises(ExportError, match=r"cannot write .*file/a/b: .*file is a file, not a folder"):
        require_output_folder(tmp_path / "file" / "a" / "b")
    with pytest.raises(ExportError, match="is not empty and holds no earlier export"):
        require_output_folder(tmp_path)
    (tmp_path / "schedule.json").write_text("{}")
    require_output_folder(tmp_path)
    require_output_folder(tmp_path / "new" / "folders")
    assert not (tmp_path / "new").exists()


def test_files_follow_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    before = os.umask(0o027)
    try:
        write_graph(path, training_chain(2))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


TRAINED: dict[str, Any] = {
    "directed": True,
    "graph": {},
    "nodes": [
        {"id": 0, "cost_cpu": 10, "cost_ram": 100, "backward": False},
        {"id": 1, "cost_cpu": 20, "cost_ram": 50, "backward": False},
        {"id": 2, "cost_cpu": 30, "cost_ram": 25, "backward": True},
    ],
    "links": [{"source": 0, "target": 1}, {"source": 1, "target": 2}, {"source": 0, "target": 2}],
}
LAYERED: dict[str, Any] = {
    "graph": {"name": "layered", "order": ["1", "0", "2"]},
    "nodes": [
        {"name": 0, "duration": 3, "out_cost": 7},
        {"name": 1, "duration": 1, "out_cost": 5},
        {"name": 2, "duration": 2, "out_cost": 1},
    ],
    "links": [{"0": 1, "1": 0}, {"0": 0, "1": 2}],
}


def test_node_link_graphs_of_training_steps(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(TRAINED))
    graph = read_any_graph(path)
    assert [op.phase for op in graph.ops] == [Phase.FORWARD, Phase.FORWARD, Phase.BACKWARD]
    assert graph.cost.tolist() == [10, 20, 30] and graph.value_bytes.tolist() == [100, 50, 25]
    assert graph.predecessors.lists() == [[], [0], [0, 1]]
    assert graph.keep.tolist() == [False, False, True] and graph.fixed_bytes == 0
    assert keep_everything_peak(graph) == 175


def test_node_link_graphs_with_an_order_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(LAYERED))
    graph = read_any_graph(path)
    assert graph.name == "layered"
    assert [op.name for op in graph.ops] == ["1", "0", "2"]
    assert graph.cost.tolist() == [1, 3, 2] and graph.value_bytes.tolist() == [5, 7, 1]
    assert graph.predecessors.lists() == [[], [0], [1]]


@pytest.mark.parametrize("path", published_graphs(), ids=lambda path: path.stem[:24])
def test_published_graphs_survive_being_written(path: Path, tmp_path: Path) -> None:
    graph = read_any_graph(path)
    write_graph(tmp_path / "again.json.gz", graph)
    assert same(read_any_graph(tmp_path / "again.json.gz"), graph)


def test_the_fields_are_plain_numbers_and_texts() -> None:
    result = SolveResult(
        status=SolveStatus.INFEASIBLE,
        solver="greedy",
        budget_bytes=np.int64(7),  # type: ignore[arg-type]
        base_cost=np.float64(2.5),
        lower_bound=3,
        assumptions=("given order",),
        message="too small",
    )
    assert json.loads(json.dumps(result_facts(result))) == {
        "solver": "greedy",
        "status": "infeasible",
        "budget_bytes": 7,
        "peak_bytes": None,
        "cost": None,
        "base_cost": 2.5,
        "lower_bound": 3.0,
        "solve_seconds": 0.0,
        "assumptions": ["given order"],
        "message": "too small",
    }
