"""What XLA holds and moves for a compiled step, read without running it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StepMemory:
    """Bytes of one compiled step, by XLA's own buffer assignment.

    ``temporary``: beside arguments and results; ``shared`` of these are both, where arguments are donated.
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


# What takes no time of its own: names for a value, or for a part of it.
_FREE = frozenset(
    {"bitcast", "get-tuple-element", "tuple", "parameter", "constant", "opt-barrier", "after-all"}
)
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?(%?[\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$")
_SHAPE = re.compile(r"\b([a-z]+)(\d*)(?:e\d\w*)?\[([\d,]*)\]")
_NAME = re.compile(r"%[\w.\-]+")


# Which values XLA writes, and which it makes again in each kernel that reads them, only the compiled step
# says. So two schedules that cost as much in the graph may differ by a tenth. The text is for people and may
# change; what cannot be read says nothing.
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
