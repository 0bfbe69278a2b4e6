"""Test trials on an engine.

They are the same as in this process if the clock does not decide, resumed, and honest about shared cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from checkmate.bench.common.machine import this_machine
from checkmate.bench.solvers import table
from checkmate.bench.solvers.on_engine import cases_on, run_on
from checkmate.bench.solvers.trials import Trial, Wanted, make_cases, run, smoke_graphs
from checkmate.errors import CancelledError
from checkmate.ir.result import SolveStatus
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.sequence.local_search import warm_up
from checkmate.sweeps.engine import Engine, Pool, open_pool
from checkmate.sweeps.journal import open_journal, read_journal
from checkmate.units import Budget

OPTIONS = SolveOptions(time_limit_s=60.0, moves=2000)
SOLVERS = ("local-search", "greedy", "chen-sqrt-linear")
WANTED = [Wanted("80%", Budget(share=0.8)), Wanted("f=0.2", 0.2)]  # no two of the same bytes


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    warm_up()
    with open_pool(Engine(count=2)) as opened:
        yield opened


def said(trial: Trial) -> tuple[object, ...]:
    """Return what does not depend on the clock."""
    result = trial.result
    steps = None if result.schedule is None else result.schedule.steps.tolist()
    return (
        trial.case.label,
        trial.case.budget_bytes,
        trial.solver,
        result.status,
        result.cost,
        result.peak_bytes,
        steps,
    )


def test_the_same_trials_as_in_this_process(pool: Pool) -> None:
    graphs = smoke_graphs()
    cases = cases_on(graphs, WANTED, pool)
    here = make_cases(graphs, WANTED)
    assert [(c.graph.name, c.label, c.budget_bytes) for c in cases] == [
        (c.graph.name, c.label, c.budget_bytes) for c in here
    ]
    there = run_on(cases, SOLVERS, OPTIONS, pool)
    assert list(map(said, there)) == list(map(said, run(here, SOLVERS, OPTIONS)))
    for trial in there:
        assert trial.result.status is not SolveStatus.FAILED and trial.at_once == 2 and trial.host
        assert trial.convergence.final_cost == trial.result.cost
    shown = table.text(there, OPTIONS, this_machine())
    assert "up to 2 solves ran at once and shared cores" in shown and "2000 moves" in shown
    assert {entry["at_once"] for entry in table.facts(there, OPTIONS, this_machine())["trials"]} == {2}
    assert "at once" not in table.text(run(here[:1], ("greedy",), OPTIONS), OPTIONS, this_machine())


def test_trials_in_the_journal_are_not_measured_again(pool: Pool, tmp_path: Path) -> None:
    path, graphs = tmp_path / "bench.jsonl", smoke_graphs()[:2]
    with open_journal(path) as journal:
        cases = cases_on(graphs, WANTED, pool, journal=journal)
        first = run_on(cases[:2], SOLVERS, OPTIONS, pool, journal=journal)
        before = len(journal)
        again = run_on(cases, SOLVERS, OPTIONS, pool, journal=journal)
        assert len(journal) - before == len(cases[2:]) * len(SOLVERS)
    assert [trial.seconds for trial in again[: len(first)]] == [trial.seconds for trial in first]
    assert len(again) == len(cases) * len(SOLVERS)
    assert len(read_journal(path)) == len(again) + len(graphs)


def test_cancelling_says_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    with open_journal(path) as journal, open_pool(Engine(count=1)) as own:
        cases = make_cases(smoke_graphs()[:1], WANTED[:1])
        with pytest.raises(CancelledError) as caught:
            run_on(cases, SOLVERS, OPTIONS, own, journal=journal, cancelled=lambda: len(journal) > 0)
    assert caught.value.details == {"kept": "the journal has 1 finished solves"}
    assert len(read_journal(path)) == 1
