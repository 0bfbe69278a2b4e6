"""Test cases, trials, comparisons and the table.

Solvers are made up where the outcome has to be known.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from checkmate import planning
from checkmate.bench.common.convergence import Convergence, convergence_of
from checkmate.bench.common.machine import Machine, this_machine
from checkmate.bench.solvers import table
from checkmate.bench.solvers.trials import (
    Case,
    Trial,
    Wanted,
    generated_graphs,
    make_cases,
    measure,
    relative_costs,
    run,
    standings,
)
from checkmate.errors import CancelledError, SolverCrashedError
from checkmate.graphs.generate import random_layered, training_chain
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.progress import Progress
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget

OPTIONS = SolveOptions(time_limit_s=3.0)
MACHINE = Machine(
    "a processor", 2, 2**30, "Linux x86_64", "3.11", "0.1.0", MappingProxyType({"numba": "0.60"}), 0.5
)
GRAPH = training_chain(4)  # eight ops; everything once costs 12
CASE = Case(GRAPH, "80%", 16, 20)


def result(solver: str, cost: float | None, **fields: Any) -> SolveResult:
    """Return a result for ``CASE``; nobody looks at its schedule."""
    if cost is None:
        return SolveResult(SolveStatus.LIMIT, solver, 16, GRAPH.base_cost, message="none was found", **fields)
    schedule = Schedule.plain(GRAPH)
    return SolveResult(SolveStatus.FEASIBLE, solver, 16, GRAPH.base_cost, schedule, cost, 16, **fields)


def trial(solver: str, cost: float | None, case: Case = CASE, **fields: Any) -> Trial:
    told = [] if cost is None else [(0.2, 1.5 * cost), (2.0, cost)]
    return Trial(
        case, result(solver, cost, **fields), convergence_of(told, [], final_cost=cost, seconds=2.5), 2.5
    )


def test_budgets_as_bytes_shares_and_fractions() -> None:
    graph = training_chain(8)
    peak = planning.keep_everything_peak(graph)
    least = planning.known_minimum(graph).bytes
    wanted = [Wanted("30", Budget(bytes_=30)), Wanted("50%", Budget(share=0.5)), Wanted("min", Budget())]
    wanted += [Wanted("f=0", 0.0), Wanted("f=0.5", 0.5), Wanted("f=1", 1.0)]
    cases = make_cases([graph], wanted)
    assert [case.label for case in cases] == ["30", "50%", "min", "f=0", "f=0.5", "f=1"]
    halfway = least + (peak - least) // 2
    assert [case.budget_bytes for case in cases] == [30, peak // 2, least, least, halfway, peak]
    assert {case.plain_bytes for case in cases} == {peak}


def test_relative_costs_and_their_geometric_mean() -> None:
    other = Case(GRAPH, "50%", 10, 20)
    trials = [
        trial("a", 12.0),
        trial("b", 24.0),
        trial("a", 18.0, other),
        trial("b", 36.0, other),
        trial("c", None, other),
    ]
    assert relative_costs(trials) == [1.0, 2.0, 1.0, 2.0, None]
    a, b, c = standings(trials)
    assert (a.ratio, a.solved, a.cases) == (pytest.approx(1.0), 2, 2)
    assert b.ratio == pytest.approx(2.0)
    assert (c.ratio, c.solved, c.cases) == (None, 0, 1)
    mixed = standings([trial("a", 12.0), trial("b", 16.0), trial("a", 16.0, other), trial("b", 12.0, other)])
    assert [s.ratio for s in mixed] == pytest.approx([(4 / 3) ** 0.5] * 2)


def test_the_table_is_aligned_and_says_what_it_ran_on() -> None:
    trials = [trial("auto", 13.2, lower_bound=12.6), trial("made-up", None, lower_bound=None)]
    lines = table.text(trials, OPTIONS, MACHINE).splitlines()
    head, first, second = lines[:3]
    for title, one, none in (
        ("first s", "0.200", "–"),
        ("to 1 % s", "2.00", "–"),
        ("to final s", "2.00", "–"),
        ("0.3 s %", "65.00", "–"),  # 1.5 * 13.2 = 19.8 = 12 + 65 %
        ("3 s %", "10.00", "–"),
        ("final %", "10.00", "–"),
        ("bound %", "5.00", "–"),
        ("gap %", "4.55", "–"),  # 0.6 of 13.2
        ("× best", "1.0000", "–"),
    ):
        end = head.index(f"  {title}") + len(title) + 2
        assert first[:end].endswith(f" {one}") and second[:end].endswith(f" {none}"), title
    assert "10 s %" not in head, "beyond the time limit"
    text = "\n".join(lines)
    assert "made-up: no schedule on any of 1 cases" in text and "made-up: none was found" in text
    assert "on a processor, 2 cores, load 0.5 at the start, 1.00 GiB" in text


def test_one_solver_is_not_compared_and_assumptions_are_named() -> None:
    text = table.text([trial("milp", 13.2, lower_bound=13.0, assumptions=("given order",))], OPTIONS, MACHINE)
    assert "× best" not in text
    assert "8.33*" in text and "* a bound under assumptions: given order" in text


def test_published_figures_stand_in_the_table() -> None:
    graph = replace(random_layered(0, 100), name="RL1")
    case = Case(graph, "80%", 800, 1000)
    text = table.text([Trial(case, result("auto", None), Convergence(), 1.0)], OPTIONS, MACHINE)
    assert "RL1" in text and "0.3 % FastSA, 11.5 s" in text


def test_facts_are_plain_json() -> None:
    trials = [trial("auto", 13.2, lower_bound=12.6), trial("made-up", None)]
    found = json.loads(json.dumps(table.facts(trials, OPTIONS, MACHINE), allow_nan=False))
    first, second = found["trials"]
    assert (first["overhead_percent"], first["bound_percent"]) == (pytest.approx(10), pytest.approx(5))
    assert (first["seconds_to_first"], first["seconds_to_within_1_percent"], first["seconds_to_final"]) == (
        0.2,
        2,
        2,
    )
    assert first["overhead_percent_after"] == {
        "0.3": pytest.approx(65),
        "1": pytest.approx(65),
        "3": pytest.approx(10),
    }
    assert second["cost"] is second["relative_to_best"] is second["seconds_to_first"] is None
    assert found["machine"]["processor"] == "a processor" and found["options"]["time_limit_s"] == 3


def solver_that(
    monkeypatch: pytest.MonkeyPatch, told: Sequence[tuple[list[int], float]], crash: str = ""
) -> None:
    """Let solving report these (steps, cost), then crash or return the last."""

    def solve(graph: Graph, budget: int, *, solver: str, options: SolveOptions, listener: Any) -> SolveResult:
        for steps, cost in told:
            listener.incumbent(steps, cost)
        if crash:
            raise SolverCrashedError(crash)
        return result(solver, told[-1][1])

    monkeypatch.setattr(planning, "solve", solve)


PLAIN = list(range(8))
ROOMY = Case(GRAPH, "100%", 20, 20)


def test_reported_schedules_are_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    solver_that(monkeypatch, [(PLAIN, 12.0)])
    assert measure(ROOMY, "made-up", OPTIONS).result.status is SolveStatus.FEASIBLE
    solver_that(monkeypatch, [(PLAIN[:-1], 13.0), (PLAIN, 12.0)])
    wrong = measure(ROOMY, "made-up", OPTIONS)
    assert wrong.result.status is SolveStatus.FAILED and wrong.convergence == Convergence()
    assert "does not hold" in wrong.result.message and table.any_failed([wrong])
    solver_that(monkeypatch, [(PLAIN, 11.0), (PLAIN, 10.0)])
    assert "cost 12" in measure(ROOMY, "made-up", OPTIONS).result.message


def test_a_crash_is_one_failed_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    solver_that(monkeypatch, [], crash="it broke")
    trials = run([ROOMY, ROOMY], ["made-up"], OPTIONS)
    assert [t.result.status for t in trials] == [SolveStatus.FAILED] * 2
    assert trials[0].result.message == "it broke"


def test_progress_and_the_request_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    solver_that(monkeypatch, [(PLAIN, 12.0)])
    reports: list[Progress] = []
    run([ROOMY, ROOMY], ["a", "b"], OPTIONS, report=reports.append)
    assert {report.total for report in reports} == {12.0}  # 2 cases * 2 solvers * 3 s
    starts = [report for report in reports if ":" not in report.message]
    assert [report.message for report in starts] == ["chain4 at 100%, a", "chain4 at 100%, b"] * 2
    with pytest.raises(CancelledError):
        run([ROOMY], ["a"], OPTIONS, cancelled=lambda: True)


def test_this_machine_is_described() -> None:
    machine = this_machine()
    assert machine.processor and machine.cores >= 1 and machine.memory_bytes > 2**20
    assert "numba" in machine.libraries and machine.processor in str(machine)


def test_the_generated_graphs_are_always_the_same() -> None:
    names = [graph.name for graph in generated_graphs()]
    assert names[:4] == ["layered100", "layered500", "layered1000", "chain64"]
    assert [g.fingerprint for g in generated_graphs()] == [g.fingerprint for g in generated_graphs()]
