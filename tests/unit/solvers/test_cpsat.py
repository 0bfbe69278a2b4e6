"""Retention intervals against exhaustive search, and their child process."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from checkmate import planning
from checkmate.ir import Graph, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.processes.conversation import Conversation
from checkmate.processes.messages import unpack_steps
from checkmate.progress import never
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.cpsat.interval_solver import (
    IntervalSolver,
    event_of,
    interval_assumptions,
    interval_task,
    op_at,
)
from checkmate.solvers.engine import ENGINE_MESSAGES, EngineDone, EngineReady, EngineSteps, answers
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from tests.generated_graphs import training_chain, training_dag
from tests.oracles import Order, optimum
from tests.recorder import Recorder
from tests.unit.solvers.test_tight import tiny_graphs

ROOT = Path(__file__).resolve().parents[3]


def middle(graph: Graph) -> int:
    return (working_set_bound(graph).bytes + planning.keep_everything_peak(graph)) // 2


def solve(graph: Graph, budget: int, *, copies: int = 4, seconds: float = 10.0) -> SolveResult:
    return IntervalSolver(copies).solve(
        Problem(graph, budget), SolveOptions(time_limit_s=seconds), Listener()
    )


def hold_against_the_optimum(graph: Graph, budget: int) -> bool:
    """With as many copies as stages the model is exact, except for tangled take-overs."""
    result, best = solve(graph, budget), optimum(graph, budget, Order.STAGES)
    if best is None:
        assert result.schedule is None
        return False
    if len(interval_assumptions(graph, 4, recompute_gradients=True)) == 3:
        assert result.status is SolveStatus.OPTIMAL and result.cost == pytest.approx(best.cost), result
    elif result.cost is not None:
        assert result.cost >= best.cost - 1e-9
    return best.cost > graph.base_cost


def test_the_optimum_of_tiny_graphs() -> None:
    graphs = list(tiny_graphs(range(200, 215)))
    assert sum(hold_against_the_optimum(graph, middle(graph)) for graph in graphs) >= 1


@pytest.mark.no_cover  # its lines are those of the test with few graphs
@pytest.mark.parametrize(
    "seeds",
    [pytest.param(32, marks=pytest.mark.heavy), pytest.param(80, marks=pytest.mark.long)],
)
def test_the_optimum_of_many_tiny_graphs(seeds: int) -> None:
    proved = 0
    for graph in tiny_graphs(range(4000, 4000 + seeds)):
        proved += hold_against_the_optimum(graph, working_set_bound(graph).bytes + 1)
        proved += hold_against_the_optimum(graph, middle(graph))
    assert proved >= seeds // 16


def test_two_computations_are_not_three() -> None:
    graph = training_chain(8)
    budget = working_set_bound(graph).bytes + 4
    two, three = (solve(graph, budget, copies=copies) for copies in (2, 3))
    assert three.status is SolveStatus.OPTIMAL and "at most 3 computations of an op" in three.assumptions
    assert max(Counter(three.require_schedule().steps.tolist()).values()) == 3
    # Two are not enough here. Greedy's schedule is returned, and nothing is claimed of it.
    assert (two.status, two.assumptions, two.lower_bound) == (SolveStatus.FEASIBLE, (), graph.base_cost)


def test_fractional_costs_are_bounded_from_below() -> None:
    graph = training_dag(2, 5)
    shares = [0.1 + op.cost / 7 for op in graph.ops]
    ops = [type(op)(**{**vars(op), "cost": share}) for op, share in zip(graph.ops, shares, strict=True)]
    graph = Graph(graph.name, tuple(ops), graph.values, graph.fixed_bytes)
    result = solve(graph, planning.keep_everything_peak(graph) - 1, copies=3)
    assert result.status is SolveStatus.OPTIMAL and result.lower_bound is not None
    assert result.cost is not None and result.lower_bound <= result.cost


def test_events_count_steps() -> None:
    events = [event_of(stage, op) for stage in range(20) for op in range(stage + 1)]
    assert events == list(range(len(events)))
    assert [op_at(event) for event in events] == [op for stage in range(20) for op in range(stage + 1)]


def test_too_many_reads_are_refused_in_a_sentence() -> None:
    result = solve(training_chain(500), 100, copies=4)
    assert (
        result.status is SolveStatus.LIMIT and "variables" in result.message and "too many" in result.message
    )


def test_cancelling_kills_the_child() -> None:
    graph = training_dag(5, 40)
    budget = int(planning.keep_everything_peak(graph) * 0.5)
    problem, options = Problem(graph, budget), SolveOptions(time_limit_s=100)
    begun = time.perf_counter()
    result = IntervalSolver(3).solve(problem, options, Recorder(after_s=2.0))
    assert time.perf_counter() - begun < 30  # kernels may be compiled first
    assert result.status is not SolveStatus.INFEASIBLE
    assert not [
        child for child in psutil.Process().children() if "checkmate.solvers.cpsat.child" in child.cmdline()
    ]


def test_the_child_is_ready_and_sends_schedules_until_it_is_done() -> None:
    graph = training_chain(4)
    how = {"seconds": 10.0, "gap": 0.0, "workers": 1, "seed": 0}
    task = interval_task(graph, middle(graph), copies=2, recompute_gradients=True, hint=[], **how)
    talk = Conversation("checkmate.solvers.cpsat.child", ENGINE_MESSAGES)
    try:
        told = list(answers(talk, task, loading_s=60.0, seconds=60.0, cancelled=never))
    finally:
        talk.close()
    assert told[0] == EngineReady() and isinstance(told[-1], EngineDone) and told[-1].status == "OPTIMAL"
    found = [message for message in told if isinstance(message, EngineSteps)]
    assert check(graph, unpack_steps(found[-1].steps).tolist(), budget_bytes=middle(graph)).ok
