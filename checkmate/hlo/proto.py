"""Read a module from its protobuf form: an ``HloProto`` (``*.hlo.pb``) or an ``HloModuleProto``.

``hlo.proto`` and ``xla_data.proto`` in XLA's repository say what the numbers of the fields mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from checkmate.hlo.assignment import Allocation
from checkmate.hlo.module import (
    KERAS,
    MOST_INSTRUCTIONS,
    MOST_NESTED,
    Computation,
    HloError,
    Instruction,
    Module,
    Shape,
    array,
    tuple_of,
)
from checkmate.wire import Buffer, fields, numbers_at, text_at

_PROTO_MODULE, _PROTO_ASSIGNMENT = 1, 3
_MODULE_NAME, _MODULE_ENTRY, _MODULE_COMPUTATION, _MODULE_SCHEDULE, _MODULE_ALIAS, _MODULE_ENTRY_ID = (
    1, 2, 3, 7, 8, 6,
)  # fmt: skip
_KEY, _VALUE = 1, 2  # of a map's entry
_COMPUTATION_NAME, _COMPUTATION_INSTRUCTION, _COMPUTATION_ID, _COMPUTATION_ROOT = 1, 2, 5, 6
_NAME, _OPCODE, _SHAPE, _METADATA, _PARAMETER, _KIND, _PART, _CONVOLUTION, _DOT, _ID, _OPERANDS, _CALLED = (
    1, 2, 3, 7, 9, 11, 13, 16, 30, 35, 36, 38,
)  # fmt: skip
_ALIASES = 74
_TEXTS = {_NAME: "name", _OPCODE: "opcode", _KIND: "kind"}
_OP_TYPE, _OP_NAME = 1, 2
_LEFT_CONTRACTED, _KERNEL_OUTPUT = 1, 4
_SHAPE_TYPE, _SHAPE_DIMENSIONS, _SHAPE_PARTS, _SHAPE_LAYOUT = 2, 3, 4, 5
_LAYOUT_ORDER, _LAYOUT_BITS, _LAYOUT_SPACE = 1, 7, 8
_ALLOCATIONS = 3
_SIZE, _THREAD_LOCAL, _IS_PARAMETER, _LIVE_OUT, _CONSTANT = 2, 3, 5, 7, 12

_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16",
    11: "f32", 12: "f64", 14: "opaque", 15: "c64", 16: "bf16", 17: "token", 18: "c128", 19: "f8e5m2",
    20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 26: "s2",
    27: "u2", 28: "f8e4m3", 29: "f8e3m4", 30: "s1", 31: "u1", 32: "f4e2m1fn", 33: "f8e8m0fnu", 34: "opaque",
}  # fmt: skip
_TUPLE = 13
_LOCAL = 2**32 - 1  # newer releases put the computation's id into the upper bits of an instruction's


# Field 1 of an HloProto, if that is around it, then the names of the module and of its entry: fields 1 and 2.
_BEGIN = re.compile(rb"(?:\n[\x80-\xff]{0,4}[\x00-\x7f])?\n(?:([\x01-\x7f])|([\x80-\xff])([\x01-\x1f]))")


def begins_as_proto(start: bytes) -> bool:
    """Whether a file that starts so may be a module's protobuf form; a profile is none."""
    found = _BEGIN.match(start)
    if found is None:
        return False
    size = found[1][0] if found[1] else (found[2][0] & 0x7F) + 128 * found[3][0]
    return start[found.end() + size : found.end() + size + 1] == b"\x12"


def read_proto(
    data: Buffer, heard: Callable[[int], None] = lambda _: None
) -> tuple[Module, tuple[Allocation, ...]]:
    """Return a module, and XLA's buffer assignment if that is there.

    Raises:
        HloError, WireError: it is no module.
    """
    if next(islice(fields(data, 0, len(data)), 1, 2), (0,))[0] == _MODULE_ENTRY:
        return _Reader(data, heard).module(0, len(data)), ()
    module, assignment = None, None
    reader = _Reader(data, heard)
    for number, _, start, end in fields(data, 0, len(data)):
        if number == _PROTO_MODULE:
            module = reader.module(start, end)
        elif number == _PROTO_ASSIGNMENT:
            assignment = start, end
    if module is None:
        raise HloError("there is no module in it")
    return module, reader.assignment(*assignment) if assignment else ()


@dataclass(eq=False)
class _Raw:
    name: str = ""
    id: int = 0
    root: int = 0
    instructions: dict[int, tuple[dict[str, Any], list[int], list[int]]] = field(default_factory=dict)


class _Reader:
    def __init__(self, data: Buffer, heard: Callable[[int], None]) -> None:
        self._data, self._heard = data, heard
        self._shapes: dict[bytes, Shape] = {}
        self._count = 0

    def module(self, start: int, end: int) -> Module:
        name, entry, entry_id, aliases = "", "", 0, []
        raw: dict[int, _Raw] = {}
        schedule: dict[int, list[int]] = {}
        for number, value, first, last in fields(self._data, start, end):
            if number == _MODULE_NAME:
                name = text_at(self._data, first, last)
            elif number == _MODULE_ENTRY:
                entry = text_at(self._data, first, last)
            elif number == _MODULE_ENTRY_ID:
                entry_id = value
            elif number == _MODULE_COMPUTATION:
                one = self._raw(first, last)
                raw[one.id] = one
                self._heard(last)
            elif number == _MODULE_SCHEDULE:
                schedule.update(self._schedule(first, last))
            elif number == _MODULE_ALIAS:
                aliases += [
                    self._alias(inner, to) for at, _, inner, to in fields(self._data, first, last) if at == 1
                ]
        found = {one.name: self._computation(one, raw, schedule.get(one.id)) for one in raw.values()}
        keras = self._data.find(KERAS.encode(), start, end) >= 0
        chosen = raw[entry_id].name if entry_id in raw else entry
        if chosen not in found:
            raise HloError("there is no entry computation")
        return Module(name, found[chosen], found, bool(schedule), tuple(aliases), keras)

    def _raw(self, start: int, end: int) -> _Raw:
        found = _Raw()
        for number, value, first, last in fields(self._data, start, end):
            if number == _COMPUTATION_NAME:
                found.name = text_at(self._data, first, last)
            elif number == _COMPUTATION_ID:
                found.id = value
            elif number == _COMPUTATION_ROOT:
                found.root = value & _LOCAL
            elif number == _COMPUTATION_INSTRUCTION:
                self._count += 1
                if self._count > MOST_INSTRUCTIONS:
                    raise HloError(f"it has more than {MOST_INSTRUCTIONS:,} instructions")
                at, told, operands, called = self._instruction(first, last)
                found.instructions[at & _LOCAL] = told, operands, called
        return found

    def _instruction(self, start: int, end: int) -> tuple[int, dict[str, Any], list[int], list[int]]:
        told: dict[str, Any] = {"name": "", "opcode": ""}
        at, operands, called, aliases = 0, list[int](), list[int](), []
        for each in fields(self._data, start, end):
            number, value, first, last = each
            if number in (_NAME, _OPCODE, _KIND):
                told[_TEXTS[number]] = text_at(self._data, first, last)
            elif number == _SHAPE:
                told["shape"] = self._shape(first, last)
            elif number == _METADATA:
                told.update(self._metadata(first, last))
            elif number in (_PARAMETER, _PART):
                told["number"] = value or told.get("number", 0)
            elif number == _CONVOLUTION:
                told["contracted"] = self._numbers(first, last, _KERNEL_OUTPUT) or (0,)
            elif number == _DOT:
                told["contracted"] = self._numbers(first, last, _LEFT_CONTRACTED)
            elif number == _ID:
                at = value
            elif number in (_OPERANDS, _CALLED):
                (operands if number == _OPERANDS else called).extend(numbers_at(self._data, each))
            elif number == _ALIASES:
                aliases.append(self._alias(first, last))
        if "shape" not in told:
            raise HloError(f"{told['name']} has no shape")
        if aliases:
            told["aliases"] = tuple(aliases)
        return at, told, operands, called

    def _numbers(self, start: int, end: int, wanted: int) -> tuple[int, ...]:
        return tuple(
            value
            for each in fields(self._data, start, end)
            if each[0] == wanted
            for value in numbers_at(self._data, each)
        )

    def _metadata(self, start: int, end: int) -> Iterator[tuple[str, str]]:
        for number, _, first, last in fields(self._data, start, end):
            if number in (_OP_TYPE, _OP_NAME):
                yield "op_type" if number == _OP_TYPE else "op_name", text_at(self._data, first, last)

    def _alias(self, start: int, end: int) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
        number = next((value for at, value, _, _ in fields(self._data, start, end) if at == 2), 0)
        return self._numbers(start, end, 1), number, self._numbers(start, end, 3)

    def _schedule(self, start: int, end: int) -> Iterator[tuple[int, list[int]]]:
        for _, _, first, last in fields(self._data, start, end):
            key, order = 0, list[int]()
            for number, value, inner, to in fields(self._data, first, last):
                if number == _KEY:
                    key = value
                elif number == _VALUE:
                    order.extend(self._numbers(inner, to, 1))
            yield key, [each & _LOCAL for each in order]

    def _computation(self, raw: _Raw, names: dict[int, _Raw], order: list[int] | None) -> Computation:
        places: dict[int, int] = {}
        found: list[Instruction] = []
        if order is not None and sorted(order) != sorted(raw.instructions):
            raise HloError(f"the schedule of {raw.name} has not its instructions")
        for at in raw.instructions if order is None else order:
            told, operands, called = raw.instructions[at]
            try:
                read = tuple(places[each & _LOCAL] for each in operands)
                calls = tuple(names[each].name for each in called)
            except KeyError:
                raise HloError(f"{told['name']} reads or calls what is not before it") from None
            if told["opcode"] == "while":
                calls = calls[::-1]  # text names the condition first
            places[at] = len(found)
            found.append(Instruction(operands=read, called=calls, **told))
        if raw.root not in places:
            raise HloError(f"{raw.name} has no result")
        return Computation(raw.name, tuple(found), places[raw.root])

    def _shape(self, start: int, end: int, depth: int = 0) -> Shape:
        key = self._data[start:end]
        known = self._shapes.get(key)
        if known is not None:
            return known
        if depth > MOST_NESTED:
            raise HloError("a tuple is nested too deeply")
        kind, dims, parts, layout = 0, list[int](), list[Shape](), dict[int, Any]()
        for each in fields(self._data, start, end):
            number, value, first, last = each
            if number == _SHAPE_TYPE:
                kind = value
            elif number == _SHAPE_DIMENSIONS:
                dims.extend(numbers_at(self._data, each))
            elif number == _SHAPE_PARTS:
                parts.append(self._shape(first, last, depth + 1))
            elif number == _SHAPE_LAYOUT:
                layout = {at: number for at, number, _, _ in fields(self._data, first, last)}
                layout[_LAYOUT_ORDER] = self._numbers(first, last, _LAYOUT_ORDER)
        if kind == _TUPLE:
            shape = tuple_of(tuple(parts))
        else:
            order = layout.get(_LAYOUT_ORDER, ())
            bits, space = layout.get(_LAYOUT_BITS, 0), layout.get(_LAYOUT_SPACE, 0)
            shape = array(_TYPES.get(kind, "?"), tuple(dims), order, bits, space)
        self._shapes[key] = shape
        return shape

    def assignment(self, start: int, end: int) -> tuple[Allocation, ...]:
        found = fields(self._data, start, end)
        return tuple(self._allocation(first, last) for at, _, first, last in found if at == _ALLOCATIONS)

    def _allocation(self, start: int, end: int) -> Allocation:
        told = {number: value for number, value, _, _ in fields(self._data, start, end)}
        argument, result, constant, local = (
            bool(told.get(each)) for each in (_IS_PARAMETER, _LIVE_OUT, _CONSTANT, _THREAD_LOCAL)
        )
        return Allocation(told.get(_SIZE, 0), argument, result, constant or local)
