"""Test that a schedule can be moved to the same step at another batch."""

from __future__ import annotations

import pytest

from checkmate.backends.tf.costs.profile import analytic_costs
from checkmate.backends.tf.emit.other_trace import moved_steps, op_types
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.errors import TraceError
from checkmate.memory.check import check
from checkmate.planning import keep_everything_peak, solve
from checkmate.solvers.problem import SolveOptions
from tests.tf.prepared import prepared, request_of


def step(model: str, batch: int) -> FoldedStep:
    return prepared(request_of("small_models", model, batch))


@pytest.mark.heavy
@pytest.mark.parametrize("model", ["convnet", "encoder"])
def test_a_moved_schedule_is_valid_and_in_the_same_order(model: str) -> None:
    large = step(model, 512)
    graph = analytic_costs(large)
    budget = int(0.75 * keep_everything_peak(graph))
    options = SolveOptions(time_limit_s=5.0)
    schedule = solve(graph, budget, solver="greedy", options=options).require_schedule()
    steps = schedule.steps.tolist()
    assert schedule.recomputations > 0
    for batch in (512, 64, 2):
        small = step(model, batch)
        moved = moved_steps(steps, large.nodes, op_types(large), small)
        assert check(small.graph, moved).valid
        assert batch != 512 or moved == steps
        # Ops that are recomputed there are recomputed here as often, except for ops that are folded away.
        again = len(moved) - small.graph.n
        assert 0.5 * schedule.recomputations <= again <= schedule.recomputations


def test_another_step_is_refused() -> None:
    small, other = step("convnet", 2), step("two_heads", 2)
    with pytest.raises(TraceError, match="is not the same at batch 2"):
        moved_steps(list(range(small.graph.n)), small.nodes, op_types(small), other)
