"""Curves whose budgets are solved apart are the same however they are run, and resumed where they stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkmate.errors import SolverUnavailableError, UsageError
from checkmate.frontiers.on_engine import trade_offs_on
from checkmate.frontiers.summary import TradeOff
from checkmate.frontiers.table import facts, text
from checkmate.frontiers.tasks import SolveTask
from checkmate.ir import Graph, SolveStatus
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.problem import SolveOptions
from checkmate.sweeps.engine import Engine, Pool, open_pool
from checkmate.sweeps.journal import open_journal
from checkmate.units import Budget
from tests.generated_graphs import training_dag
from tests.graphs_strategies import tiny_graphs
from tests.oracles import optimum
from tests.recorder import require_checked
from tests.unit.sweeps.counting import read_entries

OPTIONS = SolveOptions(time_limit_s=300.0, moves=2000)
ROUNDING = 1e-9


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    load_kernels()
    with open_pool(Engine(count=2)) as opened:
        yield opened


class FailsAtSixty(SolveTask):
    def work(self) -> Any:
        if self.budget_bytes == 60:
            raise ValueError("no such thing")
        return super().work()


def curves(graphs: list[Graph], pool: Pool, budgets: Any = 4, **asked: Any) -> list[TradeOff]:
    usual = {"solver": "local-search", "options": OPTIONS, "baselines": ("keep-all", "chen-greedy-linear")}
    return trade_offs_on(graphs, budgets, pool, **{**usual, **asked})


def repeatable(found: TradeOff) -> dict[str, Any]:
    """Return what does not depend on the clock."""
    told = {
        name: value for name, value in facts(found, steps=True).items() if name not in ("seconds", "notes")
    }
    return {**told, "budgets": [{n: v for n, v in row.items() if n != "seconds"} for row in told["budgets"]]}


def test_against_all_schedules_of_tiny_graphs(pool: Pool) -> None:
    graphs = tiny_graphs()[::3]
    for graph, found in zip(graphs, curves(graphs, pool, baselines=("keep-all",)), strict=True):
        assert found.graph is graph and not found.cancelled
        costs = []
        for row in found.rows:
            best = optimum(graph, row.budget_bytes)
            if row.point is not None:
                require_checked(graph, row.point, row.budget_bytes)
                assert best is not None and row.point.cost >= best.cost * (1 - ROUNDING)
                costs.append(row.point.cost)
            if row.status is SolveStatus.INFEASIBLE:
                assert best is None
            if row.status is SolveStatus.OPTIMAL:
                assert row.point is not None and row.point.cost == pytest.approx(best.cost)
        assert costs and costs == sorted(costs, reverse=True)


def test_one_at_a_time_or_two_and_resumed_is_the_same_curve(pool: Pool, tmp_path: Path) -> None:
    graphs, path = [training_dag(1, 10), training_dag(2, 10)], tmp_path / "sweep.jsonl"
    with open_journal(path) as journal:
        first = curves(graphs, pool, journal=journal)
    with open_pool(Engine(count=1)) as alone:
        assert list(map(repeatable, curves(graphs[::-1], alone)))[::-1] == list(map(repeatable, first))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]) + lines[-1][:20])  # cut in the middle of a line
    kept = len(read_entries(path))
    with open_journal(path) as journal:
        resumed = curves(graphs, pool, journal=journal)
    assert list(map(repeatable, resumed)) == list(map(repeatable, first))
    least = len(graphs)  # found, and written down, before the sweep itself
    assert f"{kept - least} answers of the whole sweep came from the journal" in resumed[0].notes
    assert len(read_entries(path)) == len(lines) - 1


def test_the_table_says_how_it_was_made(pool: Pool) -> None:
    (found,) = curves([training_dag(1, 10)], pool, baselines=("chen-sqrt-linear",))
    said = "every budget was solved by itself, up to 2 solves at once; none ended at the time limit"
    assert said in text(found)
    assert facts(found)["notes"] == list(found.notes)
    (timed,) = curves(
        [training_dag(1, 10)], pool, [Budget(share=0.7)], options=SolveOptions(time_limit_s=0.1), baselines=()
    )
    assert "1 of 1 ended at the time limit" in text(timed)


def test_a_solve_that_fails_is_a_row_without_a_schedule_and_a_note(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import checkmate.frontiers.on_engine as engine

    monkeypatch.setattr(engine, "SolveTask", FailsAtSixty)
    (found,) = curves([training_dag(1, 10)], pool, [Budget(bytes_=50), Budget(bytes_=60)], baselines=())
    assert [row.result is None for row in found.rows] == [False, True]
    assert any("60 B was not solved: ValueError: no such thing" in note for note in found.notes)


def test_cancelling_before_anything_is_known_still_has_its_rows() -> None:
    with open_pool(Engine(count=1)) as own:
        (found,) = curves([training_dag(1, 10)], own, 3, cancelled=lambda: True)
    assert found.cancelled and len(found.rows) == 3
    assert found.rows[-1].status is SolveStatus.OPTIMAL, "keep-everything needs no search"
    assert {baseline.note for baseline in found.baselines} == {"cancelled"}


def test_bad_questions_are_refused(pool: Pool) -> None:
    with pytest.raises(UsageError, match="at least two budgets"):
        curves([training_dag(1, 3)], pool, 1)
    with pytest.raises(SolverUnavailableError, match="no solver 'simplex'"):
        curves([training_dag(1, 3)], pool, solver="simplex")
