"""Which results XLA writes over an operand: in place, or where each element is read before it is written."""

from __future__ import annotations

from collections.abc import Iterator

from checkmate.hlo.module import Computation, Instruction, Module

ELEMENTWISE = frozenset({
    "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "clz", "compare", "complex", "convert", "copy",
    "cosine", "divide", "erf", "exponential", "exponential-minus-one", "floor", "imag", "is-finite",
    "log", "log-plus-one", "logistic", "map", "maximum", "minimum", "multiply", "negate", "not", "or",
    "popcnt", "power", "real", "reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even",
    "rsqrt", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign", "sine",
    "sqrt", "stochastic-convert", "subtract", "tan", "tanh", "xor",
})  # fmt: skip
IN_PLACE = frozenset({"dynamic-update-slice", "scatter"})
_Pair = tuple[tuple[int, ...], int, tuple[int, ...]]


def overwrites(module: Module, each: Instruction) -> tuple[_Pair, ...]:
    """Return (index in the result, operand, index in it) of what ``each`` writes in place."""
    if each.aliases:
        return each.aliases
    if each.opcode == "dynamic-update-slice":
        return (((), 0, ()),)
    if each.opcode == "scatter":
        count = len(each.operands) // 2
        return tuple(((at,) if count > 1 else (), at, ()) for at in range(count))
    if each.opcode == "fusion" and each.called:
        return tuple(_in_fusion(module, module.called(each)[0]))
    return ()


def _in_fusion(module: Module, body: Computation) -> Iterator[_Pair]:
    root = body.instructions[body.root]
    outputs = root.operands if root.opcode == "tuple" else (body.root,)
    for at, place in enumerate(outputs):
        index = (at,) if root.opcode == "tuple" else ()
        last = body.instructions[_through(body, place)]
        if last.opcode in IN_PLACE:
            source = body.instructions[_through(body, last.operands[0])]
            if source.opcode == "parameter":
                yield index, source.number, ()


def _through(body: Computation, place: int) -> int:
    while body.instructions[place].opcode == "bitcast":
        place = body.instructions[place].operands[0]
    return place


def shares_with(module: Module, each: Instruction, operand: int, place: int) -> bool:
    """Whether the result at ``place`` may be written over that operand, of the same shape, if it dies."""
    if each.opcode == "fusion" and each.called:
        return each.kind in ("kLoop", "kInput") and _only_elementwise(module.called(each)[0], operand)
    if each.opcode == "sort":
        return place == (operand + 1 if each.shape.parts else 0)
    return each.opcode in ELEMENTWISE and each.opcode != "copy"


def _only_elementwise(body: Computation, number: int) -> bool:
    """Whether all that a parameter becomes is made element by element."""
    if number >= len(body.parameters):
        return False
    reached = {body.parameters[number]}
    for at, each in enumerate(body.instructions):
        if reached.intersection(each.operands):
            if each.opcode not in ELEMENTWISE and each.opcode != "tuple":
                return False
            reached.add(at)
    return True
