"""Test that the window refuses answers that contradict its checks."""

from __future__ import annotations

import math
from typing import Any

import pytest

from app.models.exploration import Exploration
from app.models.questions.solver_client import SolverClient
from checkmate.ipc.steps import pack_steps
from checkmate.ir import SolveStatus
from checkmate.workers.messages.solver import CostBound, SolveEnded
from tests.graphs_strategies import training_chain

BUDGET = 90  # of the plain step, which costs 16


@pytest.fixture
def client(qapp) -> SolverClient:
    exploration = Exploration()
    exploration.set_graph(training_chain(8))
    exploration.set_budget(BUDGET)
    client = SolverClient(exploration)
    client.process.send = lambda message: None
    client.solve()
    return client


def ended(client: SolverClient, **claims: Any) -> SolveEnded:
    facts = {"status": SolveStatus.OPTIMAL, "cost": 16.0, "lower_bound": 16.0, "assumptions": (), **claims}
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
        {"lower_bound": 17.0},
        {"lower_bound": math.inf},
        {"lower_bound": 8.0},
        {"lower_bound": None},
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
    client.close()


@pytest.mark.parametrize("claims", [{}, {"assumptions": ("given order",), "lower_bound": 99.0}], ids=str)
def test_a_true_answer_is_not(client: SolverClient, claims: dict[str, Any]) -> None:
    client._on_received(ended(client, **claims))
    assert client._exploration.solve.status == "optimal"
    client.close()


def test_a_false_bound_on_the_way_is_dropped(client: SolverClient) -> None:
    said: list[str] = []
    client.noticed.connect(said.append)
    job = client._exploration.solve.job
    client._on_received(CostBound(job, 170.0, ()))
    assert "contradicts" in said[0] and (client._exploration.solve.lower_bound or 0.0) <= 16.0
    client.close()
