"""Test what XLA:CPU is to keep and to compute early, on random graphs and schedules."""

from __future__ import annotations

import functools
from random import Random

import pytest

from checkmate.backends.xla_policy.for_cpu import Instance, Stage, ends_first, ends_of_graph, held_results
from checkmate.ir import Graph, GraphBuilder
from tests.generated_graphs import training_dag
from tests.graphs_strategies import random_graph, random_steps

KIB = 2**10


def random_case(seed: int) -> tuple[Graph, list[Stage[int]], list[int]]:
    dice = Random(seed)
    graph = training_dag(seed, 5) if seed % 2 else random_graph(dice, least_ops=5, most_ops=12)
    stages = []
    for op in graph.ops:
        product = dice.random() < 0.4
        cheap = not product and dice.random() < 0.8
        stages.append(Stage(op.inputs, op.outputs, product=product, cheap=cheap))
    return graph, stages, random_steps(dice, graph)


def held_by_definition(stages: list[Stage[int]], sizes: list[int], steps: list[int]) -> set[Instance]:
    """Return what ``held_results`` should, by following values back."""

    def made_at(value: int, before: int) -> int | None:
        return max((at for at in range(before) if value in stages[steps[at]].writes), default=None)

    def read_last(value: int, place: int) -> int:
        later = range(place + 1, len(steps))
        again = next((at for at in later if value in stages[steps[at]].writes), len(steps) - 1)
        return max((at for at in later if at <= again and value in stages[steps[at]].reads), default=place)

    @functools.cache
    def leaves(value: int, place: int) -> frozenset[Instance]:
        if not stages[steps[place]].cheap:
            return frozenset({(value, place)})
        read = ((each, made_at(each, place)) for each in stages[steps[place]].reads)
        return frozenset(leaf for each, at in read if at is not None for leaf in leaves(each, at))

    found = set()
    for place, step in enumerate(steps):
        for value in stages[step].writes if stages[step].cheap else ():
            end = read_last(value, place)
            gone = sum(sizes[leaf] for leaf, at in leaves(value, place) if read_last(leaf, at) < end)
            multiplied = any(stages[steps[at]].product for at in range(place + 1, end))
            if sizes[value] >= 16 * KIB and gone > sizes[value] and multiplied:
                found.add((value, place))
    return found


def test_what_stands_for_more_than_it_takes_is_held() -> None:
    held = 0
    for seed in range(150):
        graph, stages, steps = random_case(seed)
        sizes = [8 * KIB * value.bytes for value in graph.values]
        found = held_results(stages, sizes, steps)
        assert found == held_by_definition(stages, sizes, steps), seed
        held += len(found)
    assert held > 30


def test_with_gradients_first_each_step_still_finds_what_it_reads() -> None:
    moved = 0
    for seed in range(150):
        graph, stages, steps = random_case(seed)
        ends = frozenset(Random(seed).sample(range(graph.n), graph.n // 2))
        order = ends_first(stages, ends, steps)
        assert sorted(order) == list(range(len(steps)))
        made = {value for value in range(len(graph.values)) if graph.producer[value] < 0}
        for position in order:
            assert made.issuperset(graph.ops[steps[position]].inputs), seed
            made.update(graph.ops[steps[position]].outputs)
        moved += order != sorted(order)
    assert moved > 10


@pytest.mark.parametrize("again", [False, True])
def test_a_weights_gradient_comes_before_the_product_of_its_slope(again: bool) -> None:
    """``again``: what it reads is computed again after that product, and only for it."""
    builder = GraphBuilder("products")
    values = [builder.value(f"a{layer}", 1) for layer in range(5)]
    for layer, value in enumerate(values):
        builder.op(f"forward{layer}", values[layer - 1 : layer], [value])
    slope = builder.value("slope", 1)
    builder.op("loss", values[-1:], [slope])
    steps = [*range(6)]
    for layer in range(4, 0, -1):
        before, slope = slope, builder.value(f"slope{layer}", 1, keep=layer == 1)
        product = builder.op(f"back{layer}", [before], [slope])
        gradient = builder.op(f"gradient{layer}", [before, values[layer - 1]], [])
        steps += [product, *([layer - 1] if again and layer > 1 else []), gradient]
    graph = builder.build()
    stages = [Stage(op.inputs, op.outputs, product=op.name[0] in "gb") for op in graph.ops]
    order = [graph.ops[steps[at]].name for at in ends_first(stages, ends_of_graph(graph), steps)]
    for layer in range(1, 5):
        assert order.index(f"gradient{layer}") < order.index(f"back{layer}")
