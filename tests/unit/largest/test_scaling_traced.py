"""Test sizes on the line through two traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from checkmate.errors import UsageError
from checkmate.ir import Graph, GraphBuilder, Phase
from checkmate.largest.batch import max_batch
from checkmate.largest.scaling_traced import TracedScaling, traced_at_two
from checkmate.memory.check import check
from checkmate.solvers.problem import SolveOptions


def step(batch: int) -> Graph:
    """Return a step as a trace gives it.

    It has activations, a buffer with a part that stays, a parameter's gradient and an update.
    """
    builder = GraphBuilder("step")
    a, c = builder.value("a", 40 * batch), builder.value("c", 7 + 3 * batch)
    builder.op("f", [], [a, c], cost=10.0 * batch, workspace_bytes=5 * batch)
    b = builder.value("b", 40 * batch, keep=True)
    builder.op("g", [a], [b], cost=10.0 * batch, takes_over=((b, a),))
    gradient = builder.value("gw", 200)
    builder.op("back", [c, b], [gradient], phase=Phase.BACKWARD, cost=20.0 * batch)
    builder.op("u", [gradient], [], phase=Phase.UPDATE, cost=4.0, workspace_bytes=100)
    return builder.build(
        batch_size=batch, fixed_bytes=90 + 8 * batch, fixed={"parameters": 90, "inputs": 8 * batch}
    )


def test_every_other_batch_is_as_traced() -> None:
    scaling = traced_at_two(step, 3)
    assert (scaling.batch, scaling.larger.batch_size) == (3, 5)
    for batch in (1, 2, 3, 4, 5, 6, 17, 1000):
        graph, true = scaling.at(batch), step(batch)
        assert graph.fingerprint == true.fingerprint
        assert dict(graph.fixed) == dict(true.fixed)
        assert check(graph, range(4)).peak_bytes == check(true, range(4)).peak_bytes
    assert scaling.grows.tolist() == [True, True, True, False]
    assert "traced at batch sizes 3 and 5" in scaling.note() and "operation counts at 3" in scaling.note()


def test_the_largest_batch_is_the_last_one_that_fits() -> None:
    budget = 5000
    found = max_batch(traced_at_two(step), budget, options=SolveOptions(time_limit_s=1.0))
    steps = found.result.require_schedule().steps.tolist()
    assert check(step(found.batch), steps, budget_bytes=budget).ok
    assert found.proved and check(step(found.batch + 1), range(4)).peak_bytes > budget


def other(change: Callable[[Graph], Graph]) -> Callable[[int], Graph]:
    return lambda batch: change(step(batch)) if batch == 5 else step(batch)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda graph: replace(graph, ops=(*graph.ops[:3], replace(graph.ops[3], type="Other"))),
            "the step of 'step' is not the same at batch sizes 3 and 5, so other batch sizes cannot be "
            "extrapolated from them",
        ),
        (
            lambda graph: replace(graph, values=(replace(graph.values[0], bytes=1), *graph.values[1:])),
            "some sizes of 'step' shrink as the batch grows (3 and 5), so other batch sizes cannot be "
            "extrapolated from them",
        ),
    ],
)
def test_traces_that_are_not_on_a_line_end_in_one_sentence(
    change: Callable[[Graph], Graph], sentence: str
) -> None:
    with pytest.raises(UsageError) as caught:
        traced_at_two(other(change), 3)
    assert str(caught.value) == sentence


def test_fractional_sizes_per_example_are_rounded_up() -> None:
    odd = replace(step(5), values=(replace(step(5).values[0], bytes=203), *step(5).values[1:]))
    scaling = TracedScaling(step(3), larger=odd)
    assert [scaling.at(batch).values[0].bytes for batch in (3, 4, 5, 6)] == [120, 162, 203, 245]
