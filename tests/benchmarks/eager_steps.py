"""Steps for the benchmark of hard budgets, as eager frameworks run them.

A convolution, a normalization and an activation are ops of their own. Normalization and pooling have several
outputs, activations and sums are written over their input, and slices of a gradient are views. Costs are
seconds of a made-up card: the longer of arithmetic and traffic, and a time to start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from checkmate.catalog.cards import Card
from checkmate.graphs.layers import LayerBuilder, Tensor, training_graph
from checkmate.graphs.paper import find_network
from checkmate.ir import CostUnit, Graph, GraphBuilder, Phase
from checkmate.largest.roofline import op_seconds

_FLOPS, _BYTES, _START = 8e12, 5e11, 5e-6  # per second, per second, seconds
_FLOAT = 4


@dataclass(frozen=True)
class _Image:
    value: int
    side: int
    channels: int


class EagerStep:
    """Forward ops as they are made; ``with_backward`` adds the others."""

    def __init__(self, name: str, batch: int) -> None:
        self.builder, self._batch = GraphBuilder(name), batch
        self._back: list[Callable[[], None]] = []
        self._gradient: dict[int, int] = {}
        self._updates: list[tuple[str, int]] = []

    def image(self, name: str, side: int, channels: int, *, of: int | None = None) -> _Image:
        """Add a value; ``of``: the value that it is a view of."""
        size = self._batch * side * side * channels * _FLOAT
        return _Image(self.builder.value(name, size, alias_of=of), side, channels)

    def conv(
        self, name: str, x: _Image | None, side: int, channels: int, filters: int, kernel: int
    ) -> _Image:
        """Add a convolution; without ``x`` it reads the batch."""
        out = self.image(name, side, filters)
        flops = 2.0 * self._batch * side * side * channels * filters * kernel * kernel
        reads = [] if x is None else [x.value]
        self._op(name, reads, [out.value], flops=flops)
        weights = self.builder.value(f"{name}/weights'", channels * filters * kernel * kernel * _FLOAT)

        def back() -> None:
            made = [weights]
            if x is not None:
                made.append(self.builder.value(f"{name}/input'", self.builder.values[x.value].bytes))
            self._op(f"{name}/back", [self._gradient[out.value], *reads], made, flops=2 * flops, back=True)
            if x is not None:
                self._arrives(name, x.value, made[1])
            self._updates.append((name, weights))

        self._back.append(back)
        return out

    def normalized(self, name: str, x: _Image) -> _Image:
        """Add a normalization with its statistics, and an activation over it."""
        out, done = self.image(f"{name}/norm", x.side, x.channels), self.image(name, x.side, x.channels)
        saved = [self.builder.value(f"{name}/saved{k}", x.channels * _FLOAT) for k in range(2)]
        self._op(f"{name}/norm", [x.value], [out.value, *saved])
        self._op(name, [out.value], [done.value], over=[(done.value, out.value)])
        size = self.builder.values[x.value].bytes

        def back() -> None:
            given, passed = self._gradient[done.value], self.builder.value(f"{name}'", size)
            self._op(f"{name}/back", [given, done.value], [passed], over=[(passed, given)], back=True)
            made = self.builder.value(f"{name}/norm'", size)
            scales = [self.builder.value(f"{name}/scale{k}'", x.channels * _FLOAT) for k in range(2)]
            self._op(f"{name}/norm/back", [passed, x.value, *saved], [made, *scales], back=True)
            self._arrives(name, x.value, made)
            self._updates.extend((f"{name}/{k}", scale) for k, scale in enumerate(scales))

        self._back.append(back)
        return done

    def pooled(self, name: str, x: _Image) -> _Image:
        out, where = (
            self.image(name, x.side // 2, x.channels),
            self.image(f"{name}/at", x.side // 2, x.channels),
        )
        self._op(name, [x.value], [out.value, where.value])

        def back() -> None:
            made = self.builder.value(f"{name}'", self.builder.values[x.value].bytes)
            self._op(f"{name}/back", [self._gradient[out.value], where.value], [made], back=True)
            self._arrives(name, x.value, made)

        self._back.append(back)
        return out

    def grown(self, name: str, x: _Image) -> _Image:
        out = self.image(name, 2 * x.side, x.channels)
        self._op(name, [x.value], [out.value])

        def back() -> None:
            made = self.builder.value(f"{name}'", self.builder.values[x.value].bytes)
            self._op(f"{name}/back", [self._gradient[out.value]], [made], back=True)
            self._arrives(name, x.value, made)

        self._back.append(back)
        return out

    def joined(self, name: str, *parts: _Image) -> _Image:
        """Add a concatenation; its gradient's parts are views."""
        out = self.image(name, parts[0].side, sum(part.channels for part in parts))
        self._op(name, [part.value for part in parts], [out.value])

        def back() -> None:
            given = self._gradient[out.value]
            for k, part in enumerate(parts):
                piece = self.image(f"{name}/part{k}", part.side, part.channels, of=given)
                self._op(f"{name}/part{k}", [given], [piece.value], back=True)
                self._arrives(f"{name}/{k}", part.value, piece.value)

        self._back.append(back)
        return out

    def with_backward(self, last: _Image) -> Graph:
        """Return the step, with the loss of ``last``, gradients and updates."""
        loss = self.builder.value("loss", _FLOAT, keep=True)
        self._op("loss", [last.value], [loss])
        self._gradient[last.value] = self.builder.value("loss'", self.builder.values[last.value].bytes)
        self._op("loss/back", [last.value], [self._gradient[last.value]], back=True)
        for back in reversed(self._back):
            back()
        for name, gradient in self._updates:
            self.builder.op(f"{name}/update", [gradient], cost=_START, phase=Phase.UPDATE, recomputable=False)
        return self.builder.build()

    def _arrives(self, name: str, value: int, made: int) -> None:
        """Note a gradient of ``value``, or add it to what arrived before."""
        if value in self._gradient:
            total = self.builder.value(f"{name}/sum'", self.builder.values[value].bytes)
            given = self._gradient[value]
            over = [(total, given)] if self.builder.values[given].alias_of is None else []
            self._op(f"{name}/sum", [given, made], [total], over=over, back=True)
            made = total
        self._gradient[value] = made

    def _op(
        self,
        name: str,
        reads: list[int],
        makes: list[int],
        *,
        flops: float = 0.0,
        over: list[tuple[int, int]] | None = None,
        back: bool = False,
    ) -> None:
        values = self.builder.values
        is_view = all(values[value].alias_of is not None for value in makes)
        moved = 0 if is_view else sum(values[value].bytes for value in [*reads, *makes])
        self.builder.op(
            name,
            reads,
            makes,
            cost=_START + max(flops / _FLOPS, moved / _BYTES),
            phase=Phase.BACKWARD if back else Phase.FORWARD,
            takes_over=tuple(over or ()),
        )


def eager_unet(batch: int = 8, side: int = 256) -> Graph:
    """Build a U-Net of four scales: some 200 ops."""
    step = EagerStep("eager U-Net", batch)
    skips: list[_Image] = []
    x: _Image | None = None
    before, width = 3, 64
    for scale in range(5):
        for k in range(2 if scale else 3):
            name = f"down{scale}.{k}"
            x = step.normalized(name, step.conv(f"{name}/conv", x, side, before, width, 3))
            before = width
        assert x is not None
        if scale < 4:
            skips.append(x)
            x = step.pooled(f"pool{scale}", x)
            side, width = side // 2, min(512, 2 * width)
    for scale in reversed(range(4)):
        assert x is not None
        skip = skips[scale]
        x = step.joined(f"join{scale}", skip, step.grown(f"grow{scale}", x))
        for k in range(2):
            name, width = f"up{scale}.{k}", skip.channels // (2 if k and scale else 1)
            x = step.normalized(name, step.conv(f"{name}/conv", x, x.side, x.channels, width, 3))
    assert x is not None
    return step.with_backward(step.conv("classes", x, x.side, x.channels, 2, 1))


def eager_densenet(batch: int = 32) -> Graph:
    """Build DenseNet121 on images of 224 by 224."""
    step, growth = EagerStep("eager DenseNet121", batch), 32
    x = step.pooled("pool", step.normalized("stem", step.conv("stem/conv", None, 112, 3, 64, 7)))
    for block, layers in enumerate((6, 12, 24, 16)):
        for layer in range(layers):
            name = f"{block}.{layer}"
            y = step.normalized(f"{name}.0", x)
            y = step.conv(f"{name}.0/conv", y, y.side, y.channels, 4 * growth, 1)
            y = step.normalized(f"{name}.1", y)
            y = step.conv(f"{name}.1/conv", y, y.side, y.channels, growth, 3)
            x = step.joined(f"{name}/join", x, y)
        x = step.normalized(f"{block}/end", x)
        if block < 3:
            x = step.conv(f"{block}/conv", x, x.side, x.channels, x.channels // 2, 1)
            x = step.pooled(f"{block}/pool", x)
    return step.with_backward(step.conv("classes", x, 1, x.channels, 1000, 1))


def resnet152(batch: int = 256) -> Graph:
    """Build ResNet152 from its layers, as the paper's networks are built."""
    net = LayerBuilder("resnet152", (224, 224, 3))
    x = _normalized(net, net.conv(net.input, 64, 7, stride=2, name="conv1"), "conv1")
    x = net.pool(net.pad(x, 1, 1, 1, 1), 3, stride=2, name="pool1")
    for stage, (filters, blocks) in enumerate(((64, 3), (128, 8), (256, 36), (512, 3)), 2):
        for block in range(blocks):
            name = f"conv{stage}_block{block}"
            stride = 2 if block == 0 and stage > 2 else 1
            y = _normalized(net, net.conv(x, filters, 1, stride=stride, name=f"{name}_1"), f"{name}_1")
            y = _normalized(net, net.conv(y, filters, 3, name=f"{name}_2"), f"{name}_2")
            y = net.batch_norm(net.conv(y, 4 * filters, 1, name=f"{name}_3"), name=f"{name}_3_bn")
            if block == 0:
                x = net.conv(x, 4 * filters, 1, stride=stride, name=f"{name}_0")
                x = net.batch_norm(x, name=f"{name}_0_bn")
            x = net.activation(net.add([x, y], name=f"{name}_add"), name=f"{name}_out")
    net.dense(net.global_pool(x, name="avg_pool"), 1000, name="predictions")
    return training_graph(net.build(), batch)


def _normalized(net: LayerBuilder, x: Tensor, name: str) -> Tensor:
    return net.activation(net.batch_norm(x, name=f"{name}_bn"), name=f"{name}_relu")


def mobilenet_on(card: Card) -> Graph:
    """Build the paper's MobileNet with a card's estimated seconds as costs."""
    graph = find_network("mobilenet").graph()
    seconds = op_seconds(graph, card).tolist()
    ops = tuple(replace(op, cost=cost) for op, cost in zip(graph.ops, seconds, strict=True))
    return replace(graph, ops=ops, cost_unit=CostUnit.SECONDS)
