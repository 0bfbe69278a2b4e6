"""Test the largest batch by measurement.

The allocator's peak of a step that was traced at that batch is within the budget.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkmate import planning
from checkmate.backends.tf.plain import MeterHistory
from checkmate.cli.main import main
from checkmate.formats import read_any_graph
from checkmate.memory.check import check
from checkmate.request import ModelRequest

CONVNET = f"{Path(__file__).parents[1].joinpath('small_models.py')}:convnet"
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
    for one in told["tried"]:  # a step that was run shows what was predicted of it
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
    assert "--fixed" in json.loads(capsys.readouterr().out)["measured"]["why_not"]
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
