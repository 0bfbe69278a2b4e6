from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checkmate.cli.main import main
from checkmate.formats import read_any_graph, write_graph
from tests.graphs_strategies import training_chain

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run ``checkmate max-batch``. Return exit code, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(["max-batch", *(str(argument) for argument in arguments), "--quiet", "--time-limit", "2"])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def at_four(tmp_path: Path) -> Path:
    """Return a file with a chain of eight layers at batch 4."""
    write_graph(tmp_path / "g.json", replace(training_chain(8, bytes_=12), batch_size=4))
    return tmp_path / "g.json"


def test_the_table(at_four: Path, call: Call) -> None:
    code, text, _ = call(at_four, "--budget", 800)
    assert code == 0
    assert text.startswith("chain within 800 B, at most one extra forward pass (+50.0 %): batch ")
    assert "extrapolated from batch 4" in text and "this is so for all values" in text
    rows = ("keep everything, given order", "chen-sqrt", "griewank", "checkmate", "proved limit", "peak")
    assert all(row in text for row in (*rows, "cost"))


def test_the_schedule_and_its_graph_pass_the_check(
    at_four: Path, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s.json"
    code, text, _ = call(at_four, "--budget", 1000, "-o", out, "--json")
    found = json.loads(text)
    graph = read_any_graph(tmp_path / "s.graph.json")
    assert code == 0 and graph.batch_size == found["batch"] <= found["upper_bound_batch"]
    assert graph.metadata["extrapolated_from_batch"] == found["extrapolated_from_batch"] == 4
    assert found["plain_batch"] < found["batch"] and found["extra_forward_passes"] <= 1 + 1e-9
    assert found["peak_bytes"] <= found["budget_bytes"] == 1000
    assert main(["check", str(tmp_path / "s.graph.json"), str(out), "--budget", "1000"]) == 0
    assert "valid" in capsys.readouterr().out


def test_fixed_bytes_as_given_leave_less_room(at_four: Path, call: Call) -> None:
    free = json.loads(call(at_four, "--budget", 1000, "--max-overhead", "any", "--json")[1])
    full = json.loads(call(at_four, "--budget", 1000, "--max-overhead", "any", "--fixed", 500, "--json")[1])
    assert full["fixed_bytes"] == 500 and full["batch"] < free["batch"]


def test_a_file_without_its_batch(tmp_path: Path, call: Call) -> None:
    write_graph(tmp_path / "g.json", training_chain(4))
    assert "does not say what batch size its bytes are for" in call(tmp_path / "g.json", "--budget", 500)[2]
    assert call(tmp_path / "g.json", "--budget", 500, "-b", 2)[0] == 0


def test_too_small_a_budget_is_proved(at_four: Path, call: Call) -> None:
    code, _, err = call(at_four, "--budget", 5)
    assert code == 3 and "needs by itself" in err


def test_the_largest_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "s.json"
    arguments = ["max-batch", "paper.segnet", "--dimension", "input", "--budget", "4GB", "-b", "4", "--quiet"]
    assert main([*arguments, "--time-limit", "3", "--json", "-o", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plain_input"] < found["input"] <= found["memory_limit_input"]
    assert found["peak_bytes"] <= 4 * 10**9 and found["batch"] == 4
    assert main(["check", str(tmp_path / "s.graph.json"), str(out), "--quiet"]) == 0
    capsys.readouterr()
    assert main([*arguments, "--time-limit", "3"]) == 0
    height, width = found["input"]
    assert f"input {height} x {width}" in capsys.readouterr().out
    assert main(["max-batch", "g.json", "--dimension", "input", "--budget", "4GB", "--quiet"]) == 2
    assert "name a model" in capsys.readouterr().err


@pytest.mark.heavy
def test_a_graph_file_cannot_be_measured(at_four: Path, call: Call) -> None:
    why = "a graph has no step to run; give the model itself"
    assert f"not measured: {why}" in call(at_four, "--budget", 800)[1]
    told = json.loads(call(at_four, "--budget", 800, "--json")[1])["measured"]
    assert (told["batch"], told["why_not"], told["tried"]) == (None, why, [])
    code, _, err = call(at_four, "--budget", 800, "--measure", "always")
    assert code == 2 and f"cannot be measured: {why}" in err
    assert "turned off" in call(at_four, "--budget", 800, "--measure", "never")[1]
