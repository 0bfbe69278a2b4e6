"""Test what XLA:CPU is helped with beside ties: pins, gates, filters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.cpu_help import help_for, small_values
from checkmate.backends.tf.xla.op_costs import is_filter_slope
from checkmate.backends.xla_policy.for_cpu import ends_of_graph
from checkmate.backends.xla_policy.waits import WaitPolicy, ways_to_order, ways_to_tie
from checkmate.ir import Device, Schedule
from tests.tf.xla.steps import emitted_ops, emitted_types, run, solved, temp_bytes, temps_by, traced

pytestmark = pytest.mark.heavy  # each compiles


def _types(folded: FoldedStep, node: int) -> list[str]:
    return [folded.structure.ops[member].type for member in folded.nodes[node]]


def _of_a_gpu(folded: FoldedStep) -> FoldedStep:
    device = Device("a card", "gpu", 2**30)
    return dataclasses.replace(folded, graph=dataclasses.replace(folded.graph, device=device))


def test_masks_are_small_results_and_random_numbers_are_not() -> None:
    folded = traced("transformer")[0].folded
    found = {folded.structure.ops[folded.values[value][0]].type for value in small_values(folded)}
    assert found == {"GreaterEqual"}
    assert len(small_values(folded)) == 2 + 2  # of attention, and behind each block
    assert not small_values(traced("dense")[0].folded)


def test_gradients_by_weights_are_ends_and_those_by_values_are_not() -> None:
    folded = traced("convolved")[0].folded
    last = ends_of_graph(folded.graph)
    for node in range(folded.graph.n):
        types = _types(folded, node)
        if "Conv2DBackpropFilter" in types:
            assert node in last
        if "Conv2DBackpropInput" in types or "Conv2D" in types:
            assert node not in last


@pytest.mark.parametrize("tied", [WaitPolicy.RUNS, WaitPolicy.RECOMPUTED, WaitPolicy.ALL])
def test_a_gpus_steps_are_emitted_without_help(tied: WaitPolicy) -> None:
    step, _ = traced("transformer")
    elsewhere = _of_a_gpu(step.folded)
    plain = Schedule.plain(step.graph)
    here, there = (emitted_types(each, plain, tied=tied) for each in (step, step.with_folded(elsewhere)))
    assert "StatelessIf" in here and "StatelessIf" not in there
    assert help_for(elsewhere, [0, 1, 2], tied) == help_for(step.folded, [0, 1, 2], WaitPolicy.NONE)
    assert not {WaitPolicy.GATED, WaitPolicy.HELD} & {
        *ways_to_tie(elsewhere.graph),
        *ways_to_order(elsewhere.graph),
    }


@pytest.mark.parametrize("compiled", [True, False])
def test_pooling_is_compared_only_where_it_is_compiled(compiled: bool) -> None:
    step, _ = traced("pooled")
    types = emitted_types(step, Schedule.plain(step.graph), compiled=compiled)
    assert types.count("MaxPoolGrad") == (0 if compiled else 2)


@pytest.mark.parametrize("tied", [WaitPolicy.RUNS, WaitPolicy.HELD])
def test_each_filters_gradient_waits_for_its_slope(tied: WaitPolicy) -> None:
    """See, too, that the slope waits for the value, where results are held."""
    step, _ = traced("convolved")
    emitted = emitted_ops(step, Schedule.plain(step.graph), tied=tied)
    filters = [op for op in emitted if is_filter_slope(op)]
    assert len(filters) == 7
    for op in filters:
        assert op.inputs[0].op.type == "SelectV2"
        slope, value = op.inputs[2], op.inputs[0].op.inputs[1]
        assert (slope.op.type == "SelectV2" and _waits_for(slope, value)) is (tied is WaitPolicy.HELD)
        assert _waits_for(op.inputs[0], slope.op.inputs[1] if tied is WaitPolicy.HELD else slope)


def _waits_for(selected: tf.Tensor, value: tf.Tensor) -> bool:
    """Return whether the predicate of a select is made of ``value``."""
    made = selected.op.inputs[0]
    while made.op is not value.op and made.op.inputs:
        made = made.op.inputs[0]
    return made.op is value.op


@pytest.mark.parametrize(
    ("name", "tied", "most"),
    [
        ("convolved", WaitPolicy.RUNS, 0.72),  # 0.68
        ("convolved", WaitPolicy.GATED, 0.65),  # 0.62
        ("pooled", WaitPolicy.RUNS, 0.5),
        ("transformer", WaitPolicy.RUNS, 0.97),
        ("transformer", WaitPolicy.GATED, 0.96),
    ],
)
def test_the_plain_order_takes_less_and_is_the_same_to_the_bit(
    name: str, tied: WaitPolicy, most: float
) -> None:
    step, _ = traced(name)
    plain = Schedule.plain(step.graph)
    assert temp_bytes(step, plain, tied=tied) < most * temp_bytes(step, plain, tied=WaitPolicy.NONE)
    for before, after in zip(run(name, plain, WaitPolicy.NONE), run(name, plain, tied), strict=True):
        for one, other in zip(before, after, strict=True):
            assert np.array_equal(one, other)


def test_held_results_take_less_where_most_is_computed_again() -> None:
    gated, held = temps_by("convolved", solved("convolved", 0.44), WaitPolicy.GATED, WaitPolicy.HELD)
    assert held < 0.95 * gated
