"""Test that a jump of the wall clock changes no result and no limit."""

from __future__ import annotations

import ast
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

import checkmate
from checkmate import planning
from checkmate.machine.cost_store import CostStore, KnownCost
from checkmate.machine.plan_store import KeptPlan, PlanStore
from checkmate.solvers.problem import SolveOptions
from checkmate.sweeps.journal import open_journal
from tests.graphs_strategies import training_chain
from tests.unit.sweeps.counting import read_entries

DAY = 86400.0
ROOT = Path(checkmate.__file__).parents[1]
# Who may ask the wall clock: for a file's age, for a date that is shown, for a name.
WALL = {
    "checkmate/machine/plan_store.py": {"time.time"},
    "app/models/recovery.py": {"time.time_ns", "time.localtime"},
}


def asked_of(path: Path) -> set[str]:
    found, text = set[str](), path.read_text(encoding="utf-8")
    if "import time" not in text and "from time" not in text:
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time":
            found.add(f"time.{node.attr}")
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            found |= {f"time.{name.name}" for name in node.names}
    return found & {"time.time", "time.time_ns", "time.localtime", "time.gmtime"}


def test_no_limit_is_measured_by_the_wall_clock() -> None:
    paths = [*(ROOT / "checkmate").rglob("*.py"), *(ROOT / "app").rglob("*.py")]
    asked = {path.relative_to(ROOT).as_posix(): asked_of(path) for path in paths}
    assert {path: names for path, names in asked.items() if names} == WALL


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_jump_during_a_solve_changes_nothing(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, options = training_chain(8), SolveOptions(time_limit_s=20.0)
    before = planning.solve(graph, 60, options=options)
    told, real = iter(range(10**9)), time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump * next(told))
    after = planning.solve(graph, 60, options=options)
    assert (after.status, after.cost, after.lower_bound) == (before.status, before.cost, before.lower_bound)


PLAN = KeptPlan((0, 1), 9, 1, 20, "", 0, 1.0, "said", "2026-01-01")


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_plan_that_is_kept_is_there_whatever_the_clock_says(
    jump: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, now = PlanStore(tmp_path, most=3), time.time()
    for number in range(3):
        assert store.keep(f"old {number}", PLAN)
        os.utime(tmp_path / f"old {number}.json", (now - jump, now - jump))
    monkeypatch.setattr(time, "time", lambda: now + jump)
    assert store.keep("new", PLAN)
    assert store.look_up("new") == PLAN and len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("date", ["2026-01-03", "2026-01-01"])
def test_a_cost_that_is_kept_is_there_whatever_the_clock_says(date: str, tmp_path: Path) -> None:
    store = CostStore(tmp_path / "c.sqlite", most=4)
    old = KnownCost(0.5, 0.1, 5, 0, 1.0, "cpu", "2.21", "2026-01-02", 0.1, 2, 0.1, 1)
    assert store.keep({f"old {i}": old for i in range(4)})
    assert store.keep({f"new {i}": replace(old, date=date) for i in range(2)})
    assert len(store.look_up(["new 0", "new 1"])) == 2
    assert len(store.look_up([f"old {i}" for i in range(4)])) == 2


def test_a_journal_goes_by_the_order_of_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_journal(tmp_path / "j") as journal:
        for number, now in enumerate((DAY, 0.0, 2 * DAY)):
            monkeypatch.setattr(time, "time", lambda now=now: now)
            journal.add(str(number), str(number), {})
    assert list(read_entries(tmp_path / "j")) == ["0", "1", "2"]
