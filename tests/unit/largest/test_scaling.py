from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from checkmate.errors import UsageError
from checkmate.ir import Graph, GraphBuilder, Phase
from checkmate.largest.batch import max_batch
from checkmate.largest.scaling import BatchScaling, traced_at_two, with_fixed_bytes
from checkmate.memory.check import check
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence.greedy_solver import GreedySolver
from tests.graphs_strategies import random_graph, training_chain


def step_with_update() -> Graph:
    """Return a step with an update, at batch 4.

    It has an activation, a weight, its gradient, its update, and a scalar loss.
    """
    builder = GraphBuilder("step")
    x, weight = builder.value("x", 64, shape=(4, 4)), builder.value("w", 40, shape=(5, 2))
    a = builder.value("a", 160, shape=(4, 10))
    builder.op("f", [x, weight], [a], cost=8.0, workspace_bytes=12)
    flat = builder.value("flat", 160, shape=(40,), alias_of=a)
    builder.op("flatten", [a], [flat])
    loss = builder.value("loss", 4, shape=(), keep=True)
    builder.op("l", [flat], [loss], phase=Phase.LOSS, cost=2.0)
    gradient = builder.value("gw", 40, shape=(5, 8))
    builder.op("b", [a, loss], [gradient], phase=Phase.BACKWARD, cost=4.0)
    new = builder.value("w2", 40, shape=(5, 8), keep=True)
    builder.op(
        "u", [weight, gradient], [new], phase=Phase.UPDATE, workspace_bytes=6, takes_over=((new, gradient),)
    )
    fixed = {"parameters": 40, "inputs": 64}
    return builder.build(
        batch_size=4, fixed_bytes=104, fixed=fixed, metadata={"loss": "mse", "request": {"model": "m"}}
    )


def test_what_grows_and_what_does_not() -> None:
    scaling = BatchScaling(step_with_update())
    assert scaling.grows.tolist() == [True, False, True, True, False, False, False]
    graph = scaling.at(6)
    assert graph.value_bytes.tolist() == [96, 40, 240, 240, 4, 40, 40]
    assert graph.workspace_bytes.tolist() == [18, 0, 0, 0, 6]
    assert graph.cost.tolist() == [12.0, 0.0, 3.0, 6.0, 0.0]
    assert (graph.fixed_bytes, dict(graph.fixed)) == (136, {"parameters": 40, "inputs": 96})
    assert graph.batch_size == 6 and graph.values[2].shape == (6, 10) and graph.values[3].shape is None
    assert graph.ops[4].takes_over == ((6, 5),)
    assert dict(graph.metadata) == {"loss": "mse", "extrapolated_from_batch": 4}
    assert "extrapolated from batch 4" in scaling.note() and "3 of 5 values" in scaling.note()


def test_without_a_known_gradient_it_says_that_all_was_scaled() -> None:
    assert "this is so for all values" in BatchScaling(training_chain(3), 2).note()


def test_its_own_batch_is_the_graph_itself() -> None:
    for seed in range(60):
        graph = random_graph(Random(seed))
        if not grows(graph):
            continue
        same = BatchScaling(graph, 3).at(3)
        steps = list(range(graph.n))
        assert check(same, steps).peak_bytes == check(graph, steps).peak_bytes
        assert same.base_cost == graph.base_cost


def grows(graph: Graph) -> bool:
    return any(
        graph.values[v].alias_of is None and graph.values[v].bytes for op in graph.ops for v in op.outputs
    )


def test_peaks_never_shrink_with_the_batch_and_extra_cost_stays_the_same_share() -> None:
    seen = 0
    for seed in range(150):
        random = Random(seed)
        graph = random_graph(random)
        if not grows(graph):
            continue
        shapes = [None, (3, 1), (2,)]
        graph = replace(graph, values=tuple(replace(v, shape=random.choice(shapes)) for v in graph.values))
        try:
            scaling = BatchScaling(graph, 3)
        except UsageError:
            continue
        found = GreedySolver().solve(Problem(graph, 10**6), SolveOptions(), Listener())
        steps = found.require_schedule().steps.tolist()
        reports = [check(scaling.at(batch), steps) for batch in range(1, 12)]
        assert all(report.valid for report in reports)
        peaks = [report.peak_bytes for report in reports]
        assert peaks == sorted(peaks)
        for batch, report in enumerate(reports, 1):
            assert report.cost * 3 == pytest.approx(reports[2].cost * batch)
        seen += 1
    assert seen > 80


def test_all_growing_sizes_that_divide_scale_the_peak_exactly() -> None:
    graph = training_chain(4, bytes_=12)
    scaling = BatchScaling(with_fixed_bytes(graph, 7), 4)
    peak = check(scaling.at(4), range(graph.n)).peak_bytes
    for batch in (1, 2, 3, 5, 100):
        assert check(scaling.at(batch), range(graph.n)).peak_bytes == 7 + (peak - 7) * batch // 4


def test_equal_sizes_that_grow_differently_are_not_written_over_each_other() -> None:
    builder = GraphBuilder("mixed")
    a, b = builder.value("a", 8, shape=(3,)), builder.value("b", 8, shape=(2,), keep=True)
    builder.op("f", [], [a])
    builder.op("g", [a], [b], takes_over=((b, a),))
    graph = builder.build(batch_size=2)
    assert check(graph, [0, 1]).peak_bytes == 8
    assert [check(BatchScaling(graph).at(batch), [0, 1]).peak_bytes for batch in (1, 2, 3)] == [12, 16, 20]


def test_a_scaling_can_be_copied() -> None:
    scaling = pickle.loads(pickle.dumps(BatchScaling(training_chain(3), 2)))
    assert scaling.at(4).fingerprint == BatchScaling(training_chain(3), 2).at(4).fingerprint


@pytest.mark.parametrize(
    ("graph", "batch", "sentence"),
    [
        (training_chain(3), 0, "'chain' does not say what batch size its bytes are for"),
        (replace(training_chain(3), batch_size=8), 4, "'chain' says that its batch size is 8, not 4"),
        (
            training_chain(3, bytes_=0),
            4,
            "no value of 'chain' grows with the batch, so every batch fits or none does",
        ),
    ],
)
def test_bad_input_ends_in_one_sentence(graph: Graph, batch: int, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        BatchScaling(graph, batch)
    assert str(caught.value) == sentence


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
    scaling = BatchScaling(step(3), larger=odd)
    assert [scaling.at(batch).values[0].bytes for batch in (3, 4, 5, 6)] == [120, 162, 203, 245]
