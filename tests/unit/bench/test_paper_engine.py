"""Test the paper's questions on an engine.

The rows are those of one process, checked on arrival, and nothing is asked twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkmate.bench.common.machine import this_machine
from checkmate.bench.paper import questions
from checkmate.bench.paper import table as paper_table
from checkmate.bench.paper.on_engine import curve_sent, curve_task, run_on
from checkmate.bench.paper.questions import PaperPlan, Row
from checkmate.graphs.paper import find_network
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.sequence.local_search import warm_up
from checkmate.sweeps.engine import Engine, Pool, open_pool
from checkmate.sweeps.journal import open_journal
from checkmate.sweeps.process_pool import ProcessPool

VGG16 = find_network("vgg16")
# Both are proved optimal in a second. At each budget, the roundings' program is either quick or out of time,
# in both runs.
PLAN = PaperPlan(
    (VGG16,), parts=("batches", "curves"), fractions=(0.5,), options=SolveOptions(time_limit_s=20.0)
)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    warm_up()
    with open_pool(Engine(count=2)) as opened:
        yield opened


def proved(rows: list[Row]) -> dict[str, Any]:
    """Return what does not depend on the clock. These are proved batches and proved costs."""
    batch, curve = rows
    assert batch["batch"] == batch["proved_limit"]
    told = curve["curve"]["budgets"][0]
    assert told["status"] == "optimal"
    return {
        "batch": batch["batch"],
        "op_limit": batch["op_limit"],
        "plain": batch["plain_batch"],
        "ops": curve["ops"],
        "cost": pytest.approx(told["cost"]),
    }


def test_the_rows_of_one_process_and_none_asked_twice(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, saved = tmp_path / "paper.jsonl", list[list[Row]]()
    with open_journal(path) as journal:
        found = run_on(PLAN, pool, journal=journal, save=saved.append)
    here = questions.run(PLAN)
    assert proved(found.rows) == proved(here.rows) and saved[-1] == found.rows and not found.cancelled
    assert [(row["kind"], row["asked"], row["at_once"]) for row in found.rows] == [
        (row["kind"], row["asked"], 2) for row in here.rows
    ]
    text = paper_table.text(found.rows, PLAN, this_machine())
    assert "up to 2 tasks ran at once and shared cores, so the seconds are not those of one" in text
    assert "shared cores" not in paper_table.text(here.rows, PLAN, this_machine())
    monkeypatch.setattr(ProcessPool, "submit", lambda *given: pytest.fail("the row is known already"))
    with open_journal(path) as journal:
        assert run_on(PLAN, pool, journal=journal).rows == found.rows
    assert run_on(PLAN, pool, done=found.rows).rows == found.rows


def test_a_curve_is_checked_on_arrival() -> None:
    task = curve_task(PLAN, VGG16, VGG16.graph(), 1)
    data = curve_sent(task.payload)
    assert task.wrong(data) == "" and data["row"]["at_once"] == 1
    (budget, steps, peak, cost), *rest = data["schedules"]
    assert "not those of its budgets" in task.wrong({**data, "schedules": rest})
    assert "not those of its budgets" in task.wrong(
        {**data, "schedules": [[budget, steps, peak, cost - 1], *rest]}
    )
    assert "does not hold" in task.wrong({**data, "schedules": [[budget, steps[1:], peak, cost], *rest]})
    assert "no curve" in task.wrong({"row": {}})


def test_roundings_follow_the_curves_budgets(pool: Pool) -> None:
    plan = PaperPlan(
        (VGG16,), parts=("ratios",), budgets=("95%",), fractions=(), options=SolveOptions(time_limit_s=2.0)
    )
    found = run_on(plan, pool)
    curve, rounding = found.rows
    assert [row["budget_bytes"] for row in rounding["rounding"]] == [
        row["budget_bytes"] for row in curve["curve"]["budgets"]
    ]
    assert (curve["kind"], rounding["kind"]) == ("curve", "rounding") and rounding["rounding"][0]["status"]


def test_cancelling_keeps_what_was_finished(tmp_path: Path) -> None:
    saved: list[list[Row]] = []
    with open_pool(Engine(count=1)) as own:
        found = run_on(PLAN, own, save=saved.append, cancelled=lambda: True)
    assert found.cancelled and found.rows == [] == saved[-1]
