"""Test that a scheduled step computes what the plain one does, and takes the predicted memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.outcomes import relative_error, total_norm
from checkmate.backends.tf import private
from checkmate.backends.tf.allocator.learn import learned_workspace, with_workspace
from checkmate.backends.tf.measure.concrete import compiled_step, run_step
from checkmate.backends.tf.profiler import trace_run
from checkmate.backends.tf.restoring import restored
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.ir import Graph, Phase, Schedule
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from tests.tf.allocator.test_replay import traced
from tests.tf.prepared import small
from tests.tf.schedules import keep_everything, recompute_forward

MODELS = [
    "convnet",
    *(
        pytest.param(name, marks=pytest.mark.heavy)
        for name in ("encoder", "recurrent", "bidirectional", "two_heads")
    ),
]


@pytest.fixture(scope="module", params=MODELS)
def folded(request: pytest.FixtureRequest) -> FoldedStep:
    return small(request.param)


def run_from_same_state(folded: FoldedStep, function) -> tuple[float, list[np.ndarray], list[np.ndarray]]:
    variables = folded.traced.variables
    with restored(variables):
        loss, _, gradients = run_step(function, folded.traced.loaded.make_batch())
        after = [variable.numpy() for variable in variables]
    return float(loss), [tensor.numpy() for group in gradients for tensor in group], after


def test_graph_has_both_passes_and_knows_its_layers(folded: FoldedStep) -> None:
    graph = folded.graph
    # Updates of small weights are light; they are run, but not scheduled.
    assert {op.phase for op in graph.ops} >= {Phase.FORWARD, Phase.BACKWARD}
    layers = {layer.name for layer in folded.traced.loaded.model.layers}
    forward = {op.group for op in graph.ops if op.phase is Phase.FORWARD}
    assert forward & layers, forward
    assert all(op.group for op in graph.ops)
    assert graph.fixed["parameters"] > 0 and graph.fixed["optimizer"] > 0 and graph.fixed["inputs"] > 0
    assert check(graph, range(graph.n)).valid


def test_updates_run_once_and_the_rest_may_be_recomputed(folded: FoldedStep) -> None:
    for op in folded.graph.ops:
        if op.phase is Phase.UPDATE:
            assert not op.recomputable
    assert any(op.recomputable for op in folded.graph.ops if op.phase is Phase.FORWARD)


def test_recomputing_everything_changes_neither_gradients_nor_state(folded: FoldedStep) -> None:
    schedule = recompute_forward(folded.graph)
    assert check(folded.graph, schedule.steps.tolist()).valid
    assert schedule.recomputations > 0 or folded.graph.name == "recurrent"  # its loops run once
    loss, reference, state = run_from_same_state(folded, compiled_step(folded, None, with_gradients=True))
    steps = schedule.steps.tolist()
    found_loss, gradients, found_state = run_from_same_state(
        folded, compiled_step(folded, steps, with_gradients=True)
    )
    # Default kernels fuse differently, so rounding differs; a wrong mask, seed or statistic differs far more.
    scale = total_norm(reference)
    assert found_loss == pytest.approx(loss, rel=1e-4)
    assert max(relative_error(g, r, scale) for g, r in zip(gradients, reference, strict=True)) < 1e-2
    for found, expected in zip(found_state, state, strict=True):
        assert np.allclose(found, expected, rtol=1e-2, atol=2e-3)


@pytest.fixture(scope="module")
def learned(folded: FoldedStep) -> Graph:
    """Return the graph with the scratch of this machine's kernels, learned as by a profile."""
    return with_workspace(
        folded.graph, learned_workspace(folded, traced(folded, list(range(folded.graph.n)), runs=2))
    )


@pytest.mark.parametrize("make", [keep_everything, recompute_forward])
def test_requested_peak_equals_the_simulation(
    folded: FoldedStep, learned: Graph, make: Callable[[Graph], Schedule]
) -> None:
    schedule = make(learned)
    function = compiled_step(folded, schedule.steps.tolist())
    batch = folded.traced.loaded.make_batch()
    with restored(folded.traced.variables):
        run_step(function, batch)
        traced = trace_run(lambda: run_step(function, batch)[0].numpy(), device="cpu").requested_peak
    predicted = simulate(learned, schedule).peak_bytes - learned.fixed_bytes
    assert traced <= predicted * 1.03 + 2**16
    assert traced >= predicted * 0.9


def test_recomputation_saves_memory(folded: FoldedStep) -> None:
    plain, again = (
        simulate(folded.graph, make(folded.graph)).peak_bytes for make in (keep_everything, recompute_forward)
    )
    assert again <= plain * 1.05


def test_second_trace_has_the_same_fingerprint() -> None:
    assert small("convnet").graph.fingerprint == small("convnet").graph.fingerprint


def test_private_api_still_does_what_emission_needs() -> None:
    @tf.function(autograph=False)
    def square(x):
        return tf.random.uniform([2]) * tf.square(x)

    concrete = square.get_concrete_function(tf.TensorSpec([2], tf.float32))
    by_type = {op.type: op for op in concrete.graph.get_operations()}
    assert private.is_stateful(by_type["RandomUniform"])
    assert not private.is_stateful(by_type["Square"])

    @tf.function(autograph=False)
    def copied(x):
        graph = tf.compat.v1.get_default_graph()
        return private.create_op(graph, by_type["Square"], [x], [], "again").outputs[0]

    assert copied(tf.constant([3.0, 4.0])).numpy().tolist() == [9.0, 16.0]
