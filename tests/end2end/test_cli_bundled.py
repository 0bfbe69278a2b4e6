"""Test commands of the README on a bundled graph, by its name.

It is solved and checked. A graph is exported wherever it was made.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from checkmate.catalog.bundled import find_graph
from checkmate.cli.main import main
from checkmate.formats import read_any_graph, write_graph

SMALL = f"{Path(__file__).resolve().parents[1] / 'tf' / 'small_models.py'}:convnet"


def test_solved_and_checked_by_name(tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        main(["solve", "unet-b8.graph", "--budget", "70%", "--solver", "greedy", "-o", "s.json", "--quiet"])
        == 0
    )
    assert main(["check", "unet-b8.graph", "s.json"]) == 0
    assert main(
        ["max-batch", "unet-b8.graph", "--budget", "1GiB", "--time-limit", "2", "--json", "--quiet"]
    ) in (0, 4)
    assert '"batch' in capsys.readouterr().out


# tests/tf/test_bundled_graphs.py moves the bundled graph's schedule here; running that step takes minutes.
@pytest.mark.heavy
@pytest.mark.parametrize(
    "model", [pytest.param(SMALL, id="small"), pytest.param("unet", id="unet", marks=pytest.mark.long)]
)
def test_a_graph_of_another_device_is_exported(
    model: str, tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Test a graph that seems to come from another device.

    There a kernel takes a megabyte of scratch that none takes here.
    """
    pytest.importorskip("tensorflow")
    monkeypatch.chdir(tmp_path)
    if model == SMALL:
        profile = ["profile", model, "--allow-code", "-b", "8", "--device", "cpu", "--costs", "analytic"]
        assert main([*profile, "-o", "here.json", "--quiet"]) == 0
        graph = read_any_graph(tmp_path / "here.json")
    else:
        graph = read_any_graph(find_graph(f"{model}-b8.graph"))
    ops = (replace(graph.ops[0], workspace_bytes=graph.ops[0].workspace_bytes + 2**20), *graph.ops[1:])
    facts = {name: value for name, value in graph.metadata.items() if name != "step_fingerprint"}
    write_graph(tmp_path / "g.json", replace(graph, ops=ops, metadata=facts, declared_fingerprint=None))
    assert main(["solve", "g.json", "--budget", "70%", "--solver", "greedy", "-o", "s.json", "--quiet"]) == 0
    capsys.readouterr()
    export = ["export", model, "s.json", "-g", "g.json", "-o", "out", "--budget", "1GiB", "--allow-code"]
    code = main([*export, "--json", "--quiet"])
    report = json.loads(capsys.readouterr().out)
    assert code == 0 and report["ok"], report
    assert any("traced again" in note for note in report["notes"])
    assert main(["check", "out/graph.json", "out/schedule.json"]) == 0
    steps = [
        json.loads(Path(name).read_text(encoding="utf-8"))["steps"]
        for name in ("s.json", "out/schedule.json")
    ]
    assert steps[0] == steps[1]
