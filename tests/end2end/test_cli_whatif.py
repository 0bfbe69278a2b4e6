from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checkmate.cli.main import main
from checkmate.formats import read_schedule, write_graph
from checkmate.ir import Graph
from tests.end2end.test_cli import one_object

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run ``checkmate solve``. Return exit code, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(["solve", *(str(argument) for argument in arguments), "--quiet", "--time-limit", "3"])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def layers(chain: Graph, tmp_path: Path) -> Path:
    """Return the chain with a layer to each two ops. ``block/0`` makes a0 and a1, and so on."""
    ops = tuple(replace(op, group=f"block/{int(op.name[1:]) // 2}") for op in chain.ops)
    write_graph(tmp_path / "layers.json", replace(chain, ops=ops))
    return tmp_path / "layers.json"


def test_the_least_memory_within_a_cost(chain: Graph, chain_file: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "s.json"
    code, text, _ = call(chain_file, "--max-overhead", "20%", "-o", out)
    assert code == 0
    assert text.startswith("chain at most 20 % extra cost: the least memory is 60 B\n")
    assert "66.7 % of keep-everything" in text and f"wrote {out}" in text
    assert "no schedule, in any order, needs less at this cost" in text
    result = read_schedule(out, chain)
    assert (result.peak_bytes, result.budget_bytes) == (60, 60)
    assert result.cost is not None and result.cost <= 1.2 * 16
    stored = json.loads(out.read_text())["least_memory"]
    assert (stored["max_overhead"], stored["lower_bound_bytes"], stored["proved"]) == (0.2, 60, True)
    assert main(["check", str(chain_file), str(out)]) == 0


def test_the_least_memory_at_any_cost(chain_file: Path, call: Call) -> None:
    code, text, _ = call(chain_file, "--max-overhead", "any", "--json")
    found = one_object(text)
    assert (code, found["peak_bytes"], found["least_memory"]["max_overhead"]) == (0, 40, None)
    assert found["least_memory"]["cost_cap"] is None
    code, text, _ = call(chain_file, "--budget", "min", "--json")
    assert (code, one_object(text)["peak_bytes"]) == (0, 40)


def test_a_typo_is_answered_with_the_known_names(layers: Path, call: Call) -> None:
    _, _, err = call(layers, "--budget", "60", "--keep", "blok/1")
    assert "did you mean 'block/1'" in err


def test_a_kept_value_is_made_once_and_reported(layers: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "s.json"
    code, text, _ = call(layers, "--budget", "70", "--keep", "block/0", "--never-recompute", "f3", "-o", out)
    assert code == 0
    assert "under assumptions" in text.splitlines()[0] and "optimal, proved" not in text
    assert "  assuming  layer 'block/0' always kept, op 'f3' never recomputed\n" in text
    stored = json.loads(out.read_text())
    assert stored["assumptions"] == ["layer 'block/0' always kept", "op 'f3' never recomputed"]
    assert all(stored["steps"].count(op) == 1 for op in (0, 1, 3))


def test_infeasible_with_constraints_says_so(layers: Path, call: Call) -> None:
    code, text, _ = call(layers, "--budget", "60", "--never-recompute", "block/*")
    assert code == 3
    assert "infeasible under assumptions, proved" in text
    assert "with these constraints: layer 'block/*' never recomputed" in text
    assert "drop a constraint, raise the budget to at least 90 B" in text
    code, text, _ = call(layers, "--budget", "60", "--never-recompute", "block/*", "--json")
    assert (code, one_object(text)["assumptions"]) == (3, ["layer 'block/*' never recomputed"])


def test_the_least_memory_under_constraints_says_so(layers: Path, call: Call) -> None:
    code, text, _ = call(layers, "--max-overhead", "any", "--keep", "block", "--no-gradient-recompute")
    assert code == 0
    assert "the least memory is 90 B" in text
    assert "no schedule under the assumptions needs less" in text
    assert "  assuming  layer 'block' always kept, no gradient recompute\n" in text


def test_the_minimum_under_constraints(layers: Path, call: Call) -> None:
    for solver in ("auto", "greedy"):
        code, text, _ = call(layers, "--budget", "min", "--keep", "block", "--solver", solver, "--json")
        assert (code, one_object(text)["peak_bytes"]) == (0, 90)
