"""Test which solver makes the schedules of a JAX step."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from checkmate.backends.jax.solve import solve_for_xla
from checkmate.solvers.problem import SolveOptions
from tests.graphs_strategies import training_chain


@pytest.mark.parametrize(
    ("platform", "solver", "taken"),
    [("gpu", "auto", "chain"), ("cpu", "auto", "local-search"), ("gpu", "greedy", "greedy")],
)
def test_segments_are_preferred_on_a_gpu_and_a_solver_that_was_asked_for_is_taken(
    platform: str, solver: str, taken: str
) -> None:
    options = SolveOptions(time_limit_s=1)
    found = solve_for_xla(training_chain(24), 160, platform=platform, solver=solver, options=options)
    assert found.solver == taken
