"""A module of XLA's, as text or protobuf tells it: computations of instructions, by the names of HLO."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

MOST_INSTRUCTIONS = 2_000_000
MOST_NESTED = 100  # computations inside of computations, and tuples inside of tuples
KERAS = "/keras/src/"  # in the names of Keras's files
_LARGEST = 2**50  # bytes; no memory is larger
_POINTER = 8  # bytes that a tuple's buffer has for each part
_HOST = 5  # the memory space that is not the device's
_BITS = {
    "pred": 8, "s1": 8, "u1": 8, "s2": 8, "u2": 8, "s4": 8, "u4": 8, "s8": 8, "u8": 8, "s16": 16, "u16": 16,
    "f16": 16, "bf16": 16, "s32": 32, "u32": 32, "f32": 32, "s64": 64, "u64": 64, "f64": 64, "c64": 64,
    "c128": 128, "token": 0, "opaque": 0,
}  # fmt: skip


class HloError(ValueError):
    """It is no dump of XLA's, or a damaged one; the text says what is wrong."""


class Shape(NamedTuple):
    """An array, or a tuple of ``parts``. ``bytes``: of its own buffer on the device; a tuple's holds
    pointers.
    """

    dtype: str
    dims: tuple[int, ...] = ()
    layout: tuple[int, ...] = ()
    bytes: int = 0
    parts: tuple[Shape, ...] = ()
    nodes: int = 1

    def flat(self) -> list[Shape]:
        """Return this shape, and those inside of it, in the order of ``place``."""
        return [self, *(inner for part in self.parts for inner in part.flat())]

    def place(self, index: tuple[int, ...]) -> int:
        """Return where the part at ``index`` is in ``flat``. Raise HloError where there is none."""
        shape, place = self, 0
        for each in index:
            if not 0 <= each < len(shape.parts):
                raise HloError(f"a tuple of {len(shape.parts)} has no part {each}")
            place += 1 + sum(part.nodes for part in shape.parts[:each])
            shape = shape.parts[each]
        return place

    @property
    def elements(self) -> int:
        return 0 if self.parts else math.prod(self.dims)


def array(dtype: str, dims: tuple[int, ...], layout: tuple[int, ...], bits: int = 0, space: int = 0) -> Shape:
    """``bits``: of an element, where a layout packs it. ``space``: the memory space."""
    if dtype not in _BITS and not dtype.startswith("f"):
        raise HloError(f"there is no type {dtype[:20]!r}")
    bits = bits or _BITS.get(dtype, 8)  # of the other floats each takes a byte
    size = -(-math.prod(dims) * bits // 8)
    if max(size, math.prod(dims)) > _LARGEST or size < 0:
        raise HloError(f"an array of {dtype} is larger than any memory")
    return Shape(dtype, dims, layout, 0 if space == _HOST else size)


def tuple_of(parts: tuple[Shape, ...]) -> Shape:
    nodes = 1 + sum(part.nodes for part in parts)
    return Shape("tuple", bytes=_POINTER * len(parts), parts=parts, nodes=nodes)


class Instruction(NamedTuple):
    """``operands``: places in the computation, before this one's. ``called``: names of computations.

    ``number``: which parameter, which part of a tuple, or what a whole constant is. ``contracted``: the
    dimensions of a ``dot``'s left side that it sums over, or the one of a convolution's kernel that it does
    not. ``kind``: of a fusion.
    ``aliases``: (index in the result, operand, index in the operand) of buffers that it writes in place.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...] = ()
    called: tuple[str, ...] = ()
    number: int = 0
    op_name: str = ""
    op_type: str = ""
    contracted: tuple[int, ...] = ()
    kind: str = ""
    aliases: tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...] = ()


# Ops that are, or write over, what they read.
_OF_OPERANDS = frozenset({
    "add-dependency", "bitcast", "domain", "dynamic-update-slice", "get-tuple-element", "opt-barrier",
    "optimization-barrier", "scatter", "while",
})  # fmt: skip


@dataclass(frozen=True, eq=False)
class Computation:
    """Instructions in their order; ``root``: the place of the one whose value is the result."""

    name: str
    instructions: tuple[Instruction, ...]
    root: int

    def __post_init__(self) -> None:
        for each in self.instructions:
            needed = each.opcode in _OF_OPERANDS or each.opcode.endswith("-done")
            if needed and not each.operands:
                raise HloError(f"{each.name} has no operand")

    @cached_property
    def parameters(self) -> tuple[int, ...]:
        """The places of the parameters, by their number."""
        found = {each.number: at for at, each in enumerate(self.instructions) if each.opcode == "parameter"}
        if sorted(found) != list(range(len(found))):
            raise HloError(f"{self.name} lacks a parameter")
        return tuple(found[number] for number in sorted(found))


@dataclass(frozen=True, eq=False)
class Module:
    """``scheduled``: instructions stand in the order in which they run. ``aliases``: (index in the entry's
    result, parameter, index in the parameter) of donated arguments. ``keras``: Keras's files are named in it.
    """

    name: str
    entry: Computation
    computations: Mapping[str, Computation]
    scheduled: bool
    aliases: tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...] = ()
    keras: bool = False

    def called(self, instruction: Instruction) -> list[Computation]:
        try:
            return [self.computations[name] for name in instruction.called]
        except KeyError as error:
            raise HloError(f"{instruction.name} calls {error.args[0]}, which is not there") from None
