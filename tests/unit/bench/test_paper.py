"""Test ``bench paper``: the maths of its tables, resuming, Ctrl-C.

Resuming takes rows from an earlier run; Ctrl-C leaves the finished rows.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest

from checkmate.bench.common.machine import this_machine
from checkmate.bench.paper import questions
from checkmate.bench.paper import table as paper_table
from checkmate.bench.paper.published import FIGURES, STRATEGIES, figures_of
from checkmate.bench.paper.questions import PaperPlan, Row
from checkmate.bench.paper.ratios import (
    Ratio,
    best_known,
    cheapest_within,
    proved,
    ratio,
    ratios,
    strategy_costs,
    worst,
)
from checkmate.errors import CancelledError, FormatError, UsageError
from checkmate.graphs.paper import NETWORKS, find_network
from checkmate.solvers.problem import SolveOptions

VGG16 = find_network("vgg16")


def test_ratio_is_the_geometric_mean_over_the_solved_budgets() -> None:
    assert ratio([2.0, 8.0], [1.0, 1.0]) == Ratio(pytest.approx(4.0), 2, 2)
    assert ratio([None, 3.0, 5.0], [1.0, 2.0, None]) == Ratio(pytest.approx(1.5), 1, 2)
    assert ratio([None], [1.0]) == Ratio(None, 0, 1)


@pytest.mark.parametrize("seed", range(5))
def test_ratios_do_not_depend_on_the_unit_and_are_at_least_one(seed: int) -> None:
    random = Random(seed)
    costs = {
        name: [random.choice([None, random.uniform(1, 9)]) for _ in range(6)] for name in ("a", "b", "c")
    }
    best = best_known(costs)
    for column in costs.values():
        found = ratio(column, best)
        scaled = ratio([c and 7 * c for c in column], [b and 7 * b for b in best])
        assert found.solved == scaled.solved == sum(c is not None for c in column)
        if found.mean is not None:
            assert found.mean >= 1 - 1e-12 and math.isclose(found.mean, scaled.mean or 0)
            assert (worst(column, best) or 0) >= found.mean * (1 - 1e-12)


def curve(**changes: Any) -> dict[str, Any]:
    """Return two budgets, and two strategies.

    One strategy fits both budgets, the other is too large for the first.
    """
    told = {
        "base_cost": 10.0,
        "keep_everything_peak_bytes": 100,
        "seconds": 1.0,
        "cancelled": False,
        "budgets": [
            {"budget_bytes": 50, "cost": 12.0, "lower_bound": 11.0, "status": "feasible", "seconds": 0.5},
            {"budget_bytes": 80, "cost": 11.0, "lower_bound": 11.0, "status": "optimal", "seconds": 0.1},
        ],
        "baselines": [
            {
                "solver": "chen-sqrt-ap",
                "points": [{"peak_bytes": 50, "cost": 18.0}, {"peak_bytes": 70, "cost": 22.0}],
            },
            {"solver": "griewank", "points": [{"peak_bytes": 51, "cost": 22.0}]},
        ],
    }
    return {**told, **changes}


def test_a_strategy_is_taken_at_its_best_within_the_budget() -> None:
    points = curve()["baselines"][0]["points"]
    assert [cheapest_within(points, budget) for budget in (49, 50, 70, 10**9)] == [None, 18.0, 18.0, 18.0]
    found = strategy_costs(curve(), [{"budget_bytes": 80, "cost": 10.5}])
    assert found == {
        "checkmate": [12.0, 11.0],
        "lp-rounding": [None, 10.5],
        "chen-sqrt-ap": [18.0, 18.0],
        "griewank": [None, 22.0],
    }


def test_our_ratio_is_above_one_if_another_is_better() -> None:
    found = ratios(curve(), [{"budget_bytes": 80, "cost": 10.5}, {"budget_bytes": 50, "cost": None}])
    assert found["checkmate"].mean == pytest.approx(math.sqrt(11 / 10.5)) and found["lp-rounding"] == Ratio(
        1.0, 1, 2
    )
    assert found["chen-sqrt-ap"].mean == pytest.approx(math.sqrt(18 / 12 * 18 / 10.5))
    assert found["griewank"] == Ratio(pytest.approx(22 / 10.5), 1, 2)
    assert proved(curve()) == 1


def test_published_figures_are_of_known_networks_and_strategies() -> None:
    assert set(FIGURES) <= {network.name for network in NETWORKS}
    for figures in FIGURES.values():
        assert set(figures.ratios) <= set(STRATEGIES) and all(ratio >= 1 for ratio in figures.ratios.values())
    assert figures_of("resnet50").batch_text == "≥ 193" and figures_of("vgg16").batch_text == ""


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Record what is measured, in place of measuring. A test may put in a failure."""
    asked: list[tuple[str, str]] = []

    def fake(kind: str) -> Any:
        def measure(plan: PaperPlan, network: Any, rows: list[Row], report: Any, cancelled: Any) -> Row:
            asked.append((kind, network.name))
            if kind == "rounding":
                assert any((row["kind"], row["model"]) == ("curve", network.name) for row in rows)
            return {"cancelled": False}

        return measure

    monkeypatch.setattr(questions, "_MEASURE", {kind: fake(kind) for kind in ("curve", "rounding", "batch")})
    return asked


PLAN = PaperPlan((VGG16, find_network("unet")), options=SolveOptions(time_limit_s=3.0))
ALL = [
    ("batch", "vgg16"),
    ("batch", "unet"),
    ("curve", "vgg16"),
    ("rounding", "vgg16"),
    ("curve", "unet"),
    ("rounding", "unet"),
]


def test_an_interrupted_run_goes_on(measured: list[tuple[str, str]]) -> None:
    saved: list[list[Row]] = []
    first = questions.run(PLAN, save=saved.append, cancelled=lambda: len(measured) == 4)
    assert first.cancelled and measured == ALL[:4] and saved[-1] == first.rows
    measured.clear()
    done = json.loads(json.dumps(saved[-1]))  # as a file gives them back
    second = questions.run(PLAN, done=done)
    assert not second.cancelled and measured == ALL[4:]
    assert [(row["kind"], row["model"]) for row in second.rows] == ALL


def test_rows_of_other_questions_stay_in_the_file_unused(measured: list[tuple[str, str]]) -> None:
    old = questions.run(PLAN).rows
    measured.clear()
    saved: list[list[Row]] = []
    plan = PaperPlan((VGG16,), parts=("batches",), options=SolveOptions(time_limit_s=4.0))
    found = questions.run(plan, done=old, save=saved.append)
    assert measured == [("batch", "vgg16")] and len(found.rows) == 1
    assert len(saved[-1]) == 1 + len(old)


def test_an_interrupted_row_is_shown_and_measured_again(measured: list[tuple[str, str]]) -> None:
    def cut(*_: Any) -> Row:
        return {"cancelled": True}

    questions._MEASURE["batch"] = cut
    first = questions.run(PLAN)
    assert first.cancelled and [row["cancelled"] for row in first.rows] == [True]
    questions._MEASURE["batch"] = questions._MEASURE["curve"]
    assert len(questions.run(PLAN, done=first.rows).rows) == 6


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), CancelledError("cancelled")], ids=["twice", "once"])
def test_ctrl_c_in_the_middle_keeps_the_rows(measured: list[tuple[str, str]], stop: BaseException) -> None:
    def stopped(*_: Any) -> Row:
        raise stop

    questions._MEASURE["curve"] = stopped
    found = questions.run(PLAN)
    assert found.cancelled and [row["kind"] for row in found.rows] == ["batch", "batch"]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    assert questions.read_rows(tmp_path / "new.json") == []
    for text in (
        "{",
        "[]",
        '{"format": "checkmate-fidelity", "rows": []}',
        '{"format": "checkmate-paper", "rows": [{}]}',
    ):
        (tmp_path / "old.json").write_text(text)
        with pytest.raises(FormatError, match=r"old\.json"):
            questions.read_rows(tmp_path / "old.json")
    with pytest.raises(UsageError, match="graphs"):
        questions.parts_of(["graphs"])


def test_the_table_shows_ours_and_the_papers_side_by_side() -> None:
    row = {"kind": "curve", "model": "vgg16", "curve": curve()}
    lines = paper_table.text([row], PLAN, this_machine()).splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("cost over the best known"))
    assert lines[place].split()[5:9] == ["checkmate", "lp-rounding", "chen-sqrt-ap", "chen-greedy-ap"]
    assert lines[place + 1].split()[:3] == ["VGG16", "1.000", "–"] and lines[place + 1].split()[-3:] == [
        "1",
        "of",
        "2",
    ]
    assert lines[place + 2].split() == ["the", "paper", "1.01", "1.28", "1.06", "1.44"]
    assert "2.000 (1)" in lines[place + 1]  # griewank: 22 against 11, at one of two budgets


def test_a_batch_and_its_limits() -> None:
    plan = PaperPlan((VGG16,), parts=("batches",), options=SolveOptions(time_limit_s=5.0))
    (row,) = questions.run(plan).rows
    assert row["batch"] == row["proved_limit"] == 289 and row["plain_batch"] == 240
    # A gradient of the first block reads three tensors of its size and makes one.
    per_example = 4 * 4 * 224 * 224 * 64
    assert row["op_limit"] == pytest.approx((16e9 - 8 * VGG16.network().parameters) / per_example)
    small = PaperPlan((VGG16,), parts=("batches",), options=plan.options, device_bytes=10**9)
    (none,) = questions.run(small).rows
    assert none["batch"] is None and "1.08 GiB" in none["message"]
