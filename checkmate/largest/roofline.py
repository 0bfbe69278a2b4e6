"""Estimate the seconds of a step on a card that is not at hand.

An op takes the longer of two times: its operations at the rate that the card reaches, and the bytes it reads
and writes at the bandwidth that it reaches (the roofline: Williams, Waterman, Patterson, CACM 2009), and a
time to start. What share of its peaks a card reaches is assumed, not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from checkmate.catalog.cards import Card
from checkmate.errors import UsageError
from checkmate.ir import CostOrigin, CostUnit, Graph, Op
from checkmate.largest.scaling import BatchScaling

OF_OPERATIONS, OF_BANDWIDTH = 0.5, 0.75  # the share of a card's peaks that ops reach
START_S = 5e-6  # of one kernel
_HALF = frozenset({"float16", "bfloat16"})
# A step reads parameters forward and backward, and reads and writes them in the update; the optimizer's state
# only there. The batch is read once.
_MOVES = {"parameters": 4, "inputs": 1}
_MOVES_ELSE = 2


def require_operations(graph: Graph) -> None:
    if not graph.runner.metered:
        raise UsageError(
            f"the costs of {graph.name!r} are counted in seconds of the device that JAX ran on, so nothing "
            "says what they are on another card",
            hint="set KERAS_BACKEND=tensorflow and give the model itself",
        )
    if graph.cost_unit is not CostUnit.FLOP:
        raise UsageError(
            f"the costs of {graph.name!r} are not counts of operations, so nothing says what they are on "
            "another card",
            hint='give the model itself, or profile it with costs="analytic"',
        )


def op_seconds(graph: Graph, card: Card) -> NDArray[np.float64]:
    """float64[n]; views take none."""
    # A network built from its layers counts a product and its sum as one.
    factor = 2.0 if graph.origin.built_from_layers else 1.0
    return np.array([_seconds(graph, op, card, factor) for op in graph.ops], np.float64)


def state_seconds(graph: Graph, card: Card) -> float:
    """For moving parameters, optimizer state and batch, in any schedule."""
    moved = math.fsum(held * _MOVES.get(name, _MOVES_ELSE) for name, held in graph.fixed.items())
    return moved / (OF_BANDWIDTH * card.bandwidth)


def step_seconds(graph: Graph, steps: Iterable[int], card: Card) -> float:
    seconds = op_seconds(graph, card)
    return math.fsum(seconds[step] for step in steps) + state_seconds(graph, card)


def priced(scaling: BatchScaling, card: Card, batch: int) -> BatchScaling:
    """Costs become a card's estimated seconds, right at ``batch`` and nearly so around it."""
    seconds = op_seconds(scaling.at(batch), card) * scaling.batch / batch
    return replace(scaling, graph=scaling.graph.with_costs(seconds, CostUnit.SECONDS, CostOrigin.ANALYTIC))


def _seconds(graph: Graph, op: Op, card: Card, factor: float) -> float:
    if op.outputs and all(graph.values[value].alias_of is not None for value in op.outputs):
        return 0.0
    used = [graph.values[value] for value in {*op.inputs, *op.outputs}]
    moved = math.fsum(value.bytes for value in used)
    if "Depthwise" in op.type:
        peak = card.vector
    else:
        peak = card.half if any(value.dtype in _HALF for value in used) else card.matrix
    return START_S + max(factor * op.cost / (OF_OPERATIONS * peak), moved / (OF_BANDWIDTH * card.bandwidth))
