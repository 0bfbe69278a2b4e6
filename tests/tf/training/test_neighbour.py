"""Test what one layout's step teaches of another's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.models.batch import flatten
from checkmate.ir import CostOrigin, CostUnit, Graph
from checkmate.training.neighbour import Learned, carried_over
from tests.graphs_strategies import training_chain


def longer(graph: Graph, times: int) -> Graph:
    """Return ``graph`` with so many times the bytes and the operations."""
    return dataclasses.replace(
        graph,
        ops=tuple(dataclasses.replace(op, cost=times * op.cost) for op in graph.ops),
        values=tuple(dataclasses.replace(value, bytes=times * value.bytes) for value in graph.values),
    )


def test_seconds_and_scratch_are_scaled() -> None:
    traced = training_chain(5)
    seconds = [0.001 * (1 + number) for number in range(traced.n)]
    known = dataclasses.replace(
        traced,
        ops=tuple(
            dataclasses.replace(
                op, cost=cost, workspace_bytes=op.workspace_bytes + (100 if cost > 0.004 else 0)
            )
            for op, cost in zip(traced.ops, seconds, strict=True)
        ),
        cost_unit=CostUnit.SECONDS,
        cost_origin=CostOrigin.MEASURED,
    )
    found = carried_over(Learned(traced, known), longer(traced, 3))
    assert found is not None
    assert found.cost.tolist() == pytest.approx([3 * cost for cost in seconds])
    assert [op.workspace_bytes for op in found.ops] == [300 if cost > 0.004 else 0 for cost in seconds]
    assert (found.cost_unit, found.cost_origin) == (CostUnit.SECONDS, CostOrigin.MEASURED)
    assert [value.bytes for value in found.values] == [3 * value.bytes for value in traced.values]


def test_another_steps_ops_teach_nothing() -> None:
    traced = training_chain(5)
    assert carried_over(Learned(traced, traced), training_chain(6)) is None
    other = dataclasses.replace(
        traced, ops=(dataclasses.replace(traced.ops[0], type="Other"), *traced.ops[1:])
    )
    assert carried_over(Learned(traced, traced), other) is None


def words(*tensors: object) -> str:
    return flatten(tensors)[0].describe()


def test_a_batch_of_ids_or_sequences_says_its_length() -> None:
    assert words(np.zeros((8, 32, 32, 3), np.float32), np.zeros(8)) == "batch of 8"
    assert words(np.zeros((8, 20), np.float32), np.zeros(8)) == "batch of 8"
    assert words(np.zeros((8, 96), np.int32), np.zeros((8, 96))) == "batch of 8, length 96"
    assert words(tf.zeros((8, 96, 40)), np.zeros(8)) == "batch of 8 × 96 × 40"
