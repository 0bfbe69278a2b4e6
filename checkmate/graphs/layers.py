"""Networks as lists of layers (shapes, operation counts, parameters), and their training steps.

Operations are counted by the rules of the Checkmate paper's static cost model (Jain et al., MLSys 2020,
section 6 and its published program): one per multiply-add of a convolution or dense layer; four per element
that is normalized; one per element of an activation, of a sum's input and of an interpolated output; none
where elements only move. A transposed convolution counts one per input channel and output element, whatever
its kernel. Biases and activations within a layer are free.

A training step is built as the paper builds it: one op per layer, then the loss, then one gradient op per
layer in reverse order. The gradient op of a layer reads the layer's output, the outputs of the layers that
read it, and their gradients; that of the last layer reads the loss. It costs twice the layer and makes a
value of its output's size. The gradient of the first layer is kept. Gradients of parameters are not values:
parameters and their gradients are fixed bytes. The network's input is not counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.errors import GraphError
from checkmate.ir import CostOrigin, CostUnit, Graph, GraphBuilder, Phase
from checkmate.ir.arrays import Rows

Shape = tuple[int, ...]  # of one example: (height, width, channels), or (features,)


@dataclass(frozen=True)
class Tensor:
    """A layer's output. ``layer``: the layer's index; -1 for the network's input."""

    layer: int
    shape: Shape

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def channels(self) -> int:
        return self.shape[-1]


@dataclass(frozen=True)
class Layer:
    """One layer for one example. ``inputs``: layers that it reads, without the network's input."""

    name: str
    kind: str
    inputs: tuple[int, ...]
    shape: Shape
    flops: int
    parameters: int = 0

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Network:
    name: str
    input_shape: Shape
    layers: tuple[Layer, ...]

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)


class LayerBuilder:
    """Collect layers in order: every method adds one and returns its output. Convolutions and pooling take
    square kernels. ``same`` padding is TensorFlow's: ceil(size / stride)."""

    def __init__(self, name: str, input_shape: Shape) -> None:
        self._name, self._layers = name, list[Layer]()
        self.input = Tensor(-1, input_shape)

    def build(self) -> Network:
        return Network(self._name, self.input.shape, tuple(self._layers))

    def conv(
        self,
        x: Tensor,
        filters: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: str = "same",
        bias: bool = True,
        name: str = "",
    ) -> Tensor:
        shape = (*_strided(x, kernel, stride, padding), filters)
        weights = kernel * kernel * x.channels
        return self._add(name, "Conv2D", [x], shape, math.prod(shape) * weights, filters * (weights + bias))

    def depthwise(
        self,
        x: Tensor,
        kernel: int,
        *,
        stride: int = 1,
        padding: str = "same",
        name: str = "",
    ) -> Tensor:
        """Add a convolution of each channel by itself, without bias."""
        shape = (*_strided(x, kernel, stride, padding), x.channels)
        weights = kernel * kernel
        return self._add(
            name, "DepthwiseConv2D", [x], shape, math.prod(shape) * weights, x.channels * weights
        )

    def conv_transpose(self, x: Tensor, filters: int, kernel: int, *, stride: int, name: str = "") -> Tensor:
        """Add a transposed convolution without padding or bias: (size - 1) · stride + kernel."""
        height, width, channels = x.shape
        shape = (_transposed(height, kernel, stride), _transposed(width, kernel, stride), filters)
        parameters = kernel * kernel * channels * filters
        return self._add(name, "Conv2DTranspose", [x], shape, channels * math.prod(shape), parameters)

    def dense(self, x: Tensor, units: int, *, name: str = "") -> Tensor:
        return self._add(name, "Dense", [x], (units,), x.channels * units, units * (x.channels + 1))

    def batch_norm(self, x: Tensor, *, name: str = "") -> Tensor:
        """Add batch normalization: scale, shift and two statistics per channel."""
        return self._add(name, "BatchNormalization", [x], x.shape, 4 * x.size, 4 * x.channels)

    def activation(self, x: Tensor, *, name: str = "") -> Tensor:
        return self._add(name, "Activation", [x], x.shape, x.size)

    def dropout(self, x: Tensor, *, name: str = "") -> Tensor:
        return self._add(name, "Dropout", [x], x.shape, 0)

    def pool(self, x: Tensor, kernel: int, *, stride: int = 0, name: str = "") -> Tensor:
        """Add pooling without padding; the stride is the kernel's size unless given."""
        shape = (*_strided(x, kernel, stride or kernel, "valid"), x.channels)
        return self._add(name, "Pooling2D", [x], shape, 0)

    def global_pool(self, x: Tensor, *, name: str = "") -> Tensor:
        return self._add(name, "GlobalAveragePooling2D", [x], (x.channels,), 0)

    def pad(self, x: Tensor, top: int, left: int, bottom: int, right: int, *, name: str = "") -> Tensor:
        height, width, channels = x.shape
        return self._add(
            name, "ZeroPadding2D", [x], (height + top + bottom, width + left + right, channels), 0
        )

    def crop(self, x: Tensor, height: int, width: int, *, name: str = "") -> Tensor:
        return self._add(name, "Cropping2D", [x], (x.shape[0] - height, x.shape[1] - width, x.channels), 0)

    def upsample(self, x: Tensor, *, name: str = "") -> Tensor:
        height, width, channels = x.shape
        shape = (2 * height, 2 * width, channels)
        return self._add(name, "UpSampling2D", [x], shape, math.prod(shape))

    def reshape(self, x: Tensor, shape: Shape, *, name: str = "") -> Tensor:
        if math.prod(shape) != x.size:
            raise GraphError(f"{self._name}: {x.shape} cannot become {shape}: the number of elements differs")
        return self._add(name, "Reshape", [x], shape, 0)

    def add(self, xs: Sequence[Tensor], *, name: str = "") -> Tensor:
        if len({x.shape for x in xs}) != 1:
            raise GraphError(f"{self._name}: shapes {[x.shape for x in xs]} cannot be added")
        return self._add(name, "Add", xs, xs[0].shape, len(xs) * xs[0].size)

    def concat(self, xs: Sequence[Tensor], *, name: str = "") -> Tensor:
        if len({x.shape[:-1] for x in xs}) != 1:
            raise GraphError(f"{self._name}: shapes {[x.shape for x in xs]} cannot be concatenated")
        return self._add(name, "Concatenate", xs, (*xs[0].shape[:-1], sum(x.channels for x in xs)), 0)

    def _add(
        self, name: str, kind: str, xs: Sequence[Tensor], shape: Shape, flops: int, parameters: int = 0
    ) -> Tensor:
        index = len(self._layers)
        name = name or f"{kind.lower()}_{index}"
        if min(shape) < 1:
            raise GraphError(f"{self._name}: layer {name!r} would have shape {shape}")
        inputs = tuple(dict.fromkeys(x.layer for x in xs if x.layer >= 0))
        self._layers.append(Layer(name, kind, inputs, shape, flops, parameters))
        return Tensor(index, shape)


def _strided(x: Tensor, kernel: int, stride: int, padding: str) -> tuple[int, int]:
    height, width, _ = x.shape
    if padding == "same":
        return -(-height // stride), -(-width // stride)
    return (height - kernel) // stride + 1, (width - kernel) // stride + 1


def _transposed(size: int, kernel: int, stride: int) -> int:
    return size * stride + max(0, kernel - stride)


FLOAT_BYTES = 4


def training_graph(network: Network, batch_size: int) -> Graph:
    """Return the training step of ``network``: 2·layers + 1 ops with one float32 value each; costs are in
    operations."""
    builder = GraphBuilder(network.name)
    for layer in network.layers:
        # A layer's op, its value and the layer itself have one number: the order of ``network.layers``.
        value = _output(builder, f"{layer.name}:0", layer, batch_size)
        cost = float(layer.flops * batch_size)
        builder.op(layer.name, layer.inputs, [value], type=layer.kind, group=layer.name, cost=cost)
    loss = builder.value("loss", FLOAT_BYTES * batch_size, shape=(batch_size,), dtype="float32")
    builder.op("loss", [len(network.layers) - 1], [loss], type="Loss", phase=Phase.LOSS, group="loss")
    readers = Rows.of(layer.inputs for layer in network.layers).inverse(len(network.layers)).lists()
    for index in reversed(range(len(network.layers))):
        _backward(builder, network, index, readers[index], batch_size)
    parameters = FLOAT_BYTES * network.parameters
    return builder.build(
        fixed_bytes=2 * parameters,
        fixed={"parameters": parameters, "gradients": parameters},
        batch_size=batch_size,
        cost_unit=CostUnit.FLOP,
        cost_origin=CostOrigin.ANALYTIC,
        metadata={"model": network.name, "input_shape": list(network.input_shape), "built_from_layers": True},
    )


def _output(builder: GraphBuilder, name: str, layer: Layer, batch_size: int, *, keep: bool = False) -> int:
    shape = (batch_size, *layer.shape)
    return builder.value(name, FLOAT_BYTES * batch_size * layer.size, shape=shape, dtype="float32", keep=keep)


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
