from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from checkmate.backends.tf.environment import EXACT
from checkmate.backends.tf.tasks import run_task
from checkmate.catalog.bundled import find_graph
from checkmate.cli.main import main
from checkmate.formats import read_any_graph, read_schedule, write_graph
from checkmate.progress import never, silent
from checkmate.request import ModelRequest

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


@pytest.mark.heavy
def test_its_schedule_computes_the_same_gradients_here(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    from checkmate.backends.tf.emit.other_trace import for_traced_step
    from checkmate.backends.tf.trace.of_request import trace_request

    path = find_graph("unet-b8.graph")
    assert path is not None
    assert (
        main(["solve", str(path), "--budget", "70%", "--solver", "greedy", "-o", f"{tmp_path}/s.json"]) == 0
    )
    graph = read_any_graph(path)
    found = read_schedule(tmp_path / "s.json", graph)
    request = replace(ModelRequest.from_json(dict(graph.metadata["request"])), device="cpu", kernels="eigen")
    here = trace_request(request, report=silent, cancelled=never).graph
    steps = for_traced_step(here, graph, found)[1].require_schedule().steps.tolist()
    assert len(steps) > here.n, "nothing is recomputed"
    task = {"do": "compare", "request": request.to_json(), "steps": steps, "exact": True}
    compared = run_task(task, message="", report=silent, cancelled=never, environment=EXACT)
    assert compared["bitwise"] and compared["state_bitwise"] and compared["gradients"] > 40, compared


@pytest.mark.heavy
def test_a_graph_of_another_device_is_exported(
    tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Test a graph that seems to come from another device.

    There a kernel takes a megabyte of scratch that none takes here.
    """
    pytest.importorskip("tensorflow")
    monkeypatch.chdir(tmp_path)
    profile = ["profile", SMALL, "--allow-code", "-b", "8", "--device", "cpu", "--costs", "analytic"]
    assert main([*profile, "-o", "here.json", "--quiet"]) == 0
    graph = read_any_graph(tmp_path / "here.json")
    ops = (replace(graph.ops[0], workspace_bytes=graph.ops[0].workspace_bytes + 2**20), *graph.ops[1:])
    facts = {name: value for name, value in graph.metadata.items() if name != "step_fingerprint"}
    write_graph(tmp_path / "g.json", replace(graph, ops=ops, metadata=facts, declared_fingerprint=None))
    assert main(["solve", "g.json", "--budget", "70%", "--solver", "greedy", "-o", "s.json", "--quiet"]) == 0
    capsys.readouterr()
    export = ["export", SMALL, "s.json", "-g", "g.json", "-o", "out", "--budget", "1GiB", "--allow-code"]
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
