"""Test the largest batch of a model.

Sizes from two traces equal those of a third, and the command says what was traced.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from checkmate import planning
from checkmate.cli.main import main
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
