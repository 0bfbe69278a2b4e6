"""Networks as lists of layers: shapes, operation counts, parameters.

There are no tensors, no weights and no library here. Operations are counted by the rules of the Checkmate
paper's static cost model (Jain et al., MLSys 2020, section 6 and its published program):

* one per multiply-add of a convolution or dense layer;
* four per element that is normalized;
* one per element of an activation, of a sum's input and of an interpolated output;
* none where elements only move (pooling, padding, cropping, concatenation, reshape, dropout).

A transposed convolution counts one per input channel and output element, whatever its kernel, as in that
program. Biases and activations within a layer are free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.errors import GraphError

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
    """One layer for one example.

    ``inputs``: indices of the layers it reads; the network's input is left out.
    """

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
    """Layers in an order of execution; the loss reads the last one's output."""

    name: str
    input_shape: Shape
    layers: tuple[Layer, ...]

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def flops(self) -> int:
        return sum(layer.flops for layer in self.layers)


class LayerBuilder:
    """Collect layers in order.

    Every method adds one layer and returns its output. Convolutions and pooling take square kernels. ``same``
    padding is TensorFlow's: ceil(size / stride).

    Raises:
        GraphError: shapes do not fit each other, or a layer's output would be empty.
    """

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
        bias: bool = False,
        name: str = "",
    ) -> Tensor:
        """Add a convolution of each channel by itself."""
        shape = (*_strided(x, kernel, stride, padding), x.channels)
        weights = kernel * kernel
        return self._add(
            name, "DepthwiseConv2D", [x], shape, math.prod(shape) * weights, x.channels * (weights + bias)
        )

    def conv_transpose(self, x: Tensor, filters: int, kernel: int, *, stride: int, name: str = "") -> Tensor:
        """Add a transposed convolution without padding or bias.

        The output size is (size - 1) · stride + kernel.
        """
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

    def pool(
        self, x: Tensor, kernel: int, *, stride: int = 0, padding: str = "valid", name: str = ""
    ) -> Tensor:
        """Add pooling; the stride is the kernel's size unless given."""
        return self._add(
            name, "Pooling2D", [x], (*_strided(x, kernel, stride or kernel, padding), x.channels), 0
        )

    def global_pool(self, x: Tensor, *, name: str = "") -> Tensor:
        return self._add(name, "GlobalAveragePooling2D", [x], (x.channels,), 0)

    def pad(self, x: Tensor, top: int, left: int, bottom: int, right: int, *, name: str = "") -> Tensor:
        """Add zeros around the image."""
        height, width, channels = x.shape
        return self._add(
            name, "ZeroPadding2D", [x], (height + top + bottom, width + left + right, channels), 0
        )

    def crop(self, x: Tensor, height: int, width: int, *, name: str = "") -> Tensor:
        return self._add(name, "Cropping2D", [x], (x.shape[0] - height, x.shape[1] - width, x.channels), 0)

    def upsample(self, x: Tensor, factor: int = 2, *, name: str = "") -> Tensor:
        height, width, channels = x.shape
        shape = (height * factor, width * factor, channels)
        return self._add(name, "UpSampling2D", [x], shape, math.prod(shape))

    def reshape(self, x: Tensor, shape: Shape, *, name: str = "") -> Tensor:
        """Give the same elements another shape."""
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
