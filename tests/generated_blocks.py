"""A training step of many equal blocks, as a transformer has them: attention and a feed-forward part, both on
a residual path.

Sizes and costs are in proportion to those of a block of width w at sequence length w/4; one unit is one
activation of the residual path. The backward pass has one op for each read of a forward op, and adds the
gradients of what is read more than once."""

from __future__ import annotations

from collections.abc import Sequence

from checkmate.ir import Graph, GraphBuilder, Phase

_UNIT = 4096  # bytes of one activation of the residual path
_SMALL = 16  # bytes of a mean or a variance


def training_blocks(count: int) -> Graph:
    """``count`` equal blocks, each of 33 forward and 55 backward ops."""
    tape = _Tape(f"blocks{count}")
    stream = tape.op("embed", [], _UNIT, 1)
    for block in range(count):
        stream = _feed_forward(tape, f"block{block}", _attention(tape, f"block{block}", stream))
    return tape.with_backward(stream)


class _Tape:
    """Forward ops as they are made, and the backward pass from them."""

    def __init__(self, name: str) -> None:
        self.builder = GraphBuilder(name)
        self.made: list[tuple[str, tuple[int, ...], int]] = []  # name, values read, value written

    def op(self, name: str, reads: Sequence[int], size: int, cost: float) -> int:
        value = self.builder.value(name, size)
        group = name.partition("/")[0]
        self.builder.op(name, reads, [value], cost=cost, type=name.rpartition("/")[2], group=group)
        self.made.append((name, tuple(reads), value))
        return value

    def with_backward(self, last: int) -> Graph:
        builder = self.builder
        loss = builder.value("loss", _SMALL)
        builder.op("loss", [last], [loss], cost=5, phase=Phase.LOSS)
        arriving = {last: builder.value("gradient of loss", builder.values[last].bytes)}
        builder.op("loss/back", [last, loss], [arriving[last]], cost=5, phase=Phase.BACKWARD)
        for op, (name, reads, value) in reversed(list(enumerate(self.made))):
            for number, read in enumerate(reads):
                made = self._gradient(f"{name}/back{number}", op, [arriving[value], *reads, value], read)
                arriving[read] = self._sum(name, number, arriving[read], made) if read in arriving else made
        return builder.build()

    def _gradient(self, name: str, op: int, reads: Sequence[int], of: int) -> int:
        forward = self.builder.ops[op]
        made = self.builder.value(name, self.builder.values[of].bytes)
        self.builder.op(
            name,
            reads,
            [made],
            cost=forward.cost,
            type=f"{forward.type}/back",
            phase=Phase.BACKWARD,
            group=forward.group,
        )
        return made

    def _sum(self, name: str, number: int, one: int, other: int) -> int:
        made = self.builder.value(f"{name}/sum{number}", self.builder.values[one].bytes)
        self.builder.op(f"{name}/sum{number}", [one, other], [made], cost=1, type="sum", phase=Phase.BACKWARD)
        return made


def _normed(tape: _Tape, name: str, stream: int) -> int:
    mean = tape.op(f"{name}/mean", [stream], _SMALL, 1)
    variance = tape.op(f"{name}/variance", [stream, mean], _SMALL, 1)
    return tape.op(f"{name}/norm", [stream, mean, variance], _UNIT, 1.5)


def _attention(tape: _Tape, block: str, stream: int) -> int:
    name = f"{block}/attention"
    read = _normed(tape, name, stream)
    heads: list[int] = []
    for head in ("query", "key", "value"):
        made = tape.op(f"{name}/{head}", [read], _UNIT, 20)
        made = tape.op(f"{name}/{head}_bias", [made], _UNIT, 1)
        heads.append(tape.op(f"{name}/{head}_heads", [made], _UNIT, 1))
    scores = tape.op(f"{name}/scores", heads[:2], 2 * _UNIT, 15)
    for step, cost in (("scale", 2), ("mask", 2), ("softmax", 4), ("dropout", 3)):
        scores = tape.op(f"{name}/{step}", [scores], 2 * _UNIT, cost)
    mixed = tape.op(f"{name}/mix", [scores, heads[2]], _UNIT, 15)
    for step, cost in (("merge", 1), ("project", 20), ("bias", 1)):
        mixed = tape.op(f"{name}/{step}", [mixed], _UNIT, cost)
    return tape.op(f"{name}/residual", [stream, mixed], _UNIT, 1)


def _feed_forward(tape: _Tape, block: str, stream: int) -> int:
    name = f"{block}/feed"
    wide = tape.op(f"{name}/up", [_normed(tape, name, stream)], 4 * _UNIT, 60)
    wide = tape.op(f"{name}/up_bias", [wide], 4 * _UNIT, 3)
    bent = tape.op(f"{name}/cube", [wide], 4 * _UNIT, 4)
    bent = tape.op(f"{name}/tanh", [bent], 4 * _UNIT, 6)
    wide = tape.op(f"{name}/gelu", [wide, bent], 4 * _UNIT, 4)
    out = tape.op(f"{name}/down", [wide], _UNIT, 60)
    out = tape.op(f"{name}/down_bias", [out], _UNIT, 1)
    return tape.op(f"{name}/residual", [stream, out], _UNIT, 1)
