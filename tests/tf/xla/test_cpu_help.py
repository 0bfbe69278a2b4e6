"""Test what XLA:CPU is helped with beside ties: pins, gates, filters."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.cpu_help import help_for, small_values, stages_of
from checkmate.backends.tf.xla.op_costs import is_filter_slope, is_product
from checkmate.backends.tf.xla.tied import tied_step
from checkmate.backends.xla_policy.for_cpu import ends_first, ends_of_graph, held_results
from checkmate.backends.xla_policy.waits import WaitPolicy, ways_to_order, ways_to_tie
from checkmate.ir.graph import Device
from checkmate.ir.schedule import Schedule
from tests.graphs_strategies import random_steps
from tests.tf.xla.steps import run, solved, temp_bytes, temps_by, traced

pytestmark = pytest.mark.heavy  # each compiles


def _types(folded: FoldedStep, node: int) -> list[str]:
    return [folded.structure.ops[member].type for member in folded.nodes[node]]


def _of_a_gpu(folded: FoldedStep) -> FoldedStep:
    device = Device("a card", "gpu", 2**30)
    return dataclasses.replace(folded, graph=dataclasses.replace(folded.graph, device=device))


def _emitted(folded: FoldedStep, specs: Any, tied: WaitPolicy) -> list[str]:
    schedule = Schedule.plain(folded.graph)
    body = tf.function(lambda *given: tied_step(folded, schedule, tied=tied)(*given).loss, autograph=False)
    return [op.type for op in body.get_concrete_function(*specs).graph.get_operations()]


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


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["convolved", "transformer"])
def test_with_gradients_first_each_step_still_finds_what_it_reads(name: str, seed: int) -> None:
    folded = traced(name)[0].folded
    graph = folded.graph
    steps = random_steps(Random(seed), graph)
    order = ends_first(stages_of(folded), ends_of_graph(graph), steps)
    assert sorted(order) == list(range(len(steps)))
    made: set[int] = set()
    for position in order:
        assert made.issuperset(graph.ops[steps[position]].inputs)
        made.update(graph.ops[steps[position]].outputs)


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_a_filters_gradient_comes_before_the_product_of_its_slope(share: float) -> None:
    folded = traced("convolved")[0].folded
    graph = folded.graph
    steps = list(range(graph.n)) if share == 1.0 else solved("convolved", share).steps.tolist()
    order = [steps[position] for position in ends_first(stages_of(folded), ends_of_graph(graph), steps)]
    found = 0
    for node in range(graph.n):
        if "Conv2DBackpropFilter" not in _types(folded, node):
            continue
        for other in range(graph.n):
            slope = set(graph.ops[node].inputs) & set(graph.ops[other].inputs)
            if slope and "Conv2DBackpropInput" in _types(folded, other):
                place, product = order.index(node), order.index(other)
                made = [
                    at for at in range(place) if {*graph.ops[order[at]].outputs} & {*graph.ops[node].inputs}
                ]
                if place > product:  # what was convolved is computed again, and only then
                    assert share < 1.0 and max(made) > product
                else:
                    found += 1
    assert found == 6 if share == 1.0 else found >= 4


def _held_by_hand(folded: FoldedStep, steps: list[int]) -> set[tuple[int, int]]:
    """Return what ``held_results`` should, by following values back."""
    ops, values = folded.graph.ops, folded.graph.values

    def made_at(value: int, before: int) -> int:
        return max(place for place in range(before) if value in ops[steps[place]].outputs)

    def read_last(value: int, place: int) -> int:
        again = [later for later in range(place + 1, len(steps)) if value in ops[steps[later]].outputs]
        reads = [
            at
            for at in range(place + 1, min(again, default=len(steps) - 1) + 1)
            if value in ops[steps[at]].inputs
        ]
        return max(reads, default=place)

    def cheap(node: int) -> bool:
        dear = {"Rsqrt", "Sqrt", "RealDiv", "Exp", "Mean", "Sum", "Tile", "BiasAdd", "Softmax"}
        types = set(_types(folded, node))
        return not types & dear and not any(
            is_product(folded.structure.ops[each]) or folded.structure.ops[each].type.startswith("Max")
            for each in folded.nodes[node]
        )

    def leaves(value: int, place: int) -> set[tuple[int, int]]:
        if not cheap(steps[place]):
            return {(value, place)}
        return {leaf for read in ops[steps[place]].inputs for leaf in leaves(read, made_at(read, place))}

    found = set()
    for place, node in enumerate(steps):
        for value in ops[node].outputs if cheap(node) else ():
            end, bytes_ = read_last(value, place), values[value].bytes
            gone = sum(values[leaf].bytes for leaf, at in leaves(value, place) if read_last(leaf, at) < end)
            multiplied = any(
                is_product(folded.structure.ops[each])
                for at in range(place + 1, end)
                for each in folded.nodes[steps[at]]
            )
            if bytes_ >= 2**14 and gone > bytes_ and multiplied:
                found.add((value, place))
    return found


def test_what_stands_for_more_than_it_takes_is_held() -> None:
    folded = traced("convolved")[0].folded
    steps = solved("convolved", 0.5).steps.tolist()
    found = held_results(stages_of(folded), [value.bytes for value in folded.graph.values], steps)
    assert found == _held_by_hand(folded, steps)
    assert any("AddV2" in _types(folded, steps[place]) for _, place in found)


@pytest.mark.parametrize("tied", [WaitPolicy.RUNS, WaitPolicy.RECOMPUTED, WaitPolicy.ALL])
def test_a_gpus_steps_are_emitted_without_help(tied: WaitPolicy) -> None:
    step, _ = traced("transformer")
    elsewhere = _of_a_gpu(step.folded)
    assert "StatelessIf" in _emitted(step.folded, step.layout.specs, tied)
    assert "StatelessIf" not in _emitted(elsewhere, step.layout.specs, tied)
    assert help_for(elsewhere, [0, 1, 2], tied) == help_for(step.folded, [0, 1, 2], WaitPolicy.NONE)
    assert not {WaitPolicy.GATED, WaitPolicy.HELD} & {
        *ways_to_tie(elsewhere.graph),
        *ways_to_order(elsewhere.graph),
    }


@pytest.mark.parametrize("compiled", [True, False])
def test_pooling_is_compared_only_where_it_is_compiled(compiled: bool) -> None:
    step, _ = traced("pooled")
    emitted = tied_step(step.folded, Schedule.plain(step.graph), compiled=compiled)
    body = tf.function(lambda *given: emitted(*given).loss, autograph=False)
    made = body.get_concrete_function(*step.layout.specs).graph.get_operations()
    assert [op.type for op in made].count("MaxPoolGrad") == (0 if compiled else 2)


@pytest.mark.parametrize("tied", [WaitPolicy.RUNS, WaitPolicy.HELD])
def test_each_filters_gradient_waits_for_its_slope(tied: WaitPolicy) -> None:
    """See, too, that the slope waits for the value, where results are held."""
    step, _ = traced("convolved")
    emitted = tied_step(step.folded, Schedule.plain(step.graph), tied=tied)
    body = tf.function(lambda *given: emitted(*given).loss, autograph=False)
    made = body.get_concrete_function(*step.layout.specs).graph.get_operations()
    filters = [op for op in made if is_filter_slope(op)]
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


@pytest.mark.heavy
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


@pytest.mark.heavy
def test_held_results_take_less_where_most_is_computed_again() -> None:
    gated, held = temps_by("convolved", solved("convolved", 0.44), WaitPolicy.GATED, WaitPolicy.HELD)
    assert held < 0.95 * gated
