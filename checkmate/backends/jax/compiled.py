"""What XLA holds and moves for a compiled step, read without running it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StepMemory:
    """Bytes of one compiled step, by XLA's own buffer assignment.

    ``shared``: bytes that are both argument and result, because the argument is donated. ``temporary``: all
    other buffers.
    """

    arguments: int
    results: int
    shared: int
    temporary: int

    @property
    def fixed(self) -> int:
        """The bytes that no schedule changes."""
        return self.arguments + self.results - self.shared

    @property
    def whole(self) -> int:
        return self.fixed + self.temporary


def memory_of(compiled: Any) -> StepMemory:
    """Return the memory of what ``jitted.lower(…).compile()`` gave."""
    found = compiled.memory_analysis()
    return StepMemory(
        int(found.argument_size_in_bytes),
        int(found.output_size_in_bytes),
        int(found.alias_size_in_bytes),
        int(found.temp_size_in_bytes),
    )


# Instructions that move no bytes: they only name a value, or a part of it.
_FREE = frozenset(
    {"bitcast", "get-tuple-element", "tuple", "parameter", "constant", "opt-barrier", "after-all"}
)
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?(%?[\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$")
_SHAPE = re.compile(r"\b([a-z]+)(\d*)(?:e\d\w*)?\[([\d,]*)\]")
_NAME = re.compile(r"%[\w.\-]+")


# Only the compiled step tells which values XLA writes to memory, and which it recomputes in each kernel that
# reads them. Two schedules of equal cost in the graph may differ by a tenth because of that. The format of
# the text is not stable; None is returned if it cannot be read.
def moved_bytes(text: str) -> int | None:
    """Return the bytes that a compiled program's kernels read and write. None: the text has another form."""
    sizes: dict[str, int] = {}
    moved = 0
    for line in _entry(text):
        found = _INSTRUCTION.match(line)
        if found is None:
            continue
        name, shape, op, rest = found.groups()
        sizes[name] = _bytes(shape)
        if op not in _FREE and not op.endswith("-done"):
            read = {each for each in _NAME.findall(_operands(rest)) if each in sizes}
            moved += sizes[name] + sum(sizes[each] for each in read)
    return moved or None


def _entry(text: str) -> list[str]:
    lines = text.splitlines()
    first = next((place for place, line in enumerate(lines) if line.startswith("ENTRY ")), len(lines))
    last = next((place for place in range(first, len(lines)) if lines[place].startswith("}")), len(lines))
    return lines[first + 1 : last]


def _operands(rest: str) -> str:
    depth = 1
    for place, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return rest[:place]
    return rest


def _bytes(shape: str) -> int:
    return sum(
        _element(kind, bits) * math.prod(map(int, filter(None, sizes.split(","))))
        for kind, bits, sizes in _SHAPE.findall(shape)
    )


def _element(kind: str, bits: str) -> int:
    return max(1, int(bits) // 8) if bits else int(kind == "pred")
