"""Test the largest batch of a model: sizes from two traces, and the peak that was measured at it."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from checkmate import planning
from checkmate.backends.tf.plain import MeterHistory
from checkmate.cli.main import main
from checkmate.formats import read_any_graph
from checkmate.ir import Graph
from checkmate.largest.scaling import BatchScaling, traced_at_two
from checkmate.memory.check import check
from checkmate.request import ModelRequest

CONVNET = f"{Path(__file__).parents[1].joinpath('small_models.py')}:convnet"


@functools.cache
def trace(batch: int) -> Graph:
    request = ModelRequest(CONVNET, batch_size=batch, device="cpu", allow_code=True)
    return planning.profile(request, costs="analytic")


@pytest.mark.heavy
def test_sizes_are_those_of_a_third_trace() -> None:
    scaling, true = traced_at_two(trace), trace(19)
    graph = scaling.at(19)
    assert graph.value_bytes.tolist() == true.value_bytes.tolist()
    assert graph.workspace_bytes.tolist() == true.workspace_bytes.tolist()
    assert graph.fixed_bytes == true.fixed_bytes
    assert check(graph, range(graph.n)).peak_bytes == check(true, range(true.n)).peak_bytes
    assert graph.base_cost == pytest.approx(true.base_cost, rel=0.05)


def test_one_trace_tells_nearly_as_much() -> None:
    graph, true = BatchScaling(trace(5)).at(19), trace(19)
    assert graph.fixed_bytes == true.fixed_bytes
    peaks = [check(each, range(each.n)).peak_bytes for each in (graph, true)]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.02)
    assert np.mean(graph.value_bytes == true.value_bytes) > 0.9


@pytest.mark.heavy
def test_the_command_traces_at_two_batch_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--budget", "200MiB", "-b", "3", "--time-limit", "1", "--measure", "never"]
    code = main(["max-batch", CONVNET, "--allow-code", "--device", "cpu", *arguments, "--json", "--quiet"])
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert "traced at batch sizes 3 and 5" in found["extrapolation"]
    assert found["plain_batch"] <= found["batch"] <= found["upper_bound_batch"]
    # Sizes decide which ops are folded into one, so only the plain step can be compared with a trace.
    true = trace(found["plain_batch"])
    assert check(true, range(true.n)).peak_bytes == pytest.approx(found["budget_bytes"], rel=0.02)


@pytest.mark.heavy
def test_the_largest_input_is_traced_at_every_size_asked(capsys: pytest.CaptureFixture[str]) -> None:
    model = [CONVNET, "--allow-code", "--device", "cpu", "--input-shape", "64,96,3"]
    arguments = [*model, "--dimension", "input", "--budget", "32MiB", "-b", "2", "--time-limit", "2"]
    arguments += ["--measure", "always"]
    code = main(["max-batch", *arguments, "--json", "--quiet"])
    found = json.loads(capsys.readouterr().out)
    assert code == 0 and found["plain_input"] <= found["input"] <= found["memory_limit_input"]
    height, width = found["input"]
    assert height % 32 == width % 32 == 0 and abs(width / height - 1.5) < 0.5
    request = ModelRequest(
        CONVNET, batch_size=2, device="cpu", input_shape=(height, width, 3), allow_code=True
    )
    true = planning.profile(request, costs="analytic")
    report = check(true, found["steps"], budget_bytes=found["budget_bytes"])
    assert report.ok and report.cost <= found["cost_limit"] * (1 + 1e-9)
    told = found["measured"]
    assert told["why_not"] is None and 0 < told["peak_bytes"] <= found["budget_bytes"]
    assert told["input"] <= found["input"] == told["tried"][0]["input"]


MODEL = [CONVNET, "--allow-code", "--device", "cpu", "-b", "3", "--time-limit", "1", "--json", "--quiet"]


def test_larger_inputs_are_one_more_request() -> None:
    known = MeterHistory(((3, 100), (7, 50), (3, 0)), fixed_bytes=1000)
    assert known.at(1000) == known.at(900) == known.history
    assert known.at(1250) == (*known.history, (8, 250))


@pytest.mark.heavy
def test_the_measured_peak_is_within_the_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "s.json"
    code = main(["max-batch", *MODEL, "--budget", "60MiB", "--measure", "always", "-o", str(out)])
    found = json.loads(capsys.readouterr().out)
    told = found["measured"]
    assert code == 0 and told["why_not"] is None
    # The allocator's chunks are larger than the requests, so the extrapolated batch itself is over.
    assert told["tried"][0]["batch"] == found["batch"] > told["batch"] >= 1
    assert told["tried"][0]["predicted_bytes"] > found["budget_bytes"]
    assert found["budget_bytes"] >= told["peak_bytes"] >= told["requested_peak_bytes"] > 0
    # A step that was run shows about what was predicted of it.
    for one in told["tried"]:
        assert one["peak_bytes"] is None or one["predicted_bytes"] / one["peak_bytes"] == pytest.approx(
            1, abs=0.15
        )
    assert told["batch"] == max(one["batch"] for one in told["tried"] if one["fits"])
    assert told["seconds"] > 0 and told["meter"] == "CPU:0"
    request = ModelRequest(CONVNET, batch_size=told["batch"], device="cpu", allow_code=True)
    true = planning.profile(request, costs="analytic")
    assert (
        true.fingerprint == told["graph_fingerprint"] == read_any_graph(tmp_path / "s.graph.json").fingerprint
    )
    replayed = check(true, told["steps"], budget_bytes=found["budget_bytes"])
    forward_again = found["cost_limit"] / found["base_cost"]  # the same share at every batch
    assert replayed.ok and replayed.cost <= forward_again * true.base_cost * 1.01
    assert main(["check", str(tmp_path / "s.graph.json"), str(out), "--quiet"]) == 0


@pytest.mark.heavy
def test_a_step_that_would_take_too_long_is_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["max-batch", *MODEL, "--budget", "60MiB", "--measure-limit", "0.05"])
    told = json.loads(capsys.readouterr().out)["measured"]
    assert code == 0 and told["batch"] is None and not told["cancelled"] and told["tried"] == []
    assert "--measure-limit" in told["why_not"]
    code = main(["max-batch", *MODEL, "--budget", "60MiB", "--fixed", "1MiB"])
    assert "its fixed bytes are not its own" in json.loads(capsys.readouterr().out)["measured"]["why_not"]
    code = main(["max-batch", *MODEL, "--budget", "8TiB", "--measure-limit", "90", "--max-overhead", "0"])
    told = json.loads(capsys.readouterr().out)["measured"]
    assert code == 0 and "a safe run needs" in told["why_not"] and told["tried"] == []


@pytest.mark.long
def test_a_device_smaller_than_the_plain_step_and_the_budget(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 64 * 2**20
    monkeypatch.setenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", "64")
    assert main(["max-batch", *MODEL, "--budget", "200MiB", "--measure", "always"]) == 0
    told = json.loads(capsys.readouterr().out)["measured"]
    assert 40 <= told["batch"] < told["tried"][0]["batch"] and told["peak_bytes"] <= room
    request = ModelRequest(CONVNET, batch_size=told["batch"], device="cpu", allow_code=True)
    assert planning.keep_everything_peak(planning.profile(request, costs="analytic")) > room
