"""Test the graph's rules and their wording, arrays and fingerprint."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from checkmate.errors import GraphError
from checkmate.ir import Graph, GraphBuilder, Op, Value
from tests.graphs_strategies import random_graph, training_chain


def two_ops(**fields: object) -> GraphBuilder:
    """Return ``first``, which writes a, and ``second``, which reads it. ``second`` writes b; ``fields``
    change ``second``."""
    builder = GraphBuilder("two")
    builder.value("a", 4)
    builder.value("b", 4)
    builder.op("first", (), [0])
    builder.ops.append(Op("second", **{"inputs": (0,), "outputs": (1,), **fields}))  # type: ignore[arg-type]
    return builder


def with_value(value: Value) -> GraphBuilder:
    """Return ``two_ops`` with another value b."""
    builder = two_ops()
    builder.values[1] = value
    return builder


RULES: list[tuple[Callable[[], GraphBuilder], str]] = [
    (GraphBuilder, "ops is empty: there is nothing to schedule"),
    (lambda: with_value(Value("b", -1)), "values[1].bytes ('b') is negative (-1)"),
    (lambda: with_value(Value("b", 1.5)), "values[1].bytes ('b') is 1.5, not a whole number"),
    (lambda: with_value(Value("b", 2**62)), "is larger than any memory"),
    (lambda: with_value(Value("b", 2**62 - 1)), "the sizes add up to"),
    (lambda: two_ops(cost=math.nan), "ops[1].cost ('second') is nan, not a finite number of at least 0"),
    (lambda: two_ops(cost=math.inf), "ops[1].cost ('second') is inf, not a finite"),
    (lambda: two_ops(cost=-1.0), "ops[1].cost ('second') is -1.0, not a finite number"),
    (lambda: two_ops(cost="1"), "ops[1].cost ('second') is '1', not a number"),
    (lambda: two_ops(workspace_bytes=-8), "ops[1].workspace_bytes ('second') is negative (-8)"),
    (lambda: two_ops(inputs=(7,)), "ops[1].inputs ('second') names value 7; there are 2"),
    (lambda: two_ops(outputs=(-1,)), "ops[1].outputs ('second') names value -1; there are 2"),
    (lambda: two_ops(outputs=(0,), inputs=()), "value 0 'a' is written by op 0 'first' and again by op 1"),
    (lambda: two_ops(inputs=(1,)), "ops[1] ('second') reads value 1 before op 1 ('second') writes it"),
    (lambda: two_ops(takes_over=((0, 1),)), "ops[1].takes_over ('second') has [0, 1], not an output and"),
    (lambda: with_value(Value("b", 4, alias_of=9)), "values[1].alias_of ('b') is 9; there are 2"),
    (lambda: with_value(Value("b", 4, alias_of=1)), "which its op 1 'second' does not read"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "sentence"), RULES)
def test_a_broken_rule_is_named(build: Callable[[], GraphBuilder], sentence: str) -> None:
    with pytest.raises(GraphError) as caught:
        build().build()
    assert sentence in str(caught.value)


def test_a_view_of_a_value_that_its_op_does_not_read() -> None:
    builder = two_ops()
    builder.values.append(Value("c", 4, alias_of=0))
    builder.ops.append(Op("third", inputs=(1,), outputs=(2,)))
    with pytest.raises(
        GraphError, match=r"values\[2\].alias_of \('c'\) is 0 'a', which its op 2 'third' does not read"
    ):
        builder.build()


def test_a_fixed_value_cannot_be_a_view_of_a_produced_one() -> None:
    builder = two_ops()
    builder.values.append(Value("c", 4, alias_of=0))
    with pytest.raises(GraphError, match="a fixed value cannot be a view of 0"):
        builder.build()


def test_negative_fixed_bytes() -> None:
    with pytest.raises(GraphError, match=r"fixed_bytes is negative \(-1\)"):
        two_ops().build(fixed_bytes=-1)


def test_fixed_values_are_not_counted_as_inputs() -> None:
    builder = GraphBuilder()
    weight, out = builder.value("weight", 100), builder.value("out", 1)
    builder.op("use", [weight, weight], [out])
    graph = builder.build(fixed_bytes=100)
    assert graph.op_inputs[0].tolist() == []
    assert graph.producer.tolist() == [-1, 0]


def test_arrays_of_a_chain() -> None:
    graph = training_chain(2)
    assert (graph.n, graph.m, graph.base_cost) == (4, 4, 4.0)
    assert graph.predecessors.lists() == [[], [0], [0, 1], [0, 2]]
    assert graph.successors.lists() == [[1, 2, 3], [2], [3], []]
    assert graph.value_readers.lists() == [[1, 2, 3], [2], [3], []]
    assert graph.keep.tolist() == [False, False, False, True]
    with pytest.raises(ValueError, match="read-only"):
        graph.cost[0] = 7.0


def test_arrays_of_random_graphs() -> None:
    random = Random(5)
    for _ in range(300):
        graph = random_graph(random)
        for value, entry in enumerate(graph.values):
            root = value
            while graph.values[root].alias_of is not None:
                root = graph.values[root].alias_of
            assert graph.owner[value] == root
            assert graph.value_bytes[value] == entry.bytes
            readers = [
                i
                for i, op in enumerate(graph.ops)
                if value in op.inputs and any(value in o.outputs for o in graph.ops)
            ]
            assert graph.value_readers[value].tolist() == readers


def changed(graph: Graph) -> dict[str, Graph]:
    """Return copies of the graph, each with one thing changed."""
    first_op, first_value = graph.ops[0], graph.values[0]
    return {
        "bytes": replace(graph, values=(replace(first_value, bytes=11), *graph.values[1:])),
        "keep": replace(graph, values=(replace(first_value, keep=True), *graph.values[1:])),
        "fixed": replace(graph, fixed_bytes=1),
        "recomputable": replace(graph, ops=(replace(first_op, recomputable=False), *graph.ops[1:])),
        "workspace": replace(graph, ops=(replace(first_op, workspace_bytes=1), *graph.ops[1:])),
        "inputs": replace(
            graph, ops=(*graph.ops[:-1], replace(graph.ops[-1], inputs=graph.ops[-1].inputs[:1]))
        ),
    }


@pytest.mark.parametrize("what", sorted(changed(training_chain(2))))
def test_the_fingerprint_covers_everything_that_memory_depends_on(what: str) -> None:
    graph = training_chain(2)
    assert changed(graph)[what].fingerprint != graph.fingerprint


def test_the_fingerprint_leaves_names_and_costs_out() -> None:
    graph = training_chain(2)
    again = replace(graph, name="other", ops=tuple(replace(op, cost=9.0, name="x") for op in graph.ops))
    assert again.fingerprint == graph.fingerprint
    assert graph.accepts_fingerprint(again.fingerprint)
    assert not graph.accepts_fingerprint("sha256:0")


def test_sizes_may_be_numpy_integers() -> None:
    builder = GraphBuilder()
    builder.op("a", (), [builder.value("v", np.int64(3))])  # type: ignore[arg-type]
    assert builder.build().value_bytes.tolist() == [3]
