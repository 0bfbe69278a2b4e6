"""Test the benchmarks that need no TensorFlow, on the smallest of their subjects."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from checkmate.ir import Graph
from checkmate.solvers.problem import SolveOptions
from tests.benchmarks import paper, solvers
from tests.benchmarks.__main__ import SUBJECTS
from tests.generated_graphs import random_layered

ROOT = Path(__file__).parents[2]


def layered() -> Graph:
    return random_layered(0, 30)


def test_a_subject_is_run_by_its_name(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "tests.benchmarks"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and all(f"  {name}" in done.stdout for name in SUBJECTS)
    assert all((ROOT / "tests" / "benchmarks" / f"{name}.py").is_file() for name in SUBJECTS)
    found = tmp_path / "paper.json"
    asked = ["paper", "batches", "unet", "--time-limit", "1", "-o", found]
    subprocess.run([*run, *asked], cwd=ROOT, capture_output=True, check=True)
    told = json.loads(found.read_text())
    assert told["rows"][0]["batch"] <= told["rows"][0]["proved_limit"]
    assert told["published"][0]["batch"] == 61


def test_a_solve_is_told_with_its_gap() -> None:
    found = solvers.row(solvers._Case("layered", layered, 0.8), 0.5, 1)
    assert found["ops"] == 30 and 0 <= found["bound_overhead"] <= found["overhead"] <= found["first_overhead"]
    least = solvers._Case("layered", layered, 0.5, above_least=True, known=True)
    assert least.budget(layered()) < solvers._Case("layered", layered, 1.0).budget(layered())


def test_a_ratio_is_the_geometric_mean_over_the_solved_budgets() -> None:
    found = paper.ratio([2.0, None, 8.0, 5.0], [2.0, 1.0, 2.0, None])
    assert found == {"mean": pytest.approx(2.0), "solved": 2, "budgets": 3}
    costs = paper.strategy_costs(layered(), [10**6], SolveOptions(time_limit_s=0.3))
    assert set(costs) == {"checkmate", "lp-rounding", *paper._BASELINES}
    assert costs["checkmate"] == [layered().base_cost]
