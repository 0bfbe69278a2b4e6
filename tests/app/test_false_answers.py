from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import pytest

from app.models.solving import SolverClient
from app.presenters.solve_text import of_solve
from app.state.solve import Aim
from checkmate.ir import SolveStatus
from checkmate.processes.messages import pack_steps
from checkmate.workers.window_messages import Incumbent, SolveBound, SolveEnded
from tests.app.windows import exploration_of
from tests.graphs_strategies import training_chain

BUDGET = 90  # of the plain step, which costs 16


@pytest.fixture
def client(qapp) -> Iterator[SolverClient]:
    exploration = exploration_of(training_chain(8))
    exploration.set_budget(BUDGET)
    client = SolverClient(exploration)
    client.process.send = lambda message: None
    client.solve()
    yield client
    client.close()


def ended(client: SolverClient, **claims: Any) -> SolveEnded:
    facts = {"status": SolveStatus.OPTIMAL, "bound": 16.0, "assumptions": (), **claims}
    exploration = client._exploration
    return SolveEnded(
        job=exploration.solve.job,
        solver="auto",
        budget_bytes=BUDGET,
        solve_seconds=0.1,
        message="",
        statistics={},
        steps=pack_steps(range(16)),
        **facts,
    )


@pytest.mark.parametrize(
    "lie",
    [
        {"status": SolveStatus.INFEASIBLE},
        {"bound": 17.0},
        {"bound": math.inf},
        {"bound": 8.0},
        {"bound": None},
    ],
    ids=str,
)
def test_a_false_answer_is_refused(client: SolverClient, lie: dict[str, Any]) -> None:
    said: list[str] = []
    client.failed.connect(lambda sentence, hint: said.append(sentence))
    client._on_received(ended(client, **lie))
    solve = client._exploration.solve
    assert solve.status == "failed" and "contradicts" in said[0] and "contradicts" in solve.message
    assert (solve.lower_bound or 0.0) <= 16.0 and client._exploration.frontier.bound(BUDGET) <= 16.0


@pytest.mark.parametrize("claims", [{}, {"assumptions": ("given order",), "bound": 99.0}], ids=str)
def test_a_true_answer_is_not(client: SolverClient, claims: dict[str, Any]) -> None:
    client._on_received(ended(client, **claims))
    assert client._exploration.solve.status == "optimal"


def test_a_false_bound_on_the_way_is_dropped(client: SolverClient) -> None:
    said: list[str] = []
    client.noticed.connect(said.append)
    job = client._exploration.solve.job
    client._on_received(SolveBound(job, 170.0, ()))
    assert "contradicts" in said[0] and (client._exploration.solve.lower_bound or 0.0) <= 16.0


def least_ended(client: SolverClient, peak_bytes: int) -> SolveEnded:
    """Claim that no schedule needs less than ``peak_bytes``."""
    claims = {"bound": float(peak_bytes), "statistics": {"probes": 1}, "budget_bytes": peak_bytes}
    return dataclasses.replace(ended(client), **claims)


@pytest.mark.parametrize("less", [1, 40, -1, -(10**6)])
def test_a_false_answer_to_a_search_for_less_memory_is_refused(client: SolverClient, less: int) -> None:
    exploration, said = client._exploration, []
    exploration.set_aim(Aim(0.0))
    client.solve()
    client.failed.connect(lambda sentence, hint: said.append(sentence))
    peak = exploration.plain.peak_bytes
    client._on_received(SolveBound(exploration.solve.job, 10.0 * peak, ()))
    assert (exploration.solve.lower_bound or 0.0) <= peak
    client._on_received(least_ended(client, peak - less))
    assert exploration.solve.status == "failed" and "contradicts" in said[0]
    assert exploration.solve.best[-1][1] == peak and exploration.what_if.least_bound(0.0) <= peak


def test_a_true_answer_to_a_search_for_less_memory_is_not(client: SolverClient) -> None:
    exploration = client._exploration
    exploration.set_aim(Aim(0.0))
    client.solve()
    peak = exploration.plain.peak_bytes
    client._on_received(least_ended(client, peak))
    assert exploration.solve.status == "optimal" and exploration.what_if.least_bound(0.0) == peak


def test_a_schedule_is_noted_at_its_own_cost(client: SolverClient) -> None:
    exploration = client._exploration
    client._on_received(Incumbent(exploration.solve.job, BUDGET, pack_steps(range(16))))
    client._on_received(Incumbent(exploration.solve.job, BUDGET, pack_steps(range(8))))  # it does not hold
    assert [cost for _, cost in exploration.solve.best] == [16.0]


def test_a_bound_is_for_the_budget_that_was_asked(client: SolverClient) -> None:
    exploration = client._exploration
    exploration.set_budget(60)
    client.solve()
    claims = {"status": SolveStatus.LIMIT, "bound": 18.0}
    client._on_received(dataclasses.replace(ended(client, **claims), budget_bytes=10**9, steps=b""))
    assert exploration.frontier.bound(60) == 18.0 and exploration.frontier.bound(10**9) == 16.0


def test_it_is_said_who_vouches_for_a_proof(client: SolverClient) -> None:
    exploration = client._exploration

    def tip() -> str:
        return of_solve(exploration.graph, exploration.solve, exploration.standing, "").tip

    assert tip() == ""
    client._on_received(ended(client))
    assert exploration.solve.status == "optimal"
    assert "Proved by the solver" in tip() and "Save a certificate…" in tip()
