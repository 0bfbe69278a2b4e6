"""Test what ops are estimated to cost where XLA compiles them."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers

from checkmate.backends.tf.live.trace import live_step
from checkmate.backends.tf.models.batch import flatten
from checkmate.backends.tf.xla.op_costs import costs_for_xla
from checkmate.ir.graph import CostOrigin


def test_bytes_and_kinds_of_operations_count() -> None:
    inputs = keras.Input((128,))
    x = layers.Activation("gelu")(layers.Dense(128)(inputs))
    model = keras.Model(inputs, layers.ReLU()(layers.Dense(128)(x)))
    model.compile("sgd", "mse")
    layout, _ = flatten((np.zeros((512, 128), np.float32), np.zeros((512, 128), np.float32)))
    step = live_step(model, layout)
    graph, counted = costs_for_xla(step.folded), step.graph
    assert graph.fingerprint == counted.fingerprint and graph.cost_origin is CostOrigin.ANALYTIC

    def cost(name: str, of: str) -> float:
        found = [op.cost for op in (graph if of == "xla" else counted).ops if name in op.name]
        assert found, [op.name for op in graph.ops]
        return found[0]

    # By counts an error function is one operation for an element, and a product of 128 is 256 of them. Under
    # XLA it is sixty, and each of them takes as long as seven of a product.
    assert cost("Erfc", "counted") * 200 < cost("dense", "counted")
    assert cost("Erfc", "xla") > cost("dense", "xla")
    # What only moves bytes is no longer for nothing.
    moved = [sum(graph.values[value].bytes for value in op.outputs) for op in graph.ops]
    assert all(op.cost >= 2 * each / 2**30 for op, each in zip(graph.ops, moved, strict=True))
