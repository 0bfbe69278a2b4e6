"""A network's training step, layer by layer, as the paper builds it.

(Jain et al., MLSys 2020, and its published program.) There is one op per layer, then the loss, then one
gradient op per layer in reverse order. The gradient op of a layer reads the layer's output, the outputs of
the layers that read it, and their gradients; that of the last layer reads the loss. It costs twice the layer
and makes a value of its output's size. The gradient of the first layer is kept. Gradients of parameters are
not values: parameters and their gradients are fixed bytes. The network's input is not counted.
"""

from __future__ import annotations

from checkmate.graphs.layers import Layer, Network
from checkmate.ir.graph import CostOrigin, CostUnit, Graph, GraphBuilder, Phase

FLOAT_BYTES = 4
# A key of a graph's metadata: every cost and size is in proportion to the batch.
BUILT_FROM_LAYERS = "built_from_layers"


def training_graph(network: Network, batch_size: int) -> Graph:
    """Return the training step of ``network`` at ``batch_size``.

    It has 2·layers + 1 ops with one float32 value each; costs are in operations.

    Raises:
        GraphError: ``batch_size`` is so large that the sizes cannot be stated.
    """
    builder = GraphBuilder(network.name)
    for layer in network.layers:
        _forward(builder, layer, batch_size)
    loss = builder.value("loss", FLOAT_BYTES * batch_size, shape=(batch_size,), dtype="float32")
    builder.op("loss", [len(network.layers) - 1], [loss], type="Loss", phase=Phase.LOSS, group="loss")
    readers = _readers(network)
    for index in reversed(range(len(network.layers))):
        _backward(builder, network, index, readers[index], batch_size)
    parameters = FLOAT_BYTES * network.parameters
    return builder.build(
        fixed_bytes=2 * parameters,
        fixed={"parameters": parameters, "gradients": parameters},
        batch_size=batch_size,
        cost_unit=CostUnit.FLOP,
        cost_origin=CostOrigin.ANALYTIC,
        metadata={"model": network.name, "input_shape": list(network.input_shape), BUILT_FROM_LAYERS: True},
    )


def _readers(network: Network) -> list[list[int]]:
    readers: list[list[int]] = [[] for _ in network.layers]
    for index, layer in enumerate(network.layers):
        for read in layer.inputs:
            readers[read].append(index)
    return readers


def _output(builder: GraphBuilder, name: str, layer: Layer, batch_size: int, *, keep: bool = False) -> int:
    shape = (batch_size, *layer.shape)
    return builder.value(name, FLOAT_BYTES * batch_size * layer.size, shape=shape, dtype="float32", keep=keep)


def _forward(builder: GraphBuilder, layer: Layer, batch_size: int) -> None:
    # A layer's op, its value and the layer itself have one number: the order of ``network.layers``.
    value = _output(builder, f"{layer.name}:0", layer, batch_size)
    cost = float(layer.flops * batch_size)
    builder.op(layer.name, layer.inputs, [value], type=layer.kind, group=layer.name, cost=cost)


def _backward(
    builder: GraphBuilder, network: Network, index: int, readers: list[int], batch_size: int
) -> None:
    layer, last = network.layers[index], 2 * len(network.layers)
    # The loss stands in the middle: the op and the value of layer i's gradient have the number last - i.
    read = (
        [index, *readers, *(last - reader for reader in reversed(readers))] if readers else [index, last // 2]
    )
    value = _output(builder, f"gradient/{layer.name}:0", layer, batch_size, keep=index == 0)
    builder.op(
        f"gradient/{layer.name}",
        read,
        [value],
        type="Gradient",
        phase=Phase.BACKWARD,
        group=layer.name,
        cost=2.0 * layer.flops * batch_size,
    )
