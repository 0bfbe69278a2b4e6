"""Path-cut programs in whole numbers, which CP-SAT solves in a process that ends with the prover."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import psutil
import pytest

from checkmate.ir import Graph, Schedule
from checkmate.memory.simulate import simulate
from checkmate.processes import conversation
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.engine import ENGINE_MESSAGES, EngineDone
from checkmate.solvers.pathcut.cut_program import CutOutcome, solve_program
from checkmate.solvers.pathcut.cuts import CutProgram, Reach, build_program, heaviest_path
from checkmate.solvers.pathcut.prover import ProofListener, Prover
from checkmate.solvers.pathcut.sat import SatProcess, parts_of
from checkmate.solvers.problem import Listener
from tests.generated_graphs import training_dag
from tests.graphs_strategies import random_graph, training_chain
from tests.oracles import optimum
from tests.unit.solvers.test_local_search import peak_of, plain_graph, random_budget

ROUNDED = 1e-5  # costs that are not whole are rounded down by at most this share


def by_sat(sat: SatProcess, graph: Graph, program: CutProgram, start: np.ndarray | None = None) -> CutOutcome:
    return sat.solve(graph, program, Listener(), time_limit_s=60, workers=1, start=start)


def by_highs(graph: Graph, program: CutProgram) -> CutOutcome:
    return solve_program(graph, program, Listener(), time_limit_s=60, workers=1)


def programs(graph: Graph, budget: int) -> list[CutProgram]:
    """Return the programs of a path and of half of it, unless empty."""
    reach = Reach.of(graph)
    path = heaviest_path(graph, reach)
    both = [build_program(graph, reach, budget, cuts) for cuts in (path, path[::2])]
    return [program for program in both if program.columns]  # HiGHS has no status for an empty one


def test_as_high_as_highs_and_never_above_the_optimum() -> None:
    random = Random(3)
    sat = SatProcess()
    try:
        for i in range(16):
            graph = plain_graph(random) if i % 2 else random_graph(random, most_ops=5)
            budget = random_budget(random, graph, below=1)
            exact = optimum(graph, budget)
            best = math.inf if exact is None else exact.cost
            for program in programs(graph, budget):
                own, other = by_sat(sat, graph, program), by_highs(graph, program)
                assert own.exact and other.exact
                assert own.bound <= best * (1 + 1e-9)
                assert own.bound == pytest.approx(other.bound, rel=ROUNDED)
                assert (own.runs is None) == (other.runs is None)
    finally:
        sat.close()


def test_a_start_that_does_not_fit_proves_no_more_than_its_cost() -> None:
    graph = training_chain(8)
    budget = working_set_bound(graph).bytes
    program = programs(graph, budget)[0]
    plain = np.arange(graph.n, dtype=np.int32)
    assert simulate(graph, Schedule.of(graph, plain)).peak_bytes > budget
    sat = SatProcess()
    try:
        alone, misled = by_sat(sat, graph, program), by_sat(sat, graph, program, plain)
    finally:
        sat.close()
    assert alone.bound > graph.base_cost
    assert (misled.bound, misled.exact) == (graph.base_cost, False)


def test_only_costs_that_are_not_whole_are_rounded() -> None:
    graph = training_dag(3, 6)
    program = programs(graph, peak_of(graph))[0]
    assert parts_of(program) == 1.0
    assert parts_of(replace(program, cost=program.cost + 0.5)) > 1e4


def run_rounds(prover: Prover) -> None:
    """Solve three programs, those of several cuts without HiGHS if possible."""
    prover._engines._hard = True
    prover.run(ProofListener(), until=time.perf_counter() + 300, rounds=3)


def test_the_process_ends_with_the_prover(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(psutil.Process().children())
    running: list[int] = []
    solve = SatProcess.solve

    def noted(self: SatProcess, *given: Any, **how: Any) -> CutOutcome:
        found = solve(self, *given, **how)
        running.append(len(set(psutil.Process().children()) - before))
        return found

    monkeypatch.setattr(SatProcess, "solve", noted)
    graph = training_chain(12)
    prover = Prover(graph, peak_of(graph) - 30)
    run_rounds(prover)
    assert running and set(running) == {1}
    assert prover.bound > graph.base_cost
    assert set(psutil.Process().children()) <= before


def test_a_prover_may_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SatProcess, "solve", lambda *given, **named: pytest.fail("it was asked"))
    graph = training_chain(12)
    prover = Prover(graph, peak_of(graph) - 30, with_sat=False)
    run_rounds(prover)
    assert prover.bound > graph.base_cost


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"no frame at all, but long enough",
        ENGINE_MESSAGES.encode(EngineDone("OPTIMAL", 1.0, (1000000,))),
        ENGINE_MESSAGES.encode(EngineDone("OPTIMAL", 1.0, (-1,))),
    ],
    ids=["nothing", "no frame", "no column", "a negative one"],
)
def test_a_process_that_fails_proves_nothing_and_leaves_the_programs_to_highs(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"import sys; sys.stdout.buffer.write({said!r}); sys.stdout.flush(); {'input()' if said else ''}"
    monkeypatch.setattr(conversation, "module_command", lambda name: [sys.executable, "-c", code])
    graph = training_chain(6)
    sat = SatProcess()
    assert sat.usable
    try:
        outcome = by_sat(sat, graph, programs(graph, peak_of(graph) - 10)[0])
    finally:
        sat.close()
    assert (outcome.exact, outcome.runs, sat.usable) == (False, None, False)
    assert outcome.bound == graph.base_cost
