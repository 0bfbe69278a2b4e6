"""Read a module as XLA prints it (``*_optimizations.txt``, ``compiled.as_text()``)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

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

_MODULE = re.compile(r"HloModule ([^\s,]{1,1000})")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) (?:\(.*)?\{\s*$")
_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\(")
_PART = re.compile(r"[()]|([a-z]\w*)\[([^\]]*)\](?:\{([^{}]*)\})?")
_OPERAND = re.compile(r"%([\w.\-]+)")
_PLAIN_OPERAND = re.compile(r"([\w.\-]+)\s*(?:,|$)")  # where names have no %, shapes may come before them
_SHAPES = re.compile(r"\[[^\]]*\]|\{[^}]*\}|/\*.*?\*/")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|condition|body|true_computation|false_computation|called_computations"
    r"|branch_computations)=(?:\{([^}]*)\}|%?([\w.\-]+))"
)
_OP_NAME = re.compile(r'\bop_name="((?:[^"\\]|\\.)*)"')
_OP_TYPE = re.compile(r'\bop_type="([^"]*)"')
_NUMBER = re.compile(r"\bindex=(\d{1,9})")
_KIND = re.compile(r"\bkind=(\w+)")
_CONTRACTED = re.compile(r"\blhs_contracting_dims=\{([\d,]*)\}")
_LABELS = re.compile(r"\bdim_labels=\w+_(\w+)->")
_OUTPUT = re.compile(r"\{([\d, ]*)\}: \((\d{1,9}), \{([\d, ]*)\}")
_SPACE, _BITS = re.compile(r"S\((\d{1,4})\)"), re.compile(r"E\((\d{1,4})\)")
_MOST_DIGITS = 18
_LIBRARY = re.compile(r'"lhs_contracting_dimensions":\["?(\d{1,3})')  # of a library's product


def begins_as_module(start: bytes) -> bool:
    return start.lstrip().startswith(b"HloModule ")


def read_module(lines: Iterable[str]) -> Module:
    """Raise HloError where the lines are no module."""
    reader = _Reader()
    for line in lines:
        reader.read(line)
    return reader.module()


class _Reader:
    def __init__(self) -> None:
        self._head = ""
        self._entry = ""
        self._computations: dict[str, Computation] = {}
        self._open: tuple[str, list[Instruction], dict[str, int]] | None = None
        self._root = -1
        self._shapes: dict[str, Shape] = {}
        self._count = 0
        self._keras = False

    def read(self, line: str) -> None:
        self._keras = self._keras or KERAS in line
        if self._open is None:
            self._outside(line)
        elif line.startswith("}"):
            self._close()
        elif (found := _INSTRUCTION.match(line)) is not None:
            self._instruction(found, line)
        elif line.strip():
            raise HloError(f"a line of {self._open[0]} is no instruction")

    def module(self) -> Module:
        found = _MODULE.match(self._head)
        if found is None:
            raise HloError("there is no line that begins with HloModule")
        if self._open is not None:
            raise HloError(f"{self._open[0]} is cut off")
        if not self._entry:
            raise HloError("there is no ENTRY computation")
        aliases = _aliases(self._head, "input_output_alias={")
        scheduled = "is_scheduled=true" in self._head
        entry = self._computations[self._entry]
        return Module(found[1], entry, self._computations, scheduled, aliases, self._keras)

    def _outside(self, line: str) -> None:
        if not self._head:
            self._head = line.lstrip() if _MODULE.match(line.lstrip()) else ""
        elif line.rstrip().endswith("{") and (found := _COMPUTATION.match(line)) is not None:
            self._open, self._root = (found[2], [], {}), -1
            if found[1]:
                self._entry = found[2]

    def _close(self) -> None:
        assert self._open is not None
        name, instructions, _ = self._open
        if not instructions:
            raise HloError(f"{name} has no instruction")
        root = self._root if self._root >= 0 else len(instructions) - 1
        self._computations[name] = Computation(name, tuple(instructions), root)
        self._open = None

    def _instruction(self, found: re.Match[str], line: str) -> None:
        assert self._open is not None
        _, instructions, places = self._open
        root, name, shape, opcode = found.groups()
        self._count += 1
        if self._count > MOST_INSTRUCTIONS:
            raise HloError(f"it has more than {MOST_INSTRUCTIONS:,} instructions")
        end = _end_of_operands(line, found.end())
        inside, rest = line[found.end() : end], line[end + 1 :]
        told = _attributes(opcode, rest)
        operands: tuple[int, ...] = ()
        if opcode == "parameter":
            told["number"] = _whole(inside)
        elif opcode == "constant":
            told["number"] = int(inside) if inside.isdecimal() and len(inside) < _MOST_DIGITS else 0
        elif inside:
            operands = tuple(self._place(places, each, name) for each in _names(inside))
        if root:
            self._root = len(instructions)
        places[name] = len(instructions)
        instructions.append(Instruction(name, opcode, self._shape(shape), operands, **told))

    def _place(self, places: dict[str, int], operand: str, name: str) -> int:
        if operand not in places:
            raise HloError(f"{name} reads {operand}, which is not before it")
        return places[operand]

    def _shape(self, text: str) -> Shape:
        found = self._shapes.get(text)
        if found is None:
            found = self._shapes[text] = shape_of(text)
        return found


def shape_of(text: str) -> Shape:
    """Return the shape that ``text`` tells, such as ``(f32[2,3]{1,0}, s32[])``."""
    stack: list[list[Shape]] = [[]]
    for found in _PART.finditer(text):
        if found[0] == "(":
            stack.append([])
            if len(stack) > MOST_NESTED:
                raise HloError("a tuple is nested too deeply")
        elif found[0] == ")":
            if len(stack) < 2:
                break
            parts = tuple(stack.pop())
            stack[-1].append(tuple_of(parts))
        else:
            stack[-1].append(_array(found[1], found[2], found[3] or ""))
    if len(stack) != 1 or len(stack[0]) != 1:
        raise HloError(f"{text[:40]!r} is no shape")
    return stack[0][0]


def _array(dtype: str, dims: str, layout: str) -> Shape:
    sizes = tuple(_whole(each.lstrip("<= ")) for each in dims.split(",") if each)
    order, _, more = layout.partition(":")
    bits, space = _BITS.search(more), _SPACE.search(more)
    minor = tuple(_whole(each) for each in order.split(",") if each)
    return array(dtype, sizes, minor, int(bits[1]) if bits else 0, int(space[1]) if space else 0)


def _end_of_operands(line: str, start: int) -> int:
    end, inner = line.find(")", start), line.find("(", start)
    if end < 0:
        raise HloError("a line is cut off")
    if not 0 <= inner < end:
        return end
    depth = 1
    for found in re.compile(r"[()]").finditer(line, start):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return found.start()
    raise HloError("a line is cut off")


def _names(inside: str) -> list[str]:
    if "%" in inside:
        return _OPERAND.findall(inside)
    return _PLAIN_OPERAND.findall(_SHAPES.sub("", inside))


def _attributes(opcode: str, rest: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if (named := _OP_NAME.search(rest)) is not None:
        told["op_name"] = named[1]
    if (typed := _OP_TYPE.search(rest)) is not None:
        told["op_type"] = typed[1]
    if opcode == "get-tuple-element":
        number = _NUMBER.search(rest)
        if number is None:
            raise HloError("a get-tuple-element has no index")
        told["number"] = int(number[1])
    elif opcode == "dot" and (dims := _CONTRACTED.search(rest)) is not None:
        told["contracted"] = _index(dims[1])
    elif opcode == "custom-call" and (library := _LIBRARY.search(rest)) is not None:
        told["contracted"] = (int(library[1]),)
    elif opcode == "convolution" and (labels := _LABELS.search(rest)) is not None:
        told["contracted"] = (labels[1].find("o"),)
    if "=%" in rest or "computations={" in rest or "to_apply=" in rest or "calls=" in rest or "body=" in rest:
        called = (
            _OPERAND.findall(many) or many.split(", ") if many else [one]
            for many, one in _CALLED.findall(rest)
        )
        told["called"] = tuple(name for names in called for name in names)
    if opcode == "fusion" and (kind := _KIND.search(rest)) is not None:
        told["kind"] = kind[1]
    if "output_to_operand_aliasing={" in rest:
        told["aliases"] = _aliases(rest, "output_to_operand_aliasing={")
    return told


def _aliases(text: str, mark: str) -> tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...]:
    start = text.find(mark)
    if start < 0:
        return ()
    start += len(mark)
    depth, end = 1, start
    while depth and end < len(text):
        depth += (text[end] == "{") - (text[end] == "}")
        end += 1
    found = _OUTPUT.findall(text[start:end])
    return tuple((_index(output), int(number), _index(inside)) for output, number, inside in found)


def _index(text: str) -> tuple[int, ...]:
    return tuple(_whole(each.strip()) for each in text.split(",") if each.strip())


def _whole(text: str) -> int:
    text = text.strip()
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise HloError(f"{text[:20]!r} is no number")
    return int(text)
